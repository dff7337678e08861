"""Fixtures: the brokers that consumers are tested against, ours and Apache Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from peers import require
from peers.brokers import kafka
from tests.kafkalog.client.consumer.support import SESSION_MS, Kip848Live, Live
from tests.support.kafkalog_broker import KafkalogBroker

OURS, APACHE = "kafkalog", "Apache Kafka"
GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.migration.policy": "bidirectional",
}


@pytest.fixture(scope="session")
def apache_kafka(foreign_programs: None) -> Iterator[str]:
    """Return host:port of an Apache Kafka whose groups do not wait for more members."""
    require(kafka.missing(kafka.KAFKA_3))
    with kafka.ApacheKafka(kafka.KAFKA_3, heap=("-Xmx512M",), config=GROUPS) as running:
        yield running.bootstrap


@pytest.fixture(scope="session")
def group_broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return host:port of our broker, whose groups do not wait, or the broker that KAFKALOG_TEST_BOOTSTRAP names."""
    given = os.environ.get("KAFKALOG_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with KafkalogBroker(tmp_path_factory.mktemp("group-broker"), GROUPS) as running:
        yield running.bootstrap


@pytest.fixture(params=[OURS, pytest.param(APACHE, marks=pytest.mark.peer)])
def live(processes: None, request: pytest.FixtureRequest) -> Live:
    """Run the test with each of the brokers."""
    name = "apache_kafka" if request.param == APACHE else "group_broker"
    return Live(request.getfixturevalue(name))


@pytest.fixture(scope="session")
def apache_kafka_4(foreign_programs: None) -> Iterator[str]:
    """Return host:port of an Apache Kafka that serves the consumer protocol by default."""
    require(kafka.missing(kafka.KAFKA_4))
    with kafka.ApacheKafka(kafka.KAFKA_4, heap=("-Xmx512M",), config=GROUPS) as running:
        yield running.bootstrap


@pytest.fixture(params=[OURS, pytest.param(APACHE, marks=[pytest.mark.peer])])
def kip848(processes: None, request: pytest.FixtureRequest) -> Live:
    """Run the test with each of the brokers, for members of the consumer protocol."""
    return Kip848Live(request.getfixturevalue("apache_kafka_4" if request.param == APACHE else "group_broker"))
