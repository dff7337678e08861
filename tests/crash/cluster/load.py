"""A producer with acks=all and idempotence, and a consumer, that run during a drill."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kafkalog.protocol.messages.metadata import MetadataResponsePartition
from tests.crash.cluster.drilled import DEADLINE_S
from tests.crash.cluster.verdict import beyond_retries, changed, faults
from tests.support.waiting import wait_until

PAUSE_S = 0.004
LEAST = 100
"""The number of records of each partition that must be acknowledged for a drill to say anything."""


class LoadedCluster(Protocol):
    """What a load needs of its cluster; see `DrilledCluster`."""

    @property
    def bootstrap(self) -> str: ...

    def partitions(self, topic: str, number: int) -> Mapping[int, MetadataResponsePartition]: ...

    def wait_whole(self, topic: str) -> None: ...

    def wait_equal(self, topic: str, index: int, of: Iterable[int]) -> None: ...


class Load:
    """Produces to all partitions of a topic in turn, and reads them, until `end`.

    Attributes:
        acknowledged: by partition, the values that were acknowledged, with the offsets that the producer was told.
        errors: how often the consumer saw which errors, by their codes.
    """

    def __init__(self, cluster: LoadedCluster, topic: str, partitions: int) -> None:
        self._topic = topic
        self._cluster = cluster
        self._partitions = range(partitions)
        self.acknowledged: dict[int, dict[bytes, int | None]] = {index: {} for index in self._partitions}
        self._sent: dict[int, list[bytes]] = {index: [] for index in self._partitions}
        self._read: dict[int, dict[int, bytes]] = {index: {} for index in self._partitions}
        self._failed: list[str] = []
        self.errors: Counter[int] = Counter()
        self._end = Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": "true",
                "log_level": 0,
                "linger.ms": "1",
                # With more, librdkafka may write records twice: where one request is refused (NOT_ENOUGH_REPLICAS)
                # and the next one comes when it could be accepted, that gets OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka
                # takes a new epoch then for all partitions, and sends again under it what waits for a second try
                # elsewhere, although it may be in the log (rd_kafka_handle_idempotent_Produce_error).
                "max.in.flight.requests.per.connection": "1",
                # What waits while a leader is away must fit into the segments of 16 KiB that drills have.
                "batch.size": "8192",
                "message.timeout.ms": "600000",
                "request.timeout.ms": "3000",
                "socket.timeout.ms": "3000",
                "retry.backoff.ms": "50",
                "retry.backoff.max.ms": "200",
                "reconnect.backoff.max.ms": "500",
                "topic.metadata.refresh.fast.interval.ms": "50",
            }
        )
        self._threads = [Thread(target=self._produce), Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        number = 0
        while not self._end.is_set():
            for index in self._partitions:
                value = b"%d %d" % (index, number)
                try:
                    self._producer.produce(self._topic, value, partition=index, on_delivery=self._delivered)
                except BufferError:
                    break
                self._sent[index].append(value)
            else:
                number += 1
            self._producer.poll(PAUSE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(f"{message.value()!r}: {error}")
            return
        # Where a request has timed out and a later one is acknowledged, its records are there as well, and librdkafka
        # says so without an offset.
        self.acknowledged[message.partition()][message.value()] = message.offset()

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

    def stop(self) -> None:
        """Stop the load, whatever becomes of the records that are not acknowledged."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """Stop the load; return when everything is acknowledged."""
        self.stop()
        left = self._producer.flush(DEADLINE_S)
        assert not left, f"{left} records are neither acknowledged nor refused"

    def check(self) -> None:
        """Check that each record that was acknowledged is in the log once, in order, where the producer was told."""
        assert not self._failed, self._failed[:5]
        assert not beyond_retries(self.errors), beyond_retries(self.errors)
        for index in self._partitions:
            told = self.acknowledged[index]
            assert len(told) >= LEAST, f"only {len(told)} records of {index} were acknowledged"
            found = read_all(self._cluster, self._topic, index)
            wrong = faults(told, self._sent[index], found) + changed(self._read[index], found)
            assert not wrong, f"{self._topic}-{index}: " + "\n".join(wrong)


@contextmanager
def under_load(cluster: LoadedCluster, topic: str, partitions: int) -> Iterator[Load]:
    """Run a load for the time of the block, and judge it afterwards: all replicas are in sync again by then."""
    load = Load(cluster, topic, partitions)
    try:
        load.wait_acknowledged()
        yield load
        load.wait_acknowledged()
    finally:
        load.stop()
    load.end()
    cluster.wait_whole(topic)
    for index, state in cluster.partitions(topic, 1).items():
        cluster.wait_equal(topic, index, state.replica_nodes)
    load.check()


def read_all(cluster: LoadedCluster, topic: str, index: int) -> dict[int, bytes]:
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
            for message in consumer.consume(1000, 1.0):
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


def _consumer(cluster: LoadedCluster) -> Consumer:
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
