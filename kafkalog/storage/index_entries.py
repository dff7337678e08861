"""Entries of a segment's sparse indexes: from an offset to a position in the log, and from a timestamp to an offset.

File `<base offset>.index`, the offset index, entries of 8 bytes, big-endian::

    0  int32  relative offset: the last offset of a record batch, less the segment's base offset
    4  int32  position of that batch in the .log file, in bytes

Sparse: an entry is added for the first batch after each `index.interval.bytes` of log, so relative offsets and
positions both grow strictly. Offsets are relative so that four bytes do; a segment is rolled before an offset would lie
more than 2^31 - 1 past its base. A look-up finds the last entry at or before the offset; the reader scans batch headers
from there. In logs that Apache Kafka wrote, an entry may name the last offset of several batches that were appended at
once, and the position of the first of them.

File `<base offset>.timeindex`, the time index, entries of 12 bytes, big-endian::

    0  int64  timestamp in ms: the largest of the segment so far
    8  int32  relative offset: the last offset of the batch that holds it, less the segment's base offset

An entry `(t, o)` says that no record of the segment at or before offset `o` is later than `t`. Timestamps grow
strictly, so a look-up may start its scan at the last entry earlier than the wanted time. An entry is added with each
entry of the offset index when the largest timestamp has grown, and once more when the segment is rolled or closed: the
last entry of a closed segment is its largest timestamp, which retention goes by.

While its segment is active, an index file is preallocated to `segment.index.bytes`, rounded down to whole entries,
and its tail is zeros; it is trimmed to its entries when the segment is rolled or closed. Both indexes can be rebuilt
from the log. A crash leaves them untrimmed, and entries may be missing, or zeros where a block of the file was lost.
After a crash, a broker therefore rebuilds the indexes of every segment behind the recovery point.
"""

from __future__ import annotations

from struct import Struct

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
RELATIVE_OFFSET = Struct(">i")
"""The first field of an entry of the offset index."""

MAX_RELATIVE_OFFSET = (1 << 31) - 1


def offset_rows(data: bytes) -> list[tuple[int, int]]:
    """Return the `(relative offset, position)` entries of an offset index, without its preallocated tail."""
    return _rows(data, OFFSET_ENTRY)


def time_rows(data: bytes) -> list[tuple[int, int]]:
    """Return the `(timestamp, relative offset)` entries of a time index, without its preallocated tail."""
    return _rows(data, TIME_ENTRY)


def _rows(data: bytes, entry: Struct) -> list[tuple[int, int]]:
    rows = [(row[0], row[1]) for row in entry.iter_unpack(memoryview(data)[: len(data) // entry.size * entry.size])]
    while len(rows) > 1 and rows[-1] == (0, 0):
        rows.pop()
    # A single entry of zeros may be real, but not if the file has a preallocated tail.
    return [] if rows == [(0, 0)] and len(data) > entry.size else rows
