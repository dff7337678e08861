"""Which part of a log may be cleaned, how dirty it is, and which log is cleaned next. Pure.

Rules as Apache Kafka's ``LogCleanerManager``: everything before the first dirty offset was cleaned before. From there
up to the first uncleanable segment is cleanable: neither the active segment, nor what lies past the last stable
offset, nor what is younger than ``min.compaction.lag.ms``. A log is cleaned when the cleanable part's share of the
bytes is above ``min.cleanable.dirty.ratio``, or when something in it is older than ``max.compaction.lag.ms``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol


class SegmentFacts(Protocol):
    """What is asked of a segment; its times only where the configuration makes them matter."""

    base_offset: int
    size: int

    def largest_timestamp(self) -> int:
        """Largest timestamp of its records in ms, -1 when none has one."""

    def first_timestamp(self) -> int:
        """Timestamp of its first batch in ms, -1 when there is none."""


class LogFacts(NamedTuple):
    """A log as the selection sees it; the last of its segments is the active one."""

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    cleaned_offset: int | None
    """From the checkpoint, None when the log was never cleaned."""
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class Cleanable(NamedTuple):
    """What there is to clean in a log."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Base offset of a segment."""
    checkpoint_is_wrong: bool
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """How long ago something in it should have been compacted, 0 when nothing should."""
    min_cleanable_dirty_ratio: float

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """Share of the bytes that is dirty and can be cleaned."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.total_bytes == 0:
            return False
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.min_cleanable_dirty_ratio


def first_dirty_offset(log: LogFacts) -> tuple[int, bool]:
    """Where cleaning goes on, and whether the checkpoint was wrong: before the log, as after DeleteRecords or
    retention, or past its end, as after a truncation that it did not learn of.
    """
    known = log.cleaned_offset
    if known is None:
        return log.log_start_offset, False
    if known < log.log_start_offset or known > log.log_end_offset:
        return log.log_start_offset, True
    return known, False


def examine(log: LogFacts, now_ms: int) -> Cleanable:
    """What there is to clean in the log."""
    segments = log.segments
    bases = [segment.base_offset for segment in segments]
    first_dirty, wrong = first_dirty_offset(log)
    dirty = segments[_floor(bases, first_dirty) : -1]
    uncleanable = min(log.last_stable_offset, bases[-1])
    if log.min_compaction_lag_ms > 0:
        youngest = now_ms - log.min_compaction_lag_ms
        uncleanable = min(uncleanable, _first(dirty, lambda segment: segment.largest_timestamp() > youngest, bases[-1]))
    # Segments are cleaned whole: the one that holds the first uncleanable offset is not.
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
    """Index of the segment that holds ``offset``."""
    return max(bisect_right(bases, offset) - 1, 0)


def _first(segments: Iterable[SegmentFacts], wanted: Callable[[SegmentFacts], bool], otherwise: int) -> int:
    return next((segment.base_offset for segment in segments if wanted(segment)), otherwise)


def _delay(dirty: Iterable[SegmentFacts], lag_ms: int, now_ms: int) -> int:
    if lag_ms >= now_ms:
        # Nothing is older than the epoch: spares reading the first batch of every segment.
        return 0
    oldest = min((time for time in (segment.first_timestamp() for segment in dirty) if time > 0), default=now_ms)
    return max(now_ms - lag_ms - oldest, 0)


def filthiest(candidates: Sequence[Cleanable]) -> int | None:
    """Index of the log to clean next: the one with the largest dirty share of those that are due."""
    due = [index for index, cleanable in enumerate(candidates) if cleanable.is_due]
    return max(due, key=lambda index: candidates[index].ratio, default=None)
