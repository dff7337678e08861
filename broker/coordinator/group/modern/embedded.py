"""The consumer's embedded protocol: what members of the classic protocol say and are told in bytes of their own.

A subscription or an assignment is an int16 version and a structure. Versions only add fields at the end, so that a
newer one than is known here is read as the newest known. Source: Kafka's ``ConsumerProtocol``,
``ConsumerProtocolSubscription.json``, ``ConsumerProtocolAssignment.json``.
"""

from __future__ import annotations

from struct import Struct as Format
from uuid import UUID

from broker.coordinator.group.modern.context import Topics
from broker.coordinator.group.modern.model import Assignment
from kafkalog.protocol.codec import decode_message, encode_message
from kafkalog.protocol.primitives import ProtocolError
from kafkalog.protocol.schema import INT32, STRING, Message, Struct, array, bytes_, int32, string

_INT16 = Format(">h")
_NEWEST = 3


class TopicPartition(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class Subscription(Message, versions="0-3"):
    """What a member wants, and what it has."""

    topics: list[str] = array(STRING, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)  # the assignor's own
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)  # of owned_partitions
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class MemberAssignment(Message, versions="0-3"):
    """What a member is told to read."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)


def version_of(data: bytes) -> int:
    """The version that a subscription or assignment is read in.

    Raises:
        ProtocolError: it has none.
    """
    if len(data) < _INT16.size or (version := _INT16.unpack_from(data)[0]) < 0:
        raise ProtocolError("the embedded protocol begins with a version")
    return min(int(version), _NEWEST)


def decode_subscription(data: bytes) -> Subscription:
    """Raises ProtocolError where it is none."""
    return decode_message(Subscription, version_of(data), data, _INT16.size)[0]


def decode_assignment(data: bytes, topics: Topics) -> Assignment:
    """Partitions of existing topics; none of no bytes, as of a member that was never assigned any.

    Raises:
        ProtocolError: it is no assignment.
    """
    if not data:
        return {}
    return by_id(decode_message(MemberAssignment, version_of(data), data, _INT16.size)[0].assigned_partitions, topics)


def encode_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    """The bytes of an assignment, without topics that were deleted."""
    named = sorted((name, topic_id) for topic_id in assignment if (name := topics.name_of(topic_id)) is not None)
    value = MemberAssignment(
        assigned_partitions=[
            TopicPartition(topic=name, partitions=sorted(assignment[topic_id])) for name, topic_id in named
        ]
    )
    return _INT16.pack(version) + encode_message(value, version)


def by_id(partitions: list[TopicPartition], topics: Topics) -> Assignment:
    """Partitions of existing topics, by topic id."""
    result: dict[UUID, frozenset[int]] = {}
    for entry in partitions:
        topic = topics.get(entry.topic)
        if topic is not None and entry.partitions:
            result[topic.topic_id] = result.get(topic.topic_id, frozenset()) | frozenset(entry.partitions)
    return result
