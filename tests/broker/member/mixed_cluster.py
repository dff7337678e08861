"""A cluster of two Apache Kafka brokers, 1 and 2, and one of ours, 3, over one ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalog.protocol.messages.metadata import MetadataResponsePartition
from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from peers.process import free_port
from tests.support.broker_cluster import IDS, BrokerCluster, admin_client
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

OURS = 3
THEIRS = (1, 2)
HEAP = ("-Xmx300M", "-Xms100M")
SHARED = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "4000",
    "zookeeper.session.timeout.ms": "6000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}


class MixedCluster(BrokerCluster):
    """See the module. The first broker to start, 1, is the controller.

    Attributes:
        ours: broker 3.
        theirs: brokers 1 and 2.
    """

    def __init__(self, directory: Path, zookeeper: str, protocol: str) -> None:
        settings = {**SHARED, "inter.broker.protocol.version": protocol}
        self.theirs = {
            number: ZooKeeperKafka(
                kafka.KAFKA_3,
                zookeeper,
                directory=directory / str(number),
                config={**settings, "broker.id": str(number)},
                heap=HEAP,
            )
            for number in THEIRS
        }
        own = {
            "broker.id": str(OURS),
            "zookeeper.connect": zookeeper,
            # Sooner than anybody needs outside of tests.
            "kafkalog.role.check.interval.ms": "3000",
        }
        self.ours = KafkalogBroker(directory / str(OURS), {**settings, **own})
        self._admins: dict[int, AdminClient] = {}
        self.ours.address = f"127.0.0.1:{free_port()}"

    def start(self) -> None:
        """Start all brokers; return when each knows of the others."""
        self.theirs[1].start()
        self.theirs[2].start(wait=False)
        self.ours.start()
        self.wait_alive()

    @property
    def bootstrap(self) -> str:
        return self.theirs[1].bootstrap

    def address(self, broker: int) -> str:
        return self.ours.address if broker == OURS else self.theirs[broker].bootstrap

    def log_dir(self, broker: int) -> Path:
        return self.ours.log_dir if broker == OURS else self.theirs[broker].log_dir

    def replicas(self, broker: int, topic: str, index: int) -> Iterable[Path]:
        return [self.log_dir(broker) / f"{topic}-{index}"]

    def admin(self, broker: int = 1) -> AdminClient:
        """Return a client that asks this broker first. It may believe in a controller of before."""
        if broker not in self._admins:
            self._admins[broker] = admin_client(self.address(broker))
        return self._admins[broker]

    def elect_preferred(self, topic: str | None = None) -> None:
        self._admins.clear()
        super().elect_preferred(topic)

    def delete(self, topic: str) -> None:
        self._admins.clear()
        self.admin(1).delete_topics([topic])[topic].result(60)

    # -- what there is

    def partition(self, topic: str, index: int = 0, broker: int = 1) -> MetadataResponsePartition:
        return self.partitions(topic, broker).get(index, MetadataResponsePartition())

    def wait_isr(self, topic: str, isr: Iterable[int], index: int = 0, broker: int = 1) -> None:
        """Wait until the ISR is this one, as a broker describes it."""
        wanted = set(isr)
        wait_until(
            lambda: set(self.partition(topic, index, broker).isr_nodes) == wanted,
            f"the ISR of {topic} becomes {wanted}",
        )

    def wait_leader(self, topic: str, leader: int, index: int = 0, broker: int = 1) -> None:
        wait_until(lambda: self.partition(topic, index, broker).leader_id == leader, f"{leader} leads {topic}")

    # -- what clients do

    def create(
        self, topic: str, assignment: list[list[int]], config: Mapping[str, str] | None = None, broker: int = 1
    ) -> None:
        """Create a topic; return when every broker knows its leaders."""
        self._admins.clear()
        new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=dict(config or {}))
        self.admin(broker).create_topics([new], operation_timeout=30)[topic].result(60)
        for number in IDS:
            wait_until(partial(self._is_led, topic, len(assignment), number), f"{number} knows {topic}")

    def _is_led(self, topic: str, partitions: int, broker: int) -> bool:
        found = self.partitions(topic, broker)
        return len(found) == partitions and all(each.leader_id > 0 for each in found.values())

    def writer(self, **settings: str) -> Writer:
        servers = ",".join(map(self.address, IDS))
        return Writer(servers, settings)

    def read(self, topic: str, index: int = 0) -> list[bytes]:
        """Return the values of all records that consumers see."""
        servers = ",".join(map(self.address, IDS))
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
        try:
            place = TopicPartition(topic, index, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=60)
            consumer.assign([place])
            values: list[bytes] = []
            while consumer.position([place])[0].offset < end:
                message = consumer.poll(60)
                assert message is not None, "nothing comes"
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
            return values
        finally:
            consumer.close()


class Writer:
    """Produces with acks=all, and remembers what was acknowledged.

    Attributes:
        acknowledged: the values, in the order of their acknowledgements.
        failed: the errors of the others.
    """

    def __init__(self, servers: str, settings: Mapping[str, str]) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "log_level": 0,
                "linger.ms": "1",
                "message.timeout.ms": "120000",
                "retry.backoff.ms": "50",
                "retry.backoff.max.ms": "200",
                "topic.metadata.refresh.fast.interval.ms": "50",
                **settings,
            }
        )
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []

    def send(self, topic: str, values: Iterable[bytes], index: int = 0) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=index, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.failed.append(str(error))

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def flush(self) -> None:
        left = self._producer.flush(130)
        assert not left, f"{left} records are neither acknowledged nor refused"
        assert not self.failed, self.failed[:3]


@contextmanager
def mixed_cluster(directory: Path, protocol: str) -> Iterator[MixedCluster]:
    """Run a cluster, whose processes all end with the block."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, directory / "zookeeper"))
        zookeeper.wait()
        cluster = MixedCluster(directory, zookeeper.address, protocol)
        for broker in cluster.theirs.values():
            stack.callback(broker.kill)
        stack.callback(cluster.ours.kill)
        cluster.start()
        yield cluster
