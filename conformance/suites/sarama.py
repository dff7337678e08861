"""sarama: its functional tests, from its Go module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.model import LeftOut, Suite, Target, TestResult
from tests.peers.cache import MissingPeerError

MODULE, VERSION = "github.com/IBM/sarama", "v1.46.3"


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """They start five brokers and a proxy between in containers, and address them by fixed names and ports."""
    sources.go_module(MODULE, VERSION)
    raise MissingPeerError("missing because its functional tests are written for five brokers behind Toxiproxy")


SUITE = Suite(
    name="sarama",
    version=VERSION,
    tests="Functional tests of producer, consumer, groups, transactions and admin client.",
    run=run,
)
