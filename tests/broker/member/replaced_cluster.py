"""Three places for brokers over one ZooKeeper, each with an id, a directory and an address.

In each place there is a broker of Apache Kafka or one of ours. The other one can take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from tests.support.broker_cluster import IDS, BrokerCluster
from tests.support.kafkalog_broker import KafkalogBroker

INTERNAL = ("__consumer_offsets", "__transaction_state")
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}


class ReplacedCluster(BrokerCluster):
    """See the module. `protocol` is the `inter.broker.protocol.version` of all brokers.

    Attributes:
        ours: the places whose broker is ours at present.
    """

    def __init__(self, directory: Path, zookeeper: str, version: str, protocol: str) -> None:
        settings = {**SETTINGS, "inter.broker.protocol.version": protocol}
        self.ours: set[int] = set()
        self._theirs: dict[int, ZooKeeperKafka] = {}
        self._own: dict[int, KafkalogBroker] = {}
        for number in IDS:
            place = directory / str(number)
            config = {**settings, "broker.id": str(number)}
            theirs = ZooKeeperKafka(version, zookeeper, directory=place, config=config, heap=("-Xmx300M", "-Xms100M"))
            own = KafkalogBroker(place / "ours", {**config, "zookeeper.connect": zookeeper})
            own.log_dir = theirs.log_dir
            self._theirs[number], self._own[number] = theirs, own

    def start(self) -> None:
        """Start a broker of Apache Kafka in each place."""
        for theirs in self._theirs.values():
            theirs.start(wait=False)
        self.wait_alive()
        for number, own in self._own.items():
            own.address = self._theirs[number].bootstrap

    def kill(self) -> None:
        """Kill what runs."""
        for number in IDS:
            self._theirs[number].kill()
            self._own[number].kill()

    def replace(self, number: int) -> None:
        """Stop the broker of a place by SIGTERM, and start one of the other side there."""
        if number in self.ours:
            assert self._own[number].stop() == 0, self._own[number].logged()
            self.ours.remove(number)
            self._theirs[number].restart()
        else:
            self._theirs[number].stop()
            self.ours.add(number)
            self._own[number].start()

    def places_with_the_controller_last(self) -> list[int]:
        """Return all ids, in the order in which the brokers are to be replaced."""
        boss = self.controller()
        assert boss in IDS
        return sorted(IDS, key=lambda number: (number == boss, number))

    def address(self, broker: int) -> str:
        return self._theirs[broker].bootstrap

    def replicas(self, broker: int, topic: str, index: int) -> Iterable[Path]:
        return [self._theirs[broker].log_dir / f"{topic}-{index}"]

    def files(self, topic: str) -> dict[tuple[int, int], int]:
        """Return the number (inode) of the first segment's file of each replica, by broker and partition."""
        return {
            (number, int(segment.parent.name.rpartition("-")[2])): segment.stat().st_ino
            for number, theirs in self._theirs.items()
            for segment in theirs.log_dir.glob(f"{topic}-*/00000000000000000000.log")
        }


@contextmanager
def replaced_cluster(directory: Path, version: str, protocol: str) -> Iterator[ReplacedCluster]:
    """Run three brokers of this version of Apache Kafka; all processes end with the block."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, directory / "zookeeper"))
        zookeeper.wait()
        cluster = ReplacedCluster(directory, zookeeper.address, version, protocol)
        stack.callback(cluster.kill)
        cluster.start()
        yield cluster
