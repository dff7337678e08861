"""franz-go: the tests of the client package `kgo`, from its Go module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.model import LeftOut, Suite, Target, TestResult
from conformance.runners.go_suite import run_go_test

MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the tests. KGO_SEEDS names the brokers, and KGO_TEST_RF the replication factor.

    The tests write fewer records than in franz-go's CI, which has several brokers.
    """
    files = sources.go_module(MODULE, VERSION)
    env = {
        "KGO_SEEDS": target.bootstrap,
        "KGO_TEST_RF": str(target.replicas),
        "KGO_TEST_RECORDS": "50000",
        "GOFLAGS": "-mod=mod",
    }
    return run_go_test(files, "pkg/kgo", "^Test", work, rules, env=env)


SUITE = Suite(
    name="franz-go",
    version=VERSION,
    tests="All tests of the package kgo: groups of every balancer, transactions end to end, units without a broker.",
    run=run,
    left_out=(LeftOut("Share", "needs share groups (KIP-932), which Kafka 4 introduced"),),
    broker_settings={"auto.create.topics.enable": "true"},
)
