"""Reads whole indexes at once, as numpy arrays (`kafkalog.storage.index_entries` has the format)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkalog.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY

OFFSET_ROW = np.dtype([("relative", ">i4"), ("position", ">i4")])
TIME_ROW = np.dtype([("timestamp", ">i8"), ("relative", ">i4")])


class OffsetEntries(NamedTuple):
    """The valid beginning of an offset index, in which both columns increase.

    `offsets` (int64, absolute) are the last offsets of the batches appended at `positions` (int64, bytes in the
    segment). They are hints, because an index may be stale: check the batch at a position before relying on it.
    """

    offsets: Any
    positions: Any


NO_ENTRIES = OffsetEntries(np.empty(0, np.int64), np.empty(0, np.int64))


def usable_offset_entries(data: bytes, base_offset: int, log_size: int) -> OffsetEntries:
    """Return the entries of an offset index before the first invalid one: not increasing, or beyond the segment."""
    size = OFFSET_ENTRY.size
    rows = np.frombuffer(data, ">i4", len(data) // size * 2).reshape(-1, 2).astype(np.int64)
    relative, positions = rows[:, 0], rows[:, 1]
    good = (relative >= 0) & (positions >= 0) & (positions < log_size)
    # Only the first entry can be (0, 0), and only if the first append had a single record.
    good[1:] &= (relative[1:] > relative[:-1]) & (positions[1:] > positions[:-1])
    count = len(good) if good.all() else int(np.argmin(good))
    return OffsetEntries(relative[:count] + base_offset, positions[:count])


def usable_time_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """Return the `(timestamp in ms, offset)` entries of a time index, up to the first that goes back."""
    found: list[tuple[int, int]] = []
    rows = np.frombuffer(data, TIME_ROW, len(data) // TIME_ENTRY.size)
    for timestamp, relative in rows.tolist():
        if timestamp <= 0 or relative < 0 or (found and (timestamp, relative + base_offset) <= found[-1]):
            break
        found.append((timestamp, relative + base_offset))
    return found
