"""Values that the client's modules take and return."""

from __future__ import annotations

from typing import NamedTuple

EARLIEST = -2
"""Timestamp that stands for the first offset that the log still holds."""
LATEST = -1
"""Timestamp that stands for the end of the log: the high watermark, or, for read_committed, the last stable offset."""
MAX_TIMESTAMP = -3
"""Timestamp that stands for the record with the largest timestamp (KIP-734)."""
EARLIEST_LOCAL = -4
"""Timestamp that stands for the first offset on the broker's own disks (KIP-405)."""
LATEST_TIERED = -5
"""Timestamp that stands for the last offset in remote storage (KIP-1005)."""
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndTimestamp(NamedTuple):
    """An offset found by a look-up; -1 where no record has the timestamp or a later one.

    `timestamp` (ms) and `leader_epoch` are -1 where the broker does not report them.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the next offset to read, and a note.

    `leader_epoch` is that of the last record read, -1 where it is unknown.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """The member that commits offsets of a group (KIP-447); the defaults mean a client that is no member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ConsumerRecord(NamedTuple):
    """A record as a consumer sees it.

    `timestamp` is in ms; `timestamp_type` is 0 for CreateTime and 1 for LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
