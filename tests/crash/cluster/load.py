"""An idempotent producer, and a consumer, that run during a drill."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.crash.cluster.verdict import beyond_retries, changed, faults
from tests.crash.cluster.writers import Delivered, LibrdkafkaWriter, Writer
from tests.support.broker_cluster import DEADLINE_S, BrokerCluster
from tests.support.waiting import wait_until

PAUSE_S = 0.004
LEAST = 100
"""The number of records of each partition that must be acknowledged for a drill to say anything."""


class Load:
    """Produces to all partitions of a topic in turn, and reads them, until `end`.

    Attributes:
        acknowledged: by partition, the values that were acknowledged, with the offsets that the producer was told.
        errors: how often the consumer saw which errors, by their codes.
    """

    def __init__(
        self, cluster: BrokerCluster, topic: str, partitions: int, writer: Callable[[str, Delivered], Writer]
    ) -> None:
        self._topic = topic
        self._cluster = cluster
        self._partitions = range(partitions)
        self.acknowledged: dict[int, dict[bytes, int | None]] = {index: {} for index in self._partitions}
        self._sent: dict[int, list[bytes]] = {index: [] for index in self._partitions}
        self._read: dict[int, dict[int, bytes]] = {index: {} for index in self._partitions}
        self._failed: list[str] = []
        self.errors: Counter[int] = Counter()
        self._end = Event()
        self._writer = writer(cluster.bootstrap, self._delivered)
        self._threads = [Thread(target=self._produce), Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        number = 0
        while not self._end.is_set():
            for index in self._partitions:
                value = b"%d %d" % (index, number)
                if not self._writer.send(self._topic, index, value):
                    break
                self._sent[index].append(value)
            else:
                number += 1
            self._writer.poll(PAUSE_S)

    def _delivered(self, partition: int, value: bytes, offset: int | None, error: object) -> None:
        if error is not None:
            self._failed.append(f"{value!r}: {error}")
        else:
            self.acknowledged[partition][value] = offset

    def _consume(self) -> None:
        consumer = _consumer(self._cluster)
        try:
            consumer.assign([TopicPartition(self._topic, index, 0) for index in self._partitions])
            while not self._end.is_set():
                for message in consumer.consume(500, PAUSE_S):
                    error = message.error()
                    if error is None:
                        partition, offset, value = _place(message)
                        self._read[partition][offset] = value
                    elif error.code() != KafkaError._PARTITION_EOF:
                        self.errors[error.code()] += 1
        finally:
            consumer.close()

    def wait_acknowledged(self, *indexes: int, more: int = 20) -> None:
        """Wait until some more records of these partitions (all, unless given) are acknowledged."""
        chosen = indexes or tuple(self._partitions)
        before = {index: len(self.acknowledged[index]) for index in chosen}
        wait_until(
            lambda: all(len(self.acknowledged[index]) >= before[index] + more for index in chosen),
            f"{more} more records of {self._topic} {chosen} are acknowledged",
            DEADLINE_S,
        )

    def end(self, patience_s: float = DEADLINE_S) -> None:
        """Stop the load; return when everything is acknowledged, or has failed after so long."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._writer.end(patience_s)

    def check(self) -> None:
        """Check that each record that was acknowledged is in the log once, in order, where the producer was told."""
        assert not self._failed, self._failed[:5]
        assert not beyond_retries(self.errors), beyond_retries(self.errors)
        for index in self._partitions:
            told = self.acknowledged[index]
            left = len(self._sent[index]) - len(told)
            assert not left, f"{left} records of {index} are neither acknowledged nor refused"
            assert len(told) >= LEAST, f"only {len(told)} records of {index} were acknowledged"
            found = read_all(self._cluster, self._topic, index)
            wrong = faults(told, self._sent[index], found) + changed(self._read[index], found)
            assert not wrong, f"{self._topic}-{index}: " + "\n".join(wrong)


@contextmanager
def under_load(
    cluster: BrokerCluster,
    topic: str,
    partitions: int,
    writer: Callable[[str, Delivered], Writer] = LibrdkafkaWriter,
) -> Iterator[Load]:
    """Run a load for the time of the block, and judge it afterwards: all replicas are in sync again by then."""
    load = Load(cluster, topic, partitions, writer)
    try:
        load.wait_acknowledged()
        yield load
        load.wait_acknowledged()
    except BaseException:
        load.end(patience_s=0)
        raise
    load.end()
    cluster.wait_whole(topic)
    for index, state in cluster.partitions(topic, 1).items():
        cluster.wait_equal(topic, index, state.replica_nodes)
    load.check()


def read_all(cluster: BrokerCluster, topic: str, index: int) -> dict[int, bytes]:
    """Return the values of all records that consumers see, committed ones only, by offset."""
    consumer = _consumer(cluster)
    found: dict[int, bytes] = {}
    try:
        place = TopicPartition(topic, index, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([place])
        deadline, at = time.monotonic() + DEADLINE_S, -1
        while at < end:
            assert time.monotonic() < deadline, f"{topic}-{index} is read to {at}, and its end is {end}"
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    _, offset, value = _place(message)
                    found[offset] = value
                elif error.code() == KafkaError._PARTITION_EOF:
                    # Behind the markers of transactions, which are no records.
                    at = message.offset() or 0
    finally:
        consumer.close()
    return found


def _place(message: Message) -> tuple[int, int, bytes]:
    """Return partition, offset and value of a record."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return partition, offset, value


def _consumer(cluster: BrokerCluster) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": "500",
            "topic.metadata.refresh.interval.ms": "1000",
            "log_level": 0,
        }
    )
