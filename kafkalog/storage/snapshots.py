"""Producer snapshots: files with the producer state of a partition at an offset.

File `<offset>.snapshot`; it covers every batch before that offset. Big-endian, as Apache Kafka writes it::

    0   int16   version, 1
    2   uint32  CRC-32C of everything from byte 6 on
    6   int32   number of entries
    10  entries of 46 bytes:
         0  int64  producer id
         8  int16  producer epoch
        10  int32  last sequence number, -1 for none
        14  int64  last offset written by it, -1 for none
        22  int32  offset delta: last less first offset of that last batch
        26  int64  timestamp: the last batch's largest, ms
        34  int32  epoch of the coordinator that wrote the last transaction marker, -1 for none
        38  int64  first offset of the transaction under way, -1 for none

A broker writes a snapshot when it rolls a segment (its name is the new segment's base offset) and when it closes the
log. It is not replaced atomically, so a crash may leave a partial file, which the CRC detects. A broker removes
unreadable snapshots, and rebuilds the state from an older snapshot and the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kafkalog.records.checksum import crc32c

VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = 6
ENTRIES_FROM = 10


class CorruptSnapshotError(ValueError):
    """A snapshot file cannot be read; the message says why."""


class SnapshotEntry(NamedTuple):
    """One producer's row."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode(entries: Iterable[SnapshotEntry]) -> bytes:
    """Return the bytes of a snapshot file."""
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[SnapshotEntry]:
    """Parse the entries of a snapshot file.

    Raises:
        CorruptSnapshotError: The version is unknown, the CRC is wrong, or the length does not match the number of
            entries.
    """
    if len(data) < ENTRIES_FROM:
        raise CorruptSnapshotError(f"{len(data)} bytes are no snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"Snapshot contained an unknown file version {version}")
    computed = crc32c(memoryview(data)[_CRC_FROM:])
    if crc != computed:
        raise CorruptSnapshotError(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
        )
    (count,) = _COUNT.unpack_from(data, _CRC_FROM)
    if count < 0 or len(data) != ENTRIES_FROM + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries do not fit in {len(data)} bytes")
    return [SnapshotEntry(*row) for row in _ENTRY.iter_unpack(memoryview(data)[ENTRIES_FROM:])]
