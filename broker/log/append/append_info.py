"""The result of an append."""

from __future__ import annotations


class AppendInfo:
    """Hold the offsets and times of appended records.

    Attributes:
        first_offset, last_offset: of the records; those of the first append if this is a `duplicate`.
        max_timestamp: the largest of their timestamps, in ms.
        log_append_time: in ms if the topic's timestamp type is LogAppendTime, else -1.
        log_start_offset: of the log at that moment.
        duplicate: whether an idempotent producer sent the batch again, so that nothing was appended.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time: int,
        log_start_offset: int,
        duplicate: bool,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.last_offset + 1

    def __repr__(self) -> str:
        return (
            f"AppendInfo({self.first_offset}..{self.last_offset}, max_timestamp={self.max_timestamp}, "
            f"log_append_time={self.log_append_time}, duplicate={self.duplicate})"
        )
