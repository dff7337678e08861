"""Test that an old producer goes on while every broker of the cluster is replaced by another one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.consumer import Consumer
from kafkalog.client.old_producer import KeyedMessage, OldProducer
from kafkalog.client.types import TopicPartition
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.member import SETTINGS, zookeeper_process
from tests.support.waiting import wait_until

TOPIC = "moved"
PLACE = TopicPartition(TOPIC, 0)


class Sender:
    """Sends numbers, one after another, until it is stopped."""

    def __init__(self, zookeeper: str) -> None:
        self.sent = 0
        self.failure: Exception | None = None
        properties = {"zk.connect": zookeeper, "request.required.acks": "-1", "zk.sessiontimeout.ms": "6000"}
        self._producer = OldProducer(properties)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.005):
                self._producer.send(KeyedMessage(TOPIC, b"%d" % self.sent))
                self.sent += 1
        except Exception as error:
            self.failure = error

    def go_on(self) -> None:
        """Wait until more messages are acknowledged."""
        least = self.sent + 20
        wait_until(lambda: self.sent >= least or self.failure is not None, "messages are sent")
        assert self.failure is None, self.failure

    def stop(self) -> int:
        """Stop; return how many messages are acknowledged."""
        self._stop.set()
        self._thread.join()
        self._producer.close()
        return self.sent


def replace(old: KafkalogBroker, new: KafkalogBroker, replicas: tuple[int, int]) -> None:
    """Move the partition to these brokers, of which the new one leads it, and stop the old broker."""
    with Admin({"bootstrap.servers": new.bootstrap}) as admin:
        admin.replicas.alter_partition_reassignments({PLACE: replicas})

        def has_moved() -> bool:
            found = admin.describe_topics([TOPIC])[TOPIC].partitions[0]
            return found.replicas == replicas and set(found.isr) == set(replicas)

        wait_until(has_moved, f"the partition is on {replicas}")
    assert old.stop() == 0


def test_every_broker_is_replaced(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    with zookeeper_process(tmp_path / "zookeeper") as zookeeper:

        def start(number: int) -> KafkalogBroker:
            more = {"broker.id": str(number), "zookeeper.connect": zookeeper, "zookeeper.session.timeout.ms": "6000"}
            return start_broker({**SETTINGS, "controlled.shutdown.retry.backoff.ms": "500", **more})

        first, second = start(1), start(2)
        with Admin({"bootstrap.servers": first.bootstrap}) as admin:
            wait_until(lambda: len(admin.describe_cluster().brokers) == 2, "both brokers are known")
            admin.create_topics([NewTopic(TOPIC, assignments={0: (1, 2)})])
        sender = Sender(zookeeper)
        try:
            sender.go_on()
            third = start(3)
            replace(first, third, (3, 2))
            sender.go_on()
            fourth = start(4)
            replace(second, fourth, (4, 3))
            sender.go_on()
        finally:
            count = sender.stop()
        assert sender.failure is None
        with Consumer({"bootstrap.servers": third.bootstrap}) as consumer:
            consumer.assign([PLACE])
            consumer.seek_to_beginning(PLACE)
            end = consumer.end_offsets([PLACE])[PLACE]
            values: list[bytes] = []

            def read() -> bool:
                values.extend(record.value or b"" for record in consumer.poll(0.1))
                return consumer.position(PLACE) >= end

            wait_until(read, "all is read")
    # A message whose answer was lost with a broker's connection is there twice, as with Kafka 0.8.
    assert list(dict.fromkeys(values)) == [b"%d" % number for number in range(count)]
