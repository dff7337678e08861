"""Records of `__consumer_offsets` that hold groups of the consumer protocol, byte for byte Apache Kafka's.

A key is an int16 type and the fields of that type; a value is an int16 version, always 0, and its fields, flexible. A
null value is a tombstone.

====  ==========================  =====================  ==========================================================
type  name                        key                    value
====  ==========================  =====================  ==========================================================
3     group metadata              group id               group epoch
4     partition metadata          group id               the subscribed topics: id, name, partitions, racks
5     member metadata             group id, member id    identity, subscription, time-outs, classic protocols
6     target assignment metadata  group id               epoch of the target assignment
7     target assignment           group id, member id    partitions that the member shall have
8     current assignment          group id, member id    epochs, state and partitions that the member has
16    regular expression          group id, expression   topics that it matched, and when
====  ==========================  =====================  ==========================================================

The order in one batch matters to Apache Kafka, which replays records one after the other: a member's metadata stands
before its assignments, and the tombstones of a member in the opposite order (8, 7, 5).

Type 16 is Apache Kafka 4's (KIP-848's `SubscribedTopicRegex`); 3.9 passes over it. Fields that newer releases add are
tagged and passed over here. Source: `group-coordinator/src/main/resources/common/message/ConsumerGroup*.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct as Format
from typing import TypeAlias
from uuid import UUID

from kafkalog.protocol.codec import decode_message, encode_message
from kafkalog.protocol.primitives import ProtocolError
from kafkalog.protocol.schema import (
    INT32,
    STRING,
    Message,
    Struct,
    array,
    bytes_,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)

_INT16 = Format(">h")
_VALUE_VERSION = 0


class GroupKey(Message, versions="0"):
    """The key of types 3, 4 and 6."""

    group_id: str = string("0")


class MemberKey(Message, versions="0"):
    """The key of types 5, 7 and 8."""

    group_id: str = string("0")
    member_id: str = string("0")


class RegexKey(Message, versions="0"):
    """The key of type 16."""

    group_id: str = string("0")
    regular_expression: str = string("0")


class GroupMetadata(Message, versions="0", flexible="0+"):
    """Type 3."""

    epoch: int = int32("0+")


class PartitionRacks(Struct):
    partition: int = int32("0+")
    racks: list[str] = array(STRING, "0+")


class SubscribedTopic(Struct):
    topic_id: UUID = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: list[PartitionRacks] = array(PartitionRacks, "0+")  # empty where no broker has a rack


class PartitionMetadata(Message, versions="0", flexible="0+"):
    """Type 4."""

    topics: list[SubscribedTopic] = array(SubscribedTopic, "0+")


class ClassicProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = bytes_("0+")  # the consumer's subscription in the embedded protocol


class ClassicMember(Struct):
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class MemberMetadata(Message, versions="0", flexible="0+"):
    """Type 5."""

    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(STRING, "0+")  # sorted
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    # set for a member that speaks the classic protocol
    classic_member_metadata: ClassicMember | None = struct(ClassicMember, "0+", nullable="0+", tag=0, default=None)


class TargetAssignmentMetadata(Message, versions="0", flexible="0+"):
    """Type 6."""

    assignment_epoch: int = int32("0+")


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(INT32, "0+")


class TargetAssignment(Message, versions="0", flexible="0+"):
    """Type 7."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class CurrentAssignment(Message, versions="0", flexible="0+"):
    """Type 8."""

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


class RegularExpression(Message, versions="0", flexible="0+"):
    """Type 16."""

    topics: list[str] = array(STRING, "0+")
    version: int = int64("0+")  # of the cluster's metadata that it was matched against
    timestamp: int = int64("0+")  # milliseconds


Key: TypeAlias = GroupKey | MemberKey | RegexKey
Value: TypeAlias = (
    GroupMetadata
    | PartitionMetadata
    | MemberMetadata
    | TargetAssignmentMetadata
    | TargetAssignment
    | CurrentAssignment
    | RegularExpression
)

_TYPES: dict[int, tuple[type[Key], type[Value]]] = {
    3: (GroupKey, GroupMetadata),
    4: (GroupKey, PartitionMetadata),
    5: (MemberKey, MemberMetadata),
    6: (GroupKey, TargetAssignmentMetadata),
    7: (MemberKey, TargetAssignment),
    8: (MemberKey, CurrentAssignment),
    16: (RegexKey, RegularExpression),
}
_TYPE_OF_VALUE = {value: number for number, (_, value) in _TYPES.items()}
TYPES = frozenset(_TYPES)
"""The types of records that this module reads."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A record of a group. `kind` is the class of its values, which a tombstone (`value` None) has too."""

    kind: type[Value]
    key: Key
    value: Value | None

    @property
    def group_id(self) -> str:
        return self.key.group_id

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value as they are in the log."""
        key = _INT16.pack(_TYPE_OF_VALUE[self.kind]) + encode_message(self.key, 0)
        if self.value is None:
            return key, None
        return key, _INT16.pack(_VALUE_VERSION) + encode_message(self.value, _VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Return the record of a key and value of the log, or None for one of another type.

    Raises:
        ProtocolError: the bytes are not what their type says.
    """
    if len(key) < _INT16.size:
        raise ProtocolError("a key of __consumer_offsets has a type")
    (number,) = _INT16.unpack_from(key)
    if number not in _TYPES:
        return None
    key_class, value_class = _TYPES[number]
    decoded, _ = decode_message(key_class, 0, key, _INT16.size)
    if value is None:
        return GroupRecord(value_class, decoded, None)
    if len(value) < _INT16.size:
        raise ProtocolError("a value of __consumer_offsets has a version")
    (version,) = _INT16.unpack_from(value)
    if version != _VALUE_VERSION:
        raise ProtocolError(f"values of type {number} have no version {version}")
    body, _ = decode_message(value_class, _VALUE_VERSION, value, _INT16.size)
    return GroupRecord(value_class, decoded, body)
