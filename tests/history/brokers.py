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
"""Settings that make a history short: nobody waits longer than needed for leftovers of a crash."""


class HistoryBroker(Protocol):
    """The operations of a scenario on a broker."""

    @property
    def bootstrap(self) -> str:
        """Return host:port."""

    def kill(self) -> None:
        """Send SIGKILL."""

    def restart(self) -> None:
        """Start again on the same port and directory; return when the broker responds."""

    def close(self) -> None:
        """Stop the broker permanently."""


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
"""The session time-out: a killed broker may register again after it."""


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
    """Run a broker: `kafkalog`, `apache`, or `apache:VERSION`."""
    name, _, version = kind.partition(":")
    if name == "kafkalog":
        return Kafkalog(directory)
    return Apache(directory, version or KAFKA_3)
