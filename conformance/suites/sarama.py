"""sarama: the functional tests, from its Go module. One broker is behind the five proxies that the tests name."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.go_suite import run_go_test
from conformance.model import Explained, LeftOut, Suite, Target, TestResult
from conformance.toxiproxy import toxiproxy

MODULE, VERSION = "github.com/IBM/sarama", "v1.46.3"
PROXIES = {f"kafka{number}": f"127.0.0.1:{29090 + number}" for number in range(1, 6)}
"""The names and addresses in sarama's tests."""
ADVERTISED = PROXIES["kafka1"]


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the tests. They expect three replicas; with one broker they are edited to expect one, and nothing else."""
    files = work / "files"
    shutil.copytree(sources.go_module(MODULE, VERSION), files)
    sources.edit(
        files / "functional_test.go",
        {"ReplicationFactor: 3": "ReplicationFactor: 1", "len(partition.Isr) != 3": "len(partition.Isr) != 1"},
    )
    with toxiproxy(PROXIES, target.bootstrap, work) as address:
        env = {"TOXIPROXY_ADDR": address, "KAFKA_VERSION": target.kind.partition(":")[2] or "3.9.2"}
        return run_go_test(files, ".", FUNCTIONAL, work, rules, env=env, args=["-tags=functional"])


FUNCTIONAL = "^(TestFunc|TestConsumer(HighWaterMark|FetchFollower|GroupDeadlock)|TestVersionMatrix|TestInterceptors$|"
FUNCTIONAL += "TestReadOnly|TestAsyncProducerRemoteBrokerClosed)"

SUITE = Suite(
    name="sarama",
    version=VERSION,
    tests="Functional tests of producer, consumer, groups, transactions and admin client, from its Go module.",
    run=run,
    left_out=(
        LeftOut(
            "TestConsumerFetchFollowerFailover|TestFuncTxnProduceWithBrokerFailure|TestFuncAdminListConsumerGroupOffsets",
            "stops one of several brokers",
        ),
        LeftOut("TestFuncAdminDescribeLogDirs", "needs five brokers"),
        LeftOut("TestFuncIdempotentBufferedSequence", "reads the log of a broker that runs in a container"),
    ),
    explained=(
        Explained(
            r"TestFuncProducing\w*/.*",
            "expects three batches of 1000 messages; the client sometimes makes two",
        ),
    ),
    broker_settings={
        "broker.id": "1",
        "advertised.listeners": f"PLAINTEXT://{ADVERTISED}",
        "auto.create.topics.enable": "false",
    },
)
