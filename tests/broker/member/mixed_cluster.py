"""A cluster of three brokers over one ZooKeeper: 1 is of Apache Kafka, 3 is ours, and 2 is of either side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
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

THEIRS, OURS = 1, 3
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


class Mix(NamedTuple):
    """The brokers of a mixed cluster."""

    release: str
    """The release of Apache Kafka."""
    protocol: str
    """The `inter.broker.protocol.version` of all brokers."""
    our_count: int = 1
    """The number of our brokers."""


AS_2_8, AS_3_9 = Mix(kafka.KAFKA_3, "2.8"), Mix(kafka.KAFKA_3, "3.9")
MIXES = (AS_2_8, AS_3_9, AS_3_9._replace(our_count=2), Mix(kafka.KAFKA_2, "2.8"), Mix(kafka.KAFKA_2, "2.8", 2))


def mixes(*usual: Mix) -> list[Any]:
    """Return all mixes as parameters; those that are not usual are marked `exhaustive`."""
    return [
        pytest.param(
            mix,
            id=f"{mix.our_count}-of-ours-{mix.release}-as-{mix.protocol}",
            marks=() if mix in usual else pytest.mark.exhaustive,
        )
        for mix in MIXES
    ]


class MixedCluster(BrokerCluster):
    """See the module. The first broker to start is the controller.

    Attributes:
        mix: which brokers there are.
        ours: broker 3.
        theirs: the brokers of Apache Kafka by their ids: 1, and 2 unless that is ours.
        all_ours: our brokers by their ids.
    """

    def __init__(self, directory: Path, zookeeper: str, mix: Mix) -> None:
        self.mix = mix
        settings = {**SHARED, "inter.broker.protocol.version": mix.protocol}
        self.theirs = {
            number: ZooKeeperKafka(
                mix.release,
                zookeeper,
                directory=directory / str(number),
                config={**settings, "broker.id": str(number)},
                heap=HEAP,
            )
            for number in IDS[: -mix.our_count]
        }
        own = {
            "zookeeper.connect": zookeeper,
            # Sooner than anybody needs outside of tests.
            "kafkalog.role.check.interval.ms": "3000",
        }
        self.all_ours = {
            number: KafkalogBroker(directory / str(number), {**settings, **own, "broker.id": str(number)})
            for number in IDS[-mix.our_count :]
        }
        self.ours = self.all_ours[OURS]
        self._admins: dict[int, AdminClient] = {}
        for broker in self.all_ours.values():
            broker.address = f"127.0.0.1:{free_port()}"

    def start(self, controller: int = THEIRS) -> None:
        """Start all brokers, the one that becomes the controller first; return when each knows of the others."""
        if controller == THEIRS:
            self.theirs[THEIRS].start()
        else:
            self.all_ours[controller].start()
        for number, theirs in self.theirs.items():
            if number != controller:
                theirs.start(wait=False)
        for number, ours in self.all_ours.items():
            if number != controller:
                ours.start()
        self.wait_alive()

    def stop(self, broker: int) -> None:
        """Stop a broker by SIGTERM."""
        (self.theirs.get(broker) or self.all_ours[broker]).stop()

    def kill(self, broker: int) -> None:
        """Send SIGKILL to a broker if it runs."""
        (self.theirs.get(broker) or self.all_ours[broker]).kill()

    def restart(self, broker: int) -> None:
        """Start a broker again that was stopped or killed; return when it responds."""
        if broker in self.theirs:
            self.theirs[broker].restart()
        else:
            self.all_ours[broker].start()

    @property
    def bootstrap(self) -> str:
        return self.theirs[THEIRS].bootstrap

    def address(self, broker: int) -> str:
        return (self.theirs.get(broker) or self.all_ours[broker]).bootstrap

    def log_dir(self, broker: int) -> Path:
        return (self.theirs.get(broker) or self.all_ours[broker]).log_dir

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
def mixed_cluster(directory: Path, mix: Mix, controller: int = THEIRS) -> Iterator[MixedCluster]:
    """Run a cluster, whose processes all end with the block. `controller` starts first."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, directory / "zookeeper"))
        zookeeper.wait()
        cluster = MixedCluster(directory, zookeeper.address, mix)
        for broker in IDS:
            stack.callback(cluster.kill, broker)
        cluster.start(controller)
        yield cluster
