"""The records that a mirror writes about itself, byte for byte as MirrorMaker 2 and Kafka Connect write them.

All integers are big-endian; a string is an int16 length and UTF-8.

| record          | key                                     | value                                            |
|-----------------|-----------------------------------------|--------------------------------------------------|
| offset sync     | topic string, partition int32           | upstream offset int64, offset int64              |
| checkpoint      | group string, topic string,             | version int16 = 0, upstream offset int64,        |
|                 | partition int32                         | offset int64, metadata string                    |
| heartbeat       | source string, target string (aliases)  | version int16 = 0, timestamp int64 (ms)          |
| source position | `["MirrorSourceConnector",{"cluster":…, | `{"offset":…}`, the offset of the last record    |
|                 | "partition":…,"topic":…}]`              | that was mirrored                                |
| group mark      | group string, topic string,             | version int16 = 0, offset int64                  |
|                 | partition int32                         |                                                  |
| kept topic      | `["kafkalog.mirror.source",…]`, as of a | `{"topic_id":"…"}`, the id of the topic in the   |
|                 | source position                         | source whose offsets the target has              |

An offset sync names the topic as it is called in the source, a checkpoint and a group mark as in the target. Group
marks are the mirror's own, and have a topic of their own. Kept topics are its own, too, and are among the source
positions, where Kafka Connect takes them for those of another connector. Source: `OffsetSync`,
`Checkpoint` and `Heartbeat` of `connect/mirror` and `connect/mirror-client`; Kafka Connect's `OffsetStorageWriter`
with its JSON converter.
"""

from __future__ import annotations

import json
from struct import Struct, error
from typing import NamedTuple
from uuid import UUID

from kafkalog.client.types import TopicPartition

CONNECTOR = "MirrorSourceConnector"
"""The name under which MirrorMaker 2 runs its source connector."""
KEEPER = "kafkalog.mirror.source"
"""The name in its place in the records of kept topics."""
_VERSION = 0
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_PAIR = Struct(">qq")
_MARK = Struct(">hq")
_CHECKPOINT = Struct(">hqq")
_HEARTBEAT = Struct(">hq")


class FormatError(ValueError):
    """Bytes are not a record of this kind."""


class OffsetSync(NamedTuple):
    """A record of `partition` in the source has the offset `upstream` there, and `downstream` in the target."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _string(self.partition.topic) + _INT32.pack(self.partition.partition)

    def value(self) -> bytes:
        return _PAIR.pack(self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Read a record.

        Raises:
            FormatError: It is no offset sync.
        """
        topic, number = _read_key(key, 1, has_partition=True)
        return cls(TopicPartition(topic[0], number), *_read(_PAIR, value))


class Checkpoint(NamedTuple):
    """The position of a group in a topic of the source, and its translation into the target.

    `partition` is that of the target.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return _string(self.group) + _string(self.partition.topic) + _INT32.pack(self.partition.partition)

    def value(self) -> bytes:
        return _CHECKPOINT.pack(_VERSION, self.upstream, self.downstream) + _string(self.metadata)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Read a record.

        Raises:
            FormatError: It is no checkpoint.
        """
        (group, topic), number = _read_key(key, 2, has_partition=True)
        version, upstream, downstream = _read(_CHECKPOINT, value)
        _check_version(version)
        metadata, _ = _read_string(value or b"", _CHECKPOINT.size)
        return cls(group, TopicPartition(topic, number), upstream, downstream, metadata)


class GroupMark(NamedTuple):
    """Up to `downstream` of the target's `partition`, a group's position there was not moved on by the group alone.

    The mirror has committed it there, or the source has it, too.
    """

    group: str
    partition: TopicPartition
    downstream: int

    def key(self) -> bytes:
        return _string(self.group) + _string(self.partition.topic) + _INT32.pack(self.partition.partition)

    def value(self) -> bytes:
        return _MARK.pack(_VERSION, self.downstream)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> GroupMark:
        """Read a record.

        Raises:
            FormatError: It is no group mark.
        """
        (group, topic), number = _read_key(key, 2, has_partition=True)
        version, downstream = _read(_MARK, value)
        _check_version(version)
        return cls(group, TopicPartition(topic, number), downstream)


class Heartbeat(NamedTuple):
    """A sign of life of the mirror from `source` to `target`; `timestamp` in ms."""

    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return _HEARTBEAT.pack(_VERSION, self.timestamp)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Read a record.

        Raises:
            FormatError: It is no heartbeat.
        """
        (source, target), _ = _read_key(key, 2, has_partition=False)
        version, timestamp = _read(_HEARTBEAT, value)
        _check_version(version)
        return cls(source, target, timestamp)


class SourcePosition(NamedTuple):
    """The position up to which a partition of the cluster `cluster` was mirrored."""

    cluster: str
    partition: TopicPartition
    next_offset: int | None
    """The next offset to read there. None is a tombstone: it cancels the position that was stored before."""

    def key(self) -> bytes:
        return _place(CONNECTOR, self.cluster, self.partition)

    def value(self) -> bytes | None:
        return None if self.next_offset is None else _json({"offset": self.next_offset - 1})

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> SourcePosition | None:
        """Read a record; return None for positions of other connectors.

        Raises:
            FormatError: It is no position of Kafka Connect.
        """
        try:
            found = _read_place(CONNECTOR, key)
            if found is None:
                return None
            offset = None if value is None else json.loads(value)["offset"]
            return cls(*found, None if offset is None else int(offset) + 1)
        except (ValueError, TypeError, KeyError, UnicodeDecodeError) as problem:
            raise FormatError(f"no position of Kafka Connect: {problem}") from None


class KeptTopic(NamedTuple):
    """The target has a partition of the cluster `cluster` with its offsets, of the topic with this id."""

    cluster: str
    partition: TopicPartition
    topic_id: UUID

    def key(self) -> bytes:
        return _place(KEEPER, self.cluster, self.partition)

    def value(self) -> bytes:
        return _json({"topic_id": str(self.topic_id)})

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> KeptTopic | None:
        """Read a record; return None for source positions.

        Raises:
            FormatError: It is neither.
        """
        try:
            found = _read_place(KEEPER, key)
            return None if found is None else cls(*found, UUID(json.loads(value or b"")["topic_id"]))
        except (ValueError, TypeError, KeyError, AttributeError, UnicodeDecodeError) as problem:
            raise FormatError(f"no kept topic: {problem}") from None


def _place(owner: str, cluster: str, partition: TopicPartition) -> bytes:
    return _json([owner, {"cluster": cluster, "partition": partition.partition, "topic": partition.topic}])


def _read_place(owner: str, key: bytes | None) -> tuple[str, TopicPartition] | None:
    """Read a key; return None where it is another owner's."""
    found, place = json.loads(key or b"")
    if found != owner:
        return None
    return str(place["cluster"]), TopicPartition(str(place["topic"]), int(place["partition"]))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    if len(data) < at + _INT16.size:
        raise FormatError(f"{len(data)} bytes end before a string")
    (length,) = _INT16.unpack_from(data, at)
    at += _INT16.size
    if not 0 <= length <= len(data) - at:
        raise FormatError(f"a string of {length} bytes in {len(data) - at}")
    return data[at : at + length].decode(errors="replace"), at + length


def _read_key(key: bytes | None, strings: int, *, has_partition: bool) -> tuple[list[str], int]:
    found, at, data = [], 0, key or b""
    for _ in range(strings):
        text, at = _read_string(data, at)
        found.append(text)
    if not has_partition:
        return found, -1
    if len(data) < at + _INT32.size:
        raise FormatError(f"a key of {len(data)} bytes ends before its partition")
    return found, _INT32.unpack_from(data, at)[0]


def _read(layout: Struct, value: bytes | None) -> tuple[int, ...]:
    try:
        return layout.unpack_from(value or b"")
    except error:
        raise FormatError(f"a value of {len(value or b'')} bytes where {layout.size} are needed") from None


def _check_version(version: int) -> None:
    if version != _VERSION:
        raise FormatError(f"version {version} of a record is not known, only {_VERSION} is")
