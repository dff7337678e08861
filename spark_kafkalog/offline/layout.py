"""The small files of a log directory, from bytes to values."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from kafkalog.records.checksum import crc32c

INDEX_ENTRY = 8
TIME_ENTRY = 12

_TXN_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_FROM = 6


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, and that of its marker."""

    producer_id: int
    first: int
    last: int


# ---------------------------------------------------------------------------------------------- indexes


class OffsetEntries(NamedTuple):
    """An offset index as far as it can be one: both columns increase.

    ``offsets`` are the last offsets of what was appended at ``positions`` (int64, absolute; bytes in the segment). They
    are hints: an index may be stale, so a position is believed once the batch there has been checked.
    """

    offsets: Any
    positions: Any


def parse_index(data: bytes, base_offset: int, log_size: int) -> OffsetEntries:
    """Entries of an ``.index`` up to the first that cannot be: not increasing, or beyond the segment's end."""
    rows = np.frombuffer(data, ">i4", len(data) // INDEX_ENTRY * 2).reshape(-1, 2).astype(np.int64)
    relative, positions = rows[:, 0], rows[:, 1]
    good = (relative >= 0) & (positions >= 0) & (positions < log_size)
    # An entry (0, 0) can be only the first, and only where the first append had a single record.
    good[1:] &= (relative[1:] > relative[:-1]) & (positions[1:] > positions[:-1])
    count = len(good) if good.all() else int(np.argmin(good))
    return OffsetEntries(relative[:count] + base_offset, positions[:count])


def parse_time_index(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(timestamp in ms, offset) entries of a ``.timeindex``, as far as both do not go back."""
    found: list[tuple[int, int]] = []
    rows = np.frombuffer(data[: len(data) // TIME_ENTRY * TIME_ENTRY], np.dtype([("t", ">i8"), ("o", ">i4")]))
    for timestamp, relative in rows.tolist():
        if timestamp <= 0 or relative < 0 or (found and (timestamp, relative + base_offset) <= found[-1]):
            break
        found.append((timestamp, relative + base_offset))
    return found


def parse_aborted(data: bytes) -> list[Aborted]:
    """Entries of a ``.txnindex`` that can be; others are left out, for the log itself tells as well."""
    whole = data[: len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size]
    return [
        Aborted(producer_id, first, last)
        for version, producer_id, first, last, _ in _TXN_ENTRY.iter_unpack(whole)
        if version == 0 and producer_id >= 0 and 0 <= first < last
    ]


def parse_open_transactions(data: bytes) -> dict[int, int]:
    """First offsets of the transactions under way at a ``.snapshot``, by producer id; ValueError for a damaged file."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise ValueError(f"{len(data)} bytes")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != 1 or crc32c(data[_SNAPSHOT_CRC_FROM:]) != crc:
        raise ValueError("not a snapshot of version 1 with its checksum")
    if count < 0 or len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise ValueError(f"{count} producers in {len(data)} bytes")
    entries = _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :])
    return {entry[0]: entry[7] for entry in entries if entry[7] >= 0}


# ---------------------------------------------------------------------------------------------- replicas


class Replica(NamedTuple):
    """What decides between directories of the same partition."""

    directory: str
    epoch: int
    end: int


def choose(replicas: Iterable[Replica]) -> Replica:
    """The directory of a partition to read: that of the latest leader epoch, then the longest, then by name."""
    return min(replicas, key=lambda each: (-each.epoch, -each.end, each.directory))
