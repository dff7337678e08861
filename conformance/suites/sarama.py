"""sarama: the functional tests, from its Go module. The brokers are behind the five proxies that the tests name.

The authors have five brokers. With fewer the last proxies lead to the first brokers again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.model import Explained, LeftOut, Suite, Target, TestResult
from conformance.runners.go_suite import run_go_test
from conformance.targets.toxiproxy import toxiproxy

MODULE, VERSION = "github.com/IBM/sarama", "v1.46.3"
PROXIES = {f"kafka{number}": f"127.0.0.1:{29090 + number}" for number in range(1, 6)}
"""The names and addresses in sarama's tests."""


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the tests. They expect three replicas; with one broker they are edited to expect one, and nothing else."""
    files = work / "files"
    shutil.copytree(sources.go_module(MODULE, VERSION), files)
    if target.replicas != 3:
        sources.edit(
            files / "functional_test.go",
            {
                "ReplicationFactor: 3": f"ReplicationFactor: {target.replicas}",
                "len(partition.Isr) != 3": f"len(partition.Isr) != {target.replicas}",
            },
        )
    name, _, version = target.kind.partition(":")
    with toxiproxy(PROXIES, target.brokers, work) as address:
        env = {
            **target.environment,
            "TOXIPROXY_ADDR": address,
            "KAFKA_VERSION": version if name == "apache" else "3.9.2",
        }
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
            alone=True,
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
        "auto.create.topics.enable": "false",
    },
    # As in the authors' docker-compose.yml. Internal topics have three replicas, as Kafka's default is, and not two.
    cluster_settings={
        "default.replication.factor": "2",
        "zookeeper.session.timeout.ms": "6000",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    },
    advertised=tuple(PROXIES.values()),
)
