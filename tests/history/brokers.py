"""The broker of a history, ours or Apache Kafka's; it is killed and restarted in place."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from peers.kafka import KAFKA_3, ApacheKafka
from tests.support.kafkalog_broker import KafkalogBroker

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
"""What makes a history short: nobody waits for what a crash left behind longer than needed."""


class HistoryBroker(Protocol):
    """What a scenario asks of a broker."""

    @property
    def bootstrap(self) -> str:
        """host:port."""

    def kill(self) -> None:
        """SIGKILL."""

    def restart(self) -> None:
        """Start again on the same port and directory; returns when it answers."""

    def close(self) -> None:
        """End it for good."""


class Kafkalog:
    """Our broker."""

    def __init__(self, directory: Path) -> None:
        self._broker = KafkalogBroker(directory, SETTINGS).start()
        self.bootstrap = self._broker.bootstrap
        self.kill = self._broker.kill
        self.close = self._broker.kill

    def restart(self) -> None:
        self._broker.start()


_APACHE = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}
"""A broker that was killed is let in again when its session has ended."""


class Apache:
    """Apache Kafka."""

    def __init__(self, directory: Path, version: str = KAFKA_3) -> None:
        self._broker = ApacheKafka(version, directory=directory, config={**SETTINGS, **_APACHE})
        self._broker.start()
        self.bootstrap = self._broker.bootstrap
        self.kill = self._broker.kill
        self.restart = self._broker.restart
        self.close = self._broker.kill


def start(kind: str, directory: Path) -> HistoryBroker:
    """A running broker: ``kafkalog``, ``apache``, or ``apache:VERSION``."""
    name, _, version = kind.partition(":")
    if name == "kafkalog":
        return Kafkalog(directory)
    return Apache(directory, version or KAFKA_3)
