"""Entries of the transaction index: the aborted transactions of a segment.

File `<base offset>.txnindex`, present only where a transaction was aborted, entries of 34 bytes, big-endian::

     0  int16  version, 0
     2  int64  producer id
    10  int64  first offset of the transaction
    18  int64  last offset: that of the abort marker, which lies in this segment
    26  int64  last stable offset when the marker was written

Entries are in the order of their last offset. A reader of committed records that fetches [from, to) needs those whose
last offset is at or after `from` and whose first offset is before `to`; it may stop at the first entry whose last
stable offset is at or after `to`. A broker adds an entry when it appends the marker. A crash may leave part of an
entry at the end, which does not count; a broker rebuilds the file with its segment.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
VERSION = 0


class CorruptEntryError(ValueError):
    """An entry is invalid, or cannot belong to its segment; the message says why."""


class AbortedTransaction(NamedTuple):
    """One entry of the index. All offsets except the last stable offset are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transaction: AbortedTransaction) -> bytes:
    """Return the bytes of an entry."""
    return _ENTRY.pack(VERSION, *transaction)


def parse_aborted(data: bytes, base_offset: int) -> list[AbortedTransaction]:
    """Parse every whole entry of the index of the segment at `base_offset`, in order.

    Raises:
        CorruptEntryError: An entry has an unknown version, or ends before the segment begins.
    """
    rows = []
    for version, *values in _ENTRY.iter_unpack(_whole(data)):
        row = AbortedTransaction(*values)
        if version != VERSION:
            raise CorruptEntryError(f"version {version} of an aborted transaction")
        if row.last_offset < base_offset:
            raise CorruptEntryError(f"{row} ends before the segment at {base_offset} begins")
        rows.append(row)
    return rows


def usable_aborted(data: bytes) -> list[AbortedTransaction]:
    """Parse the valid entries and skip the others. Use it only if the log itself is checked as well."""
    rows = ((version, AbortedTransaction(*values)) for version, *values in _ENTRY.iter_unpack(_whole(data)))
    return [
        row
        for version, row in rows
        if version == VERSION and row.producer_id >= 0 and 0 <= row.first_offset < row.last_offset
    ]


def _whole(data: bytes) -> memoryview:
    return memoryview(data)[: len(data) // ENTRY_SIZE * ENTRY_SIZE]
