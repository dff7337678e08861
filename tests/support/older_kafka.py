"""Brokers of older releases of Apache Kafka, which run with a ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers import require
from peers.brokers import kafka
from tests.support.member import zookeeper_process

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    # The default since Kafka 1.0.
    "delete.topic.enable": "true",
}


@contextmanager
def older_kafka(version: str, directory: Path) -> Iterator[str]:
    """Run a broker of a release; give its address."""
    require(kafka.missing(version))
    with (
        zookeeper_process(directory / "zookeeper") as zookeeper,
        kafka.ZooKeeperKafka(
            version, zookeeper, directory=directory / "kafka", config=SETTINGS, heap=("-Xmx256M",)
        ) as broker,
    ):
        yield broker.bootstrap
