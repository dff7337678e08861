"""What members of a group tell each other through the coordinator, to which it is only bytes: the consumer protocol.

A subscription travels to the group's leader in JoinGroup, an assignment back in SyncGroup. Each begins with its
version, an int16; fields are only ever added at the end, so that a reader takes what it knows of a newer version.

| subscription, version | adds |
|--|--|
| 0 | topics, user data |
| 1 | owned partitions (KIP-429) |
| 2 | generation id (KIP-792) |
| 3 | rack id (KIP-881) |

Versions 0 to 3 of an assignment are the same: partitions by topic, and user data. (Apache Kafka:
``ConsumerProtocolSubscription.json``, ``ConsumerProtocolAssignment.json``.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct as Layout
from typing import TypeVar

from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.codec import ProtocolError, decode_message, encode_message
from kafkalog.protocol.schema import INT32, STRING, Message, Struct, array, bytes_, int32, string

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
NEWEST = 3
_VERSION = Layout(">h")
M = TypeVar("M", bound=Message)


class MalformedMemberDataError(ClientError):
    """What a member sent through the coordinator is no subscription, or no assignment."""


class _Partitions(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class _Subscription(Message, versions="0-3"):
    topics: list[str] = array(STRING, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
    owned_partitions: list[_Partitions] = array(_Partitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class _Assignment(Message, versions="0-3"):
    assigned_partitions: list[_Partitions] = array(_Partitions, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)


@dataclass(frozen=True)
class Subscription:
    """What a member wants and has. ``instance_id`` (KIP-345) is told by the coordinator, not by the bytes."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True)
class Assignment:
    """What a member gets."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """The bytes that the Java client sends for the same subscription: topics and partitions in order."""
    owned: dict[str, _Partitions] = {}
    for topic, partition in sorted(subscription.owned):
        owned.setdefault(topic, _Partitions(topic=topic)).partitions.append(partition)
    message = _Subscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=list(owned.values()),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(version) + encode_message(message, version)


def decode_subscription(data: bytes | memoryview, instance_id: str | None = None) -> Subscription:
    """The reverse. Raises MalformedMemberDataError."""
    found = _decode(_Subscription, data, "subscription")
    return Subscription(
        tuple(found.topics),
        None if found.user_data is None else bytes(found.user_data),
        _flatten(found.owned_partitions),
        found.generation_id,
        found.rack_id or None,
        instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """The bytes that the Java client sends for the same assignment: topics in order of their first partition."""
    topics: dict[str, _Partitions] = {}
    for topic, partition in assignment.partitions:
        topics.setdefault(topic, _Partitions(topic=topic)).partitions.append(partition)
    message = _Assignment(assigned_partitions=list(topics.values()), user_data=assignment.user_data)
    return _VERSION.pack(version) + encode_message(message, version)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """The reverse. Raises MalformedMemberDataError."""
    found = _decode(_Assignment, data, "assignment")
    return Assignment(_flatten(found.assigned_partitions), None if found.user_data is None else bytes(found.user_data))


def _decode(cls: type[M], data: bytes | memoryview, what: str) -> M:
    if len(data) < _VERSION.size:
        raise MalformedMemberDataError(f"{len(data)} bytes are no {what} of the consumer protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedMemberDataError(f"version {version} of a {what} of the consumer protocol")
    try:
        found, _ = decode_message(cls, min(version, NEWEST), data, _VERSION.size)
    except ProtocolError as error:
        raise MalformedMemberDataError(f"this is no {what} of the consumer protocol: {error}") from None
    return found


def _flatten(topics: Iterable[_Partitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, partition) for each in topics for partition in each.partitions)
