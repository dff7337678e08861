"""Consumers of a group, and records for them, by librdkafka."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

DEADLINE_S = 90.0

RECORDS = 10

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


def make_topic(bootstrap: str, name: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(DEADLINE_S)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(DEADLINE_S) == 0


def consumer(bootstrap: str, group: str, **settings: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def take(consumers: list[Consumer], count: int) -> list[list[bytes]]:
    """Poll until there are `count` values in all; return the values of each consumer."""
    got: list[list[bytes]] = [[] for _ in consumers]
    end = time.monotonic() + DEADLINE_S
    while sum(map(len, got)) < count:
        assert time.monotonic() < end, got
        for each, values in zip(consumers, got, strict=True):
            message = each.poll(0.05)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
    return got
