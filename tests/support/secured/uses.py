"""Topics of a secured broker, and what clients of each kind do with one, until the first answer or the error."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.consumer import Consumer
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from peers.brokers.secured_kafka import SecuredKafka
from tests.support.waiting import wait_until

DEADLINE_S = 120.0
"""The time for which a use waits for records or for their acknowledgement."""


def new_topic(secured: SecuredKafka, partitions: int = 1) -> str:
    """Create a topic, wait until clients find it, and return its name."""
    name = f"secured-{uuid.uuid4().hex[:12]}"
    with Admin({"bootstrap.servers": secured.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
        wait_until(lambda: name in admin.list_topics(), "the topic is listed")
    return name


def describe(config: Mapping[str, Any], topic: str) -> object:
    """Describe a topic."""
    with Admin(dict(config)) as admin:
        return admin.describe_topics([topic])


def produce(config: Mapping[str, Any], topic: str) -> int:
    """Send a record; return its offset, or raise why that is refused."""
    with Producer(dict(config)) as producer:
        offset: int = producer.send(topic, b"x").result(DEADLINE_S).offset
        return offset


def read_as_member(config: Mapping[str, Any], topic: str, protocol: str = "classic") -> list[bytes | None]:
    """Read as a member of a group; return the first values, or raise why that is refused."""
    group = {"group.id": topic, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with Consumer({**config, **group}) as consumer:
        consumer.subscribe([topic])
        return [record.value for record in consumer.poll(DEADLINE_S)]


def read_assigned(config: Mapping[str, Any], topic: str) -> list[bytes | None]:
    """Read a partition without a group."""
    with Consumer({**config, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.poll(DEADLINE_S)]


USES: dict[str, Callable[[Mapping[str, Any], str], object]] = {
    "admin": describe,
    "producer": produce,
    "classic": read_as_member,
    "consumer protocol": lambda config, topic: read_as_member(config, topic, "consumer"),
    "assigned": read_assigned,
}
"""The uses by the kind of client; of consumers, by how they get partitions."""
MEMBERS = ("classic", "consumer protocol")
"""The uses that read as a member of a group, which is named as the topic."""
