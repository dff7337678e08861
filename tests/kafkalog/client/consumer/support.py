"""Helpers of consumer tests: topics with records, and consumers that are polled until a condition holds."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import Consumer, RebalanceListener
from kafkalog.client.producer import Producer
from kafkalog.client.types import ConsumerRecord, TopicPartition

DEADLINE_S = 90.0
SESSION_MS = 6000


MEMBER = """
import json, sys
from kafkalog.client.consumer import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    print(json.dumps(sorted(tp.partition for tp in consumer.assignment())), flush=True)
"""
"""A program with a consumer. Its arguments are properties and a topic; it prints its assignments."""


class Live:
    """A broker that consumers read from."""

    def __init__(self, address: str) -> None:
        self.address = address

    def topic(self, partitions: int = 1, prefix: str = "consumer", **configs: str) -> str:
        """Create a topic."""
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        with Admin(ClientConfig.from_dict({"bootstrap.servers": self.address})) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, {k.replace("_", "."): v for k, v in configs.items()})])
        return name

    def group(self) -> str:
        return f"group-{uuid.uuid4().hex[:12]}"

    def produce(self, topic: str, partition: int, values: Sequence[bytes], **properties: str) -> None:
        """Produce records whose keys equal their values."""
        named = {key.replace("_", "."): value for key, value in properties.items()}
        with Producer({"bootstrap.servers": self.address, **named}) as producer:
            futures = [
                producer.send(topic, value, key=b"key of " + value, partition=partition, headers=[("h", value)])
                for value in values
            ]
            producer.flush()
            for future in futures:
                future.result(DEADLINE_S)

    def properties(self, group: str | None = None, **properties: Any) -> dict[str, Any]:
        """Return a consumer's properties; names are written with underscores."""
        named = {key.replace("_", "."): value for key, value in properties.items()}
        more = {} if group is None else {"group.id": group}
        return {
            "bootstrap.servers": self.address,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "retry.backoff.ms": 20,
            **more,
            **named,
        }

    @contextmanager
    def consumer(self, group: str | None = None, **properties: Any) -> Iterator[Consumer]:
        with Consumer(self.properties(group, **properties)) as consumer:
            yield consumer


class Kip848Live(Live):
    """A broker whose consumers are members of the consumer protocol (KIP-848)."""

    def properties(self, group: str | None = None, **properties: Any) -> dict[str, Any]:
        named = super().properties(group, **properties)
        for key in ("session.timeout.ms", "heartbeat.interval.ms"):
            del named[key]
        return {**named, "group.protocol": "consumer"}


class Noting(RebalanceListener):
    """A listener that records its calls as (what, numbers of the partitions)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(tp.partition for tp in partitions)))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(tp.partition for tp in partitions)))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(tp.partition for tp in partitions)))


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until `count` records have arrived; more are an error."""
    end = time.monotonic() + DEADLINE_S
    taken: list[ConsumerRecord] = []
    while len(taken) < count:
        assert time.monotonic() < end, f"{len(taken)} records of {count} have come: {taken[-3:]}"
        taken += consumer.poll(0.2)
    assert len(taken) == count
    return taken


def poll_until(consumers: Sequence[Consumer], holds: Callable[[], bool], what: str) -> list[ConsumerRecord]:
    """Poll all consumers in turns until `holds()`; return the records."""
    end = time.monotonic() + DEADLINE_S
    taken: list[ConsumerRecord] = []
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}; {[consumer.assignment() for consumer in consumers]}"
        for consumer in consumers:
            taken += consumer.poll(0.05)
    return taken


def numbers(consumer: Consumer) -> list[int]:
    """Return the numbers of the assigned partitions."""
    return sorted(tp.partition for tp in consumer.assignment())


def values(count: int, prefix: str = "v") -> list[bytes]:
    return [b"%s%d" % (prefix.encode(), index) for index in range(count)]
