"""Subscriptions and assignments as the assignors use them: values with flat lists of partitions.

`kafkalog.protocol.embedded.consumer` knows their formats, and the versions of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.codec import ProtocolError
from kafkalog.protocol.embedded import consumer
from kafkalog.protocol.embedded.consumer import (
    NEWEST,
    NO_GENERATION,
    PROTOCOL_TYPE,
    ConsumerAssignment,
    ConsumerSubscription,
    TopicPartitions,
)

__all__ = [
    "NEWEST",
    "NO_GENERATION",
    "PROTOCOL_TYPE",
    "Assignment",
    "MalformedMemberDataError",
    "Subscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]


class MalformedMemberDataError(ClientError):
    """Bytes that a member sent through the coordinator are not a subscription, or not an assignment."""


@dataclass(frozen=True)
class Subscription:
    """A member's subscription, and the partitions that it owns.

    `instance_id` (KIP-345) comes from the coordinator, not from the bytes.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True)
class Assignment:
    """The partitions assigned to a member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """Encode the bytes that the Java client sends for the same subscription: topics and partitions in order."""
    message = ConsumerSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(sorted(subscription.owned)),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return consumer.encode_subscription(message, version)


def decode_subscription(data: bytes | memoryview, instance_id: str | None = None) -> Subscription:
    """Decode a member's subscription.

    Raises:
        MalformedMemberDataError: The bytes are no subscription.
    """
    try:
        found = consumer.decode_subscription(data)
    except ProtocolError as error:
        raise MalformedMemberDataError(str(error)) from None
    return Subscription(
        tuple(found.topics),
        found.user_data,
        _flatten(found.owned_partitions),
        found.generation_id,
        found.rack_id or None,
        instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """Encode the bytes that the Java client sends for the same assignment: topics in order of their first partition."""
    message = ConsumerAssignment(assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data)
    return consumer.encode_assignment(message, version)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """Decode a member's assignment.

    Raises:
        MalformedMemberDataError: The bytes are no assignment.
    """
    try:
        found = consumer.decode_assignment(data)
    except ProtocolError as error:
        raise MalformedMemberDataError(str(error)) from None
    return Assignment(_flatten(found.assigned_partitions), found.user_data)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    topics: dict[str, TopicPartitions] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, TopicPartitions(topic=topic)).partitions.append(partition)
    return list(topics.values())


def _flatten(topics: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, partition) for each in topics for partition in each.partitions)
