"""Records of `__consumer_offsets`.

A key begins with its type and a value with its version, both int16; the rest is a structure in the protocol's
encoding, in which `string` has an int16 length (compact in flexible versions):

| type | key                                        | value                                                          |
|------|--------------------------------------------|----------------------------------------------------------------|
| 0, 1 | group string, topic string, partition int32| `OffsetCommitValue` 0 to 4: an offset; 3 is what is written, 1 |
|      |                                            | where the client named a retention (OffsetCommit 2 to 4)       |
| 2    | group string                               | `GroupMetadataValue` 0 to 4: a classic group; 3 is written     |
| 3-8  | groups of the consumer protocol (KIP-848)  | read by `kip848.formats.log_records`                           |

A value of null is a tombstone: the offset or the group is gone. Apache Kafka writes a group when a generation has its
assignments, when it has become empty, and when a static member was replaced. Source: Kafka's
`group-coordinator/src/main/resources/common/message/*.json`, `GroupMetadataManager`.
"""

from __future__ import annotations

from struct import Struct as Packed
from typing import NamedTuple, TypeVar

from kafkalog.protocol.codec import ProtocolError, decode_message, encode_message
from kafkalog.protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.schema import Message

OFFSET_COMMIT_TYPES = (0, 1)
GROUP_METADATA_TYPE = 2
NO_TIMESTAMP = -1

_VERSION = Packed(">h")


class UnreadableRecordError(ValueError):
    """A key or value of an unknown type, or of a version that a later release wrote."""


class RecordKey(NamedTuple):
    """A parsed key. `topic` and `partition` are set for an offset only; `group` is "" if the type is unknown."""

    type: int
    group: str
    topic: str = ""
    partition: int = -1


M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode `message` in `version`, which precedes it."""
    return _VERSION.pack(version) + encode_message(message, version)


def decode_versioned(kind: type[M], data: bytes) -> M:
    """Decode bytes that begin with their version.

    Raises:
        UnreadableRecordError: the bytes are not `kind` in a known version.
    """
    version = version_of(data)
    try:
        return decode_message(kind, version, data, _VERSION.size)[0]
    except (ProtocolError, UnsupportedVersionError) as error:
        raise UnreadableRecordError(f"{kind.__name__} cannot be read: {error}") from error


def version_of(data: bytes) -> int:
    """Return the version that a key or value begins with.

    Raises:
        UnreadableRecordError: there are less than two bytes.
    """
    if len(data) < _VERSION.size:
        raise UnreadableRecordError(f"{len(data)} bytes where a version should be")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def parse_key(data: bytes | None) -> RecordKey:
    """Return the key of a record.

    Raises:
        UnreadableRecordError: it is missing, or does not match its type.
    """
    if data is None:
        raise UnreadableRecordError("a record without a key")
    kind = version_of(data)
    if kind in OFFSET_COMMIT_TYPES:
        key = decode_versioned(OffsetCommitKey, data)
        return RecordKey(kind, key.group, key.topic, key.partition)
    if kind == GROUP_METADATA_TYPE:
        return RecordKey(kind, decode_versioned(GroupMetadataKey, data).group)
    return RecordKey(kind, "")


def offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return encode_versioned(OffsetCommitKey(group=group, topic=topic, partition=partition), 1)


def offset_commit_value(value: OffsetCommitValue) -> bytes:
    """Return a committed offset, in the version that Apache Kafka gives it."""
    return encode_versioned(value, 3 if value.expire_timestamp == NO_TIMESTAMP else 1)


def group_metadata_key(group: str) -> bytes:
    """Return the key of a classic group."""
    return encode_versioned(GroupMetadataKey(group=group), GROUP_METADATA_TYPE)


def group_metadata_value(value: GroupMetadataValue) -> bytes:
    """Return a classic group, in the version that Apache Kafka gives it."""
    return encode_versioned(value, 3)
