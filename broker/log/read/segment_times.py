"""Times of segments that are not known after a start. Workers read them, so that the event loop does not wait.

Retention, compaction and searches by time ask for the largest timestamps of segments; compaction asks for the first
ones, too. They say what they are going to ask for as `Unread`, and `read_unread` has a worker read it before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from broker.log.files.file_ops import OS, FileOps
from broker.log.index.index_file import CorruptIndexError
from broker.log.index.time_index import NO_TIMESTAMP, read_last
from broker.log.segment.batch_scan import headers, latest_timestamp
from broker.log.segment.segment import UNKNOWN_TIMESTAMP, Segment
from broker.system.workers import Workers
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

READ_AT_ONCE = 100
"""The number of segments of one log that a worker reads at a time. A broker that stops waits for no more."""


class Unread(NamedTuple):
    """Segments of one log whose times have yet to be read, oldest first."""

    largest: Sequence[Segment] = ()
    """The segments whose largest timestamps are not known."""
    until: int | None = None
    """Reading `largest` may stop at the first timestamp that is at least this one, in milliseconds."""
    first: Sequence[Segment] = ()
    """The segments whose first timestamps are not known."""


def unknown_largest(
    segments: Iterable[Segment], until: int | None = None, unreadable: Container[Segment] = ()
) -> list[Segment]:
    """Return the segments whose largest timestamps are not known, without those that are `unreadable`.

    Those after the first one that is known to be at least as late as `until` (in milliseconds) are left out.
    """
    found: list[Segment] = []
    for segment in segments:
        if segment.max_timestamp == UNKNOWN_TIMESTAMP:
            if segment not in unreadable:
                found.append(segment)
        elif until is not None and segment.max_timestamp >= until:
            break
    return found


async def read_unread(
    workers: Workers, look: Callable[[Container[Segment]], Iterable[Unread]], ops: FileOps = OS
) -> None:
    """Have workers read times until `look` finds no more of them. The logs may change meanwhile.

    Args:
        workers: the threads that read.
        look: returns what has yet to be read, without the segments that it gets: they could not be read. Whatever asks
            for their times reports why.
        ops: opens the files of first timestamps.
    """
    unreadable: set[Segment] = set()
    while wanted := [each for each in map(_part, look(unreadable)) if each.largest or each.first]:
        largest, first = await workers.run(_read, wanted, ops)
        for segment, time in largest:
            segment.learn(time)
            if segment.max_timestamp == UNKNOWN_TIMESTAMP:
                unreadable.add(segment)
        for segment, timestamp in first:
            segment.learn(None, timestamp)
            if not segment.knows_first_timestamp:
                unreadable.add(segment)


def read_largest_timestamp(segment: Segment) -> tuple[int, int] | None:
    """Read the largest timestamp and its offset, for `Segment.learn`; None if they cannot be read.

    They stand in the time index. If that is missing or damaged, the batches of the whole log tell. Call it on a
    worker's thread: it may wait for the disk, and changes nothing.
    """
    try:
        return read_last(segment.path(names.TIME_INDEX), segment.base_offset)
    except (CorruptIndexError, FileNotFoundError):
        return _largest_in_log(segment)
    except OSError:
        return None


def _part(unread: Unread) -> Unread:
    return Unread(unread.largest[:READ_AT_ONCE], unread.until, unread.first[:READ_AT_ONCE])


def _read(
    wanted: Sequence[Unread], ops: FileOps
) -> tuple[list[tuple[Segment, tuple[int, int] | None]], list[tuple[Segment, int | None]]]:
    """Read the largest timestamps as far as they are asked for, and the first ones. On a worker's thread."""
    largest: list[tuple[Segment, tuple[int, int] | None]] = []
    for segments, until, _ in wanted:
        for segment in segments:
            time = read_largest_timestamp(segment)
            largest.append((segment, time))
            if time is not None and until is not None and time[0] >= until:
                break
    return largest, [(segment, _read_first_timestamp(segment, ops)) for each in wanted for segment in each.first]


def _largest_in_log(segment: Segment) -> tuple[int, int] | None:
    try:
        fd = os.open(segment.path(names.LOG), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return latest_timestamp(fd, 0, segment.size, (NO_TIMESTAMP, segment.base_offset))
        finally:
            os.close(fd)
    except (RecordsError, OSError):
        return None


def _read_first_timestamp(segment: Segment, ops: FileOps) -> int | None:
    try:
        fd = ops.open(segment.path(names.LOG), os.O_RDONLY)
        try:
            return next((header.max_timestamp for _, header in headers(fd, 0, segment.size)), NO_TIMESTAMP)
        finally:
            os.close(fd)
    except (RecordsError, OSError):
        return None
