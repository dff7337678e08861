"""Idempotent producers for a load: librdkafka's, and ours with five requests in flight."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as LibrdkafkaProducer

from kafkalog.client.producer import Producer, RecordMetadata

Delivered = Callable[[int, bytes, int | None, object], None]
"""Called with a record's partition, its value, and either its offset or an error. Neither: it was acknowledged without
an offset."""

_COMMON = {
    "enable.idempotence": "true",
    "linger.ms": "1",
    # What waits while a leader is away must fit into the segments of 16 KiB that drills have.
    "batch.size": "8192",
    "delivery.timeout.ms": "600000",
    "request.timeout.ms": "3000",
    "retry.backoff.ms": "50",
    "retry.backoff.max.ms": "200",
    "reconnect.backoff.max.ms": "500",
}


MOST_WAITING = 100_000
"""The number of records that librdkafka lets wait."""


class Writer(Protocol):
    """A producer as a load needs it. One thread calls it."""

    def send(self, topic: str, partition: int, value: bytes) -> bool:
        """Take a record, unless too many wait already; return whether it was taken."""

    def poll(self, seconds: float) -> None:
        """Tell of records that were delivered, for so long."""

    def end(self, seconds: float) -> None:
        """Wait until all records are delivered or have failed, for so long; no record is taken afterwards."""


class LibrdkafkaWriter:
    """Writes with librdkafka."""

    def __init__(self, bootstrap: str, delivered: Delivered) -> None:
        self._delivered = delivered
        self._producer = LibrdkafkaProducer(
            {
                **_COMMON,
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                # With more, librdkafka may write records twice: where one request is refused (NOT_ENOUGH_REPLICAS)
                # and the next one comes when it could be accepted, that gets OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka
                # takes a new epoch then for all partitions, and sends again under it what waits for a second try
                # elsewhere, although it may be in the log (rd_kafka_handle_idempotent_Produce_error).
                "max.in.flight.requests.per.connection": "1",
                "socket.timeout.ms": "3000",
                "topic.metadata.refresh.fast.interval.ms": "50",
            }
        )

    def send(self, topic: str, partition: int, value: bytes) -> bool:
        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=self._told)
        except BufferError:
            return False
        return True

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def end(self, seconds: float) -> None:
        self._producer.flush(seconds)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        # Where a request has timed out and a later one is acknowledged, its records are there as well, and librdkafka
        # says so without an offset.
        self._delivered(partition, value, message.offset(), error)


class KafkalogWriter:
    """Writes with this package's producer, which has five requests in flight."""

    def __init__(self, bootstrap: str, delivered: Delivered) -> None:
        self._delivered = delivered
        self._producer = Producer({**_COMMON, "bootstrap.servers": bootstrap})
        self._sent = self._done = 0
        """Each is counted by one thread."""

    def send(self, topic: str, partition: int, value: bytes) -> bool:
        if self._sent - self._done >= MOST_WAITING:
            return False
        self._sent += 1
        self._producer.send(topic, value, partition=partition, on_delivery=partial(self._told, partition, value))
        return True

    def poll(self, seconds: float) -> None:
        time.sleep(seconds)

    def end(self, seconds: float) -> None:
        self._producer.close(seconds)

    def _told(self, partition: int, value: bytes, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self._done += 1
        self._delivered(partition, value, None if metadata is None else metadata.offset, error)
