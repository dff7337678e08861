"""The facts that a worker needs to clean a log, collected at one moment on the event loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.log.cleaner.selection import Cleanable, LogFacts, first_dirty_segment
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.read.segment_times import Unread, unknown_largest
from broker.log.segment.segment import Segment
from kafkalog.storage.transaction_entries import AbortedTransaction


class LastRecord(NamedTuple):
    """Hold the last record of a producer: the batch with its last sequence number, or else its epoch."""

    last_offset: int | None
    epoch: int


class CleaningAbortedError(Exception):
    """The cleaning must end: the log was deleted, truncated or moved, is no longer compacted, or the broker stops."""


@dataclass(slots=True)
class CleaningJob:
    """Describe one cleaning of one log."""

    name: str
    directory: str
    config: LogConfig
    now_ms: int
    segments: Sequence[Segment]
    """From the log's first to the last one that may be cleaned."""
    ends: Sequence[int]
    """The offset at which each of them ends, which is the next one's base offset."""
    first_dirty_offset: int
    """Everything before it was cleaned before."""
    first_dirty_position: int
    """Position in its segment of that offset's batch, or of one before it."""
    first_uncleanable_offset: int
    """Base offset of the first segment that may not be cleaned."""
    producers: dict[int, LastRecord]
    """The producers that the log remembers, by id."""
    aborted: Callable[[int, int], Sequence[AbortedTransaction]]
    """Returns the aborted transactions that touch the offsets [from, to)."""
    check: Callable[[], None]
    """Raises CleaningAbortedError when the cleaning must end."""
    truncations: int = 0
    """The log's `Log.truncations` at that moment."""


@dataclass(slots=True)
class CleaningStats:
    """Count what one cleaning did. The `map` counts are of the dirty part, which is read twice."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0
    buffer_utilization: float = 0.0
    index_seconds: float = 0.0
    seconds: float = 0.0
    segments_before: int = 0
    segments_after: int = 0


def facts_of(log: Log) -> LogFacts:
    """Return the facts of a log for `selection`."""
    config = log.config
    return LogFacts(
        segments=log.segments,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        cleaned_offset=log.cleaned_offset,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )


def unread(log: Log, now_ms: int, unreadable: Container[Segment]) -> Unread:
    """Return the segments to read before `selection.examine` is called, without those that are `unreadable`."""
    config = log.config
    dirty = log.segments[first_dirty_segment(facts_of(log)) : -1]
    # The first segment that is too young ends the part that is examined.
    until = now_ms - config.min_compaction_lag_ms + 1
    largest = unknown_largest(dirty, until, unreadable) if config.min_compaction_lag_ms > 0 else []
    first: list[Segment] = []
    if config.max_compaction_lag_ms < now_ms:
        first = [segment for segment in dirty if not segment.knows_first_timestamp and segment not in unreadable]
    return Unread(largest, until, first)


def make_job(log: Log, cleanable: Cleanable, now_ms: int, stopped: Callable[[], bool]) -> CleaningJob:
    """Make the job to clean what `selection.examine` found, but never the active segment.

    Raises:
        CleaningAbortedError: the log has changed since, and has none of it any more.
        OSError, RecordsError: an index cannot be read or rebuilt.
    """
    # Appends to the active segment would be lost when it is replaced.
    bound = min(cleanable.first_uncleanable_offset, log.active_segment.base_offset)
    segments = [segment for segment in log.segments if segment.base_offset < bound]
    if not segments:
        raise CleaningAbortedError("its segments have changed")
    ends = [segment.base_offset for segment in segments[1:]] + [bound]
    first_dirty = cleanable.first_dirty_offset
    position = 0
    for segment, end in zip(segments, ends, strict=True):
        if segment.base_offset < first_dirty < end:
            position = segment.offset_index.lookup(first_dirty)[1]
    truncations = log.truncations

    def check() -> None:
        if stopped():
            raise CleaningAbortedError("the cleaner stops")
        if log.offline is not None:
            raise CleaningAbortedError(f"it is offline: {log.offline}")
        if log.being_moved:
            raise CleaningAbortedError("it is being moved to another log directory")
        if log.truncations != truncations:
            raise CleaningAbortedError("it was truncated")
        if not log.config.compact:
            raise CleaningAbortedError("its cleanup.policy does not name compact any more")
        if log.config.is_held:
            raise CleaningAbortedError("its configuration cannot be read any more")

    producers = {
        producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
        for producer_id, entry in log.producers.producers.items()
    }
    return CleaningJob(
        name=f"{log.topic}-{log.partition}",
        directory=str(log.dir),
        config=log.config,
        now_ms=now_ms,
        segments=segments,
        ends=ends,
        first_dirty_offset=first_dirty,
        first_dirty_position=position,
        first_uncleanable_offset=bound,
        producers=producers,
        aborted=log.aborted_transactions,
        check=check,
        truncations=truncations,
    )
