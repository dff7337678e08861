"""The consumer protocol: messages between the members of a classic consumer group, through their coordinator.

A member's subscription travels to the group's leader in JoinGroup (`protocols[].metadata`). The leader's assignments
travel back in SyncGroup (`assignments[].assignment`). To a coordinator of classic groups both are only bytes.

Each begins with its version, an int16, and a structure in the protocol's encoding of that version follows. No version
is flexible: a string has an int16 length, an array and bytes have an int32 length, and -1 is null.

======  ==================  ==========================================================  =====================
field   of a subscription   type                                                        since version
======  ==================  ==========================================================  =====================
1       topics              array of string                                             0
2       user data           nullable bytes: the assignor's own, see `sticky`            0
3       owned partitions    array of (topic string, partitions array of int32)          1 (KIP-429)
4       generation id       int32: in which the member got them, -1 where unknown       2 (KIP-792)
5       rack id             nullable string                                             3 (KIP-881)
======  ==================  ==========================================================  =====================

======  ==================  ==========================================================  =====================
field   of an assignment    type                                                        since version
======  ==================  ==========================================================  =====================
1       partitions          array of (topic string, partitions array of int32)          0
2       user data           nullable bytes                                              0
======  ==================  ==========================================================  =====================

Versions only add fields at the end. A reader therefore reads a newer version as the newest that it knows, and passes
over the rest. A negative version is malformed.

Source: Kafka's `ConsumerProtocol`, `ConsumerProtocolSubscription.json` and `ConsumerProtocolAssignment.json`.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import TypeVar

from kafkalog.protocol.codec import decode_message, decode_within, encode_message
from kafkalog.protocol.decoder import ELEMENT_COST
from kafkalog.protocol.primitives import ProtocolError, TooManyEntriesError
from kafkalog.protocol.schema import INT32, STRING, Message, Struct, array, bytes_, int32, string

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members speak this protocol."""
NO_GENERATION = -1
NEWEST = 3
"""The newest version implemented here."""
_VERSION = Layout(">h")
_T = TypeVar("_T", bound=Message)


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class ConsumerSubscription(Message, versions="0-3"):
    """The topics that a member subscribes to, and the partitions that it owns."""

    topics: list[str] = array(STRING, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=NO_GENERATION, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerAssignment(Message, versions="0-3"):
    """The partitions assigned to a member."""

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)


def version_of(data: bytes | memoryview) -> int:
    """Return the version in which to read a subscription or an assignment: at most `NEWEST`.

    Raises:
        ProtocolError: The bytes do not begin with a version, or it is negative.
    """
    if len(data) < _VERSION.size:
        raise ProtocolError(f"the consumer protocol begins with a version of 2 bytes, and there are {len(data)}")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return min(version, NEWEST)


def encode_subscription(subscription: ConsumerSubscription, version: int = NEWEST) -> bytes:
    """Encode a subscription. Fields that the version lacks are left out."""
    return _VERSION.pack(version) + encode_message(subscription, version)


def decode_subscription(data: bytes | memoryview, most: int | None = None) -> ConsumerSubscription:
    """Decode a subscription.

    Args:
        data: the bytes.
        most: how many topics and partitions it may have, about; None for any number.

    Raises:
        ProtocolError: The bytes are no subscription.
        TooManyEntriesError: It has more than `most`.
    """
    return _decode(ConsumerSubscription, data, "subscription", most)


def encode_assignment(assignment: ConsumerAssignment, version: int = NEWEST) -> bytes:
    """Encode an assignment."""
    return _VERSION.pack(version) + encode_message(assignment, version)


def decode_assignment(data: bytes | memoryview, most: int | None = None) -> ConsumerAssignment:
    """Decode an assignment.

    Args:
        data: the bytes.
        most: as that of `decode_subscription`.

    Raises:
        ProtocolError: The bytes are no assignment.
        TooManyEntriesError: It has more than `most` topics and partitions.
    """
    return _decode(ConsumerAssignment, data, "assignment", most)


def subscribed_topics(data: bytes | memoryview, most: int) -> frozenset[str] | None:
    """Return the topics of a subscription, or None where the bytes are no subscription or name more than `most`.

    Only the fields of version 0 are read, as Kafka's coordinator does: what follows may be damaged.
    """
    try:
        version_of(data)
        topics = _decode_within(ConsumerSubscription, 0, data, most).topics
        return None if len(topics) > most else frozenset(topics)
    except (ProtocolError, TooManyEntriesError):
        return None


def _decode(kind: type[_T], data: bytes | memoryview, what: str, most: int | None) -> _T:
    version = version_of(data)
    try:
        if most is not None:
            return _decode_within(kind, version, data, most)
        return decode_message(kind, version, data, _VERSION.size)[0]
    except ProtocolError as error:
        raise ProtocolError(f"this is no {what} of the consumer protocol: {error}") from error


def _decode_within(kind: type[_T], version: int, data: bytes | memoryview, most: int) -> _T:
    # Each byte of a name costs 1 as well.
    return decode_within(kind, version, memoryview(data), _VERSION.size, most * ELEMENT_COST + len(data))
