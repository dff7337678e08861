"""The times that `selection` asks for, where they are not known yet: a worker reads them, because it opens files."""

from __future__ import annotations

import os
from typing import NamedTuple

from broker.log.cleaner.job import facts_of
from broker.log.cleaner.selection import first_dirty_segment
from broker.log.files.file_ops import FileOps
from broker.log.index.time_index import NO_TIMESTAMP
from broker.log.log import Log
from broker.log.read.cold_reads import read_largest_timestamp
from broker.log.segment.batch_scan import headers
from broker.log.segment.segment import UNKNOWN_TIMESTAMP, Segment
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

READ_AT_ONCE = 100
"""The number of segments that a worker reads at a time. A broker that stops waits for no more."""


class Unread(NamedTuple):
    """Segments of one log whose times have yet to be read, oldest first."""

    largest: list[Segment]
    """The segments whose largest timestamp is not known."""
    youngest: int
    """Reading `largest` may stop at the first segment with a larger timestamp than this, in milliseconds."""
    first: list[Segment]
    """The segments whose first timestamp is not known."""


class Times(NamedTuple):
    """The times of a segment that were read, for `Segment.learn`; None if they were not."""

    segment: Segment
    largest: tuple[int, int] | None = None
    first: int | None = None


def unread(log: Log, now_ms: int) -> Unread | None:
    """Return the segments to read before `selection.examine` is called; None if it needs to read none."""
    config = log.config
    dirty = log.segments[first_dirty_segment(facts_of(log)) : -1]
    youngest = now_ms - config.min_compaction_lag_ms
    largest: list[Segment] = []
    if config.min_compaction_lag_ms > 0:
        for segment in dirty:
            if segment.max_timestamp == UNKNOWN_TIMESTAMP:
                largest.append(segment)
            elif segment.max_timestamp > youngest:
                break
    first: list[Segment] = []
    if config.max_compaction_lag_ms < now_ms:
        first = [segment for segment in dirty if not segment.knows_first_timestamp]
    if not largest and not first:
        return None
    return Unread(largest[:READ_AT_ONCE], youngest, first[:READ_AT_ONCE])


def read_times(wanted: Unread, ops: FileOps) -> list[Times]:
    """Read the times. Call it on a worker's thread: it may wait for the disk, and changes nothing."""
    found: list[Times] = []
    for segment in wanted.largest:
        largest = read_largest_timestamp(segment)
        found.append(Times(segment, largest=largest))
        if largest is not None and largest[0] > wanted.youngest:
            break
    found += [Times(segment, first=_read_first_timestamp(segment, ops)) for segment in wanted.first]
    return found


def _read_first_timestamp(segment: Segment, ops: FileOps) -> int | None:
    try:
        fd = ops.open(segment.path(names.LOG), os.O_RDONLY)
        try:
            return next((header.max_timestamp for _, header in headers(fd, 0, segment.size)), NO_TIMESTAMP)
        finally:
            os.close(fd)
    except (RecordsError, OSError):
        # The loop reads it again and reports the error.
        return None
