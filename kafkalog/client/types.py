"""Values that the client's modules give and take."""

from __future__ import annotations

from typing import NamedTuple

EARLIEST = -2
"""Timestamp that stands for the first offset that the log still holds."""
LATEST = -1
"""Timestamp that stands for the end of the log: the high watermark, or the last stable offset to read_committed."""
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndTimestamp(NamedTuple):
    """An offset that was looked up; offset -1 where no record is that late.

    ``timestamp`` (ms) and ``leader_epoch`` are -1 where the broker does not tell them.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the next offset to read, the leader epoch of the last record read (-1: unknown), a note."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """Who commits offsets for a consumer group (KIP-447); with the defaults somebody outside of the group."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ConsumerRecord(NamedTuple):
    """One record as a consumer sees it. ``timestamp`` in ms; ``timestamp_type`` 0 CreateTime, 1 LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
