"""Three places for brokers over one ZooKeeper, each with an id, a directory and an address.

In each place there is a broker of Apache Kafka or one of ours. The other one can take its place.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import exchange

IDS = (1, 2, 3)
DEADLINE_S = 120.0
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


class ReplacedCluster:
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

    # -- what there is

    @property
    def bootstrap(self) -> str:
        return ",".join(theirs.bootstrap for theirs in self._theirs.values())

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metadata(self, number: int) -> MetadataResponse:
        """Return the cluster as a broker describes it; nothing if it does not answer."""
        host, _, port = self._theirs[number].bootstrap.rpartition(":")
        with contextlib.suppress(OSError, EOFError), socket.create_connection((host, int(port)), timeout=20) as link:
            response: MetadataResponse = exchange(link, MetadataRequest(topics=None), 9)
            return response
        return MetadataResponse(controller_id=-1)

    def controller(self) -> int:
        """Return the controller that all brokers agree on, or -1."""
        known = {self.metadata(number).controller_id for number in IDS}
        return known.pop() if len(known) == 1 else -1

    def partitions(self, topic: str, number: int) -> dict[int, MetadataResponsePartition]:
        """Return a topic's partitions as a broker describes them; none if it does not know the topic."""
        found = [each for each in self.metadata(number).topics if each.name == topic]
        return {each.partition_index: each for topic in found for each in topic.partitions}

    def create(self, topic: str, assignment: list[list[int]]) -> None:
        """Create a topic; return when all replicas are in sync."""
        new = NewTopic(topic, len(assignment), replica_assignment=assignment)
        admin = self.admin()
        admin.create_topics([new], operation_timeout=30)[topic].result(60)
        self.wait_whole(topic)

    def elect_preferred(self) -> None:
        """Have the first replicas of all partitions lead them."""
        admin = self.admin()
        admin.elect_leaders(ElectionType.PREFERRED).result(60)

    def wait_alive(self) -> None:
        """Wait until each broker knows all of them, and they agree on the controller."""
        wait_until(self._are_alive, "all brokers know each other", DEADLINE_S)

    def _are_alive(self) -> bool:
        found = [self.metadata(number) for number in IDS]
        return (
            all({each.node_id for each in metadata.brokers} == set(IDS) for metadata in found)
            and len({metadata.controller_id for metadata in found}) == 1
            and found[0].controller_id in IDS
        )

    def wait_whole(self, topic: str) -> None:
        """Wait until all brokers know that all partitions have leaders and all replicas are in sync."""
        wait_until(lambda: all(self._is_whole(topic, number) for number in IDS), f"{topic} is whole", DEADLINE_S)

    def _is_whole(self, topic: str, number: int) -> bool:
        found = self.partitions(topic, number).values()
        return bool(found) and all(each.leader_id > 0 and set(each.isr_nodes) == set(IDS) for each in found)

    def wait_equal(self, topic: str, index: int, of: Iterable[int]) -> None:
        """Wait until replicas have the same bytes."""
        brokers = list(of)
        wait_until(
            lambda: len({self._log(number, topic, index) for number in brokers}) == 1,
            f"the logs of {topic}-{index} are equal",
            DEADLINE_S,
        )

    def files(self, topic: str) -> dict[tuple[int, int], int]:
        """Return the number (inode) of the first segment's file of each replica, by broker and partition."""
        return {
            (number, int(segment.parent.name.rpartition("-")[2])): segment.stat().st_ino
            for number, theirs in self._theirs.items()
            for segment in theirs.log_dir.glob(f"{topic}-*/00000000000000000000.log")
        }

    def _log(self, number: int, topic: str, index: int) -> bytes:
        files = sorted((self._theirs[number].log_dir / f"{topic}-{index}").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)


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
