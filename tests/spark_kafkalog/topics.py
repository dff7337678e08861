"""Topics for Spark to read, created and filled with librdkafka."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

_numbers = itertools.count(1)
DEADLINE_S = 240.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
T0_MS = 1_700_000_000_000
"""A time in the past, for records with explicit timestamps."""


def numbers(count: int, start: int = 0) -> list[bytes]:
    """Return values that show their order."""
    return [b"%d" % number for number in range(start, start + count)]


class Sent(NamedTuple):
    """A record as the broker acknowledged it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Topics:
    """Create topics with unique names on one broker, and produce to them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def name(self, stem: str) -> str:
        """Return a name that no other test uses."""
        return f"spark-{stem}-{next(_numbers)}"

    def create(self, stem: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic; return its name."""
        name = self.name(stem)
        self.create_named(name, partitions, config)
        return name

    def create_named(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """Create a topic with this name, as soon as a deleted one of the same name is gone."""
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                new = NewTopic(name, partitions, 1, config=config or {})
                self._admin.create_topics([new])[name].result(DEADLINE_S)
                return
            except KafkaException as error:
                exists = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                if not exists or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(DEADLINE_S)

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until the broker no longer lists it."""
        self._admin.delete_topics([name])[name].result(DEADLINE_S)
        end = time.monotonic() + DEADLINE_S
        while name in self._admin.list_topics(timeout=10).topics:
            assert time.monotonic() < end, f"{name} is still there"
            time.sleep(0.05)

    def delete_records(self, name: str, partition: int, before: int) -> None:
        """Delete records, which moves the log's start."""
        from confluent_kafka import TopicPartition

        asked = TopicPartition(name, partition, before)
        self._admin.delete_records([asked])[asked].result(DEADLINE_S)

    def produce(
        self, topic: str, values: Iterable[Any], partition: int | None = None, config: dict[str, Any] | None = None
    ) -> list[Sent]:
        """Send values (bytes, or keyword arguments of `Producer.produce`); return the acknowledged ones in order."""
        sent: list[Sent] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **(config or {})})
        deliver = delivery_into(sent)
        for value in values:
            arguments = dict(value) if isinstance(value, dict) else {"value": value}
            if partition is not None:
                arguments["partition"] = partition
            producer.produce(topic, on_delivery=deliver, **arguments)
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        return sent


def delivery_into(sent: list[Sent]) -> Callable[[KafkaError | None, Message], None]:
    """Return a delivery callback that records acknowledged records and raises other errors."""

    def deliver(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        sent.append(Sent(partition, offset, message.key(), message.value()))

    return deliver


def values_of(rows: Sequence[Any]) -> list[bytes | None]:
    """Return the values of rows, ordered by partition and offset."""
    ordered = sorted(rows, key=lambda row: (row.partition, row.offset))
    return [None if row.value is None else bytes(row.value) for row in ordered]
