"""The brokers of a history: one of ours or of Apache Kafka's, or a cluster of ours. Faults happen to them in place."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from peers.brokers.kafka import KAFKA_3, ApacheKafka
from tests.crash.cluster.drilled import drilled_cluster
from tests.history.plan import BROKER, Act
from tests.support.broker_cluster import IDS
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
    """The operations of a scenario on a broker or a cluster."""

    @property
    def count(self) -> int:
        """Return the number of brokers."""

    @property
    def bootstrap(self) -> str:
        """Return host:port of each broker, separated by commas."""

    def inflict(self, target: str, act: Act) -> None:
        """Bring a fault about; return when that is done. A broker that starts again responds by then."""

    def settle(self, topics: Iterable[str]) -> None:
        """Wait until all replicas of these topics are in sync, and every broker knows it."""

    def close(self) -> None:
        """Stop the brokers permanently."""


class _Alone:
    """A broker that is a cluster of its own: it is killed, and starts again at once."""

    count = 1

    def __init__(self, broker: KafkalogBroker | ApacheKafka) -> None:
        self._broker = broker
        self.bootstrap = broker.bootstrap
        self.close = broker.kill

    def inflict(self, target: str, act: Act) -> None:
        assert (target, act) == (BROKER, Act.KILL), (target, act)
        self._broker.kill()
        if isinstance(self._broker, ApacheKafka):
            self._broker.restart()
        else:
            self._broker.start()

    def settle(self, topics: Iterable[str]) -> None: ...


_APACHE = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}
"""The session time-out: a killed broker may register again after it."""


_CLUSTER = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "3000"}
"""The seconds for which a paused broker holds the others up."""


class Cluster:
    """Three of our brokers over ZooKeeper. Topics have three replicas, and acks=all needs two of them."""

    count = len(IDS)

    def __init__(self, directory: Path) -> None:
        settings = {**SETTINGS, **_CLUSTER}
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self.drilled = stack.enter_context(drilled_cluster(directory, settings))
            self._stack = stack.pop_all()
        self.bootstrap = self.drilled.bootstrap
        self.close = self._stack.close

    def inflict(self, target: str, act: Act) -> None:
        cluster = self.drilled
        numbers = IDS if target == BROKER else [int(target.removeprefix(BROKER))]
        for number in numbers:
            match act:
                case Act.KILL | Act.END:
                    cluster.kill(number)
                case Act.STOP:
                    cluster.stop(number)
                case Act.FREEZE:
                    os.kill(cluster.brokers[number].pid, signal.SIGSTOP)
                case Act.THAW:
                    os.kill(cluster.brokers[number].pid, signal.SIGCONT)
        if act in (Act.KILL, Act.START):
            for number in numbers:
                cluster.start(number)

    def settle(self, topics: Iterable[str]) -> None:
        self.drilled.wait_alive()
        for topic in topics:
            self.drilled.wait_whole(topic)


def start(kind: str, directory: Path) -> HistoryBroker:
    """Run brokers: `kafkalog`, `cluster`, `apache`, or `apache:VERSION`."""
    name, _, version = kind.partition(":")
    if name == "cluster":
        return Cluster(directory)
    if name == "kafkalog":
        return _Alone(KafkalogBroker(directory, SETTINGS).start())
    apache = ApacheKafka(version or KAFKA_3, directory=directory, config={**SETTINGS, **_APACHE})
    apache.start()
    return _Alone(apache)
