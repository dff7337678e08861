"""Choose the log that is cleaned next, by the part that may be cleaned and its dirty ratio. Pure.

The rules are those of Apache Kafka's `LogCleanerManager`. Everything before the first dirty offset was cleaned
before. The cleanable part reaches from there to the first uncleanable segment. The active segment cannot be cleaned,
nor can records past the last stable offset, or records younger than `min.compaction.lag.ms`. A log is cleaned when
the cleanable part's share of the bytes is above `min.cleanable.dirty.ratio`, or when something in it is older than
`max.compaction.lag.ms`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol


class SegmentFacts(Protocol):
    """Describe a segment to the selection. Its timestamps are read only if the configuration needs them."""

    base_offset: int
    size: int

    def retention_timestamp(self) -> int:
        """Return the largest timestamp of its records in ms; the time of the file's last change if none has one."""

    def first_timestamp(self) -> int:
        """Return the timestamp of its first batch in ms; -1 if there is none."""


class LogFacts(NamedTuple):
    """Describe a log to the selection. The last segment is the active one."""

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    cleaned_offset: int | None
    """From the checkpoint; None if the log was never cleaned."""
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class Cleanable(NamedTuple):
    """Describe the part of a log that can be cleaned."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Base offset of a segment."""
    checkpoint_is_wrong: bool
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """The ms since something in the log became due for compaction; 0 if nothing is."""
    min_cleanable_dirty_ratio: float

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """Share of the bytes that are dirty and can be cleaned."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.total_bytes == 0:
            return False
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.min_cleanable_dirty_ratio


def first_dirty_offset(log: LogFacts) -> tuple[int, bool]:
    """Return the first dirty offset, and whether the checkpoint's offset lies outside of the log.

    It may lie before the log start offset after DeleteRecords or retention, or past the log end offset after a
    truncation that came after the checkpoint.
    """
    known = log.cleaned_offset
    if known is None:
        return log.log_start_offset, False
    if known < log.log_start_offset or known > log.log_end_offset:
        return log.log_start_offset, True
    return known, False


def first_dirty_segment(log: LogFacts) -> int:
    """Return the index of the segment that holds the first dirty offset."""
    return _floor([segment.base_offset for segment in log.segments], first_dirty_offset(log)[0])


def examine(log: LogFacts, now_ms: int) -> Cleanable:
    """Return the part of the log that can be cleaned."""
    segments = log.segments
    bases = [segment.base_offset for segment in segments]
    first_dirty, wrong = first_dirty_offset(log)
    dirty = segments[_floor(bases, first_dirty) : -1]
    uncleanable = min(log.last_stable_offset, bases[-1])
    if log.min_compaction_lag_ms > 0:
        youngest = now_ms - log.min_compaction_lag_ms
        uncleanable = min(
            uncleanable, _first(dirty, lambda segment: segment.retention_timestamp() > youngest, bases[-1])
        )
    # Only whole segments are cleaned, so not the one that holds the first uncleanable offset.
    bound = bases[_floor(bases, max(first_dirty, uncleanable))]
    stop = bisect_left(bases, bound)
    sizes = [segment.size for segment in segments]
    return Cleanable(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=bound,
        checkpoint_is_wrong=wrong,
        clean_bytes=sum(sizes[: bisect_left(bases, first_dirty)]),
        cleanable_bytes=sum(sizes[_floor(bases, min(first_dirty, bound)) : stop]),
        compaction_delay_ms=_delay(dirty, log.max_compaction_lag_ms, now_ms),
        min_cleanable_dirty_ratio=log.min_cleanable_dirty_ratio,
    )


def _floor(bases: Sequence[int], offset: int) -> int:
    """Return the index of the segment that holds `offset`."""
    return max(bisect_right(bases, offset) - 1, 0)


def _first(segments: Iterable[SegmentFacts], wanted: Callable[[SegmentFacts], bool], otherwise: int) -> int:
    return next((segment.base_offset for segment in segments if wanted(segment)), otherwise)


def _delay(dirty: Iterable[SegmentFacts], lag_ms: int, now_ms: int) -> int:
    if lag_ms >= now_ms:
        # Nothing is older than the epoch, so the first batch of every segment need not be read.
        return 0
    oldest = min((time for time in (segment.first_timestamp() for segment in dirty) if time > 0), default=now_ms)
    return max(now_ms - lag_ms - oldest, 0)


def filthiest(candidates: Sequence[Cleanable]) -> int | None:
    """Return the index of the log to clean next: of those that are due, the one with the largest dirty share."""
    due = [index for index, cleanable in enumerate(candidates) if cleanable.is_due]
    return max(due, key=lambda index: candidates[index].ratio, default=None)
