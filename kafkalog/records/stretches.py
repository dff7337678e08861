"""Cuts the bytes of a log, or of a fetch, into stretches of whole batches.

Readers decode a stretch at once. The walk looks only at the headers of batches: it verifies no checksum, and reads no
record.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kafkalog.records.any_format import header_is_there, read_any_header
from kafkalog.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, read_header
from kafkalog.records.errors import RecordsError
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE, iter_entries

_HEADER = Struct(">qi4xB6xi30xi")
"""Base offset, length, magic, last offset delta and number of records of a batch of v2, in one call: chunks have
hundreds of batches."""


class Stretch(NamedTuple):
    """Whole batches in [begin, end) of a chunk, and the offset behind the last of them."""

    begin: int
    end: int
    behind: int
    is_old: bool = False
    """True if they are messages of formats v0 and v1. A stretch has none of these beside batches of v2."""


def cut(chunk: memoryview, *, max_records: int, max_bytes: int, max_old_bytes: int) -> list[Stretch]:
    """Cut the whole batches that a chunk begins with into stretches, each directly behind the one before.

    The last stretch ends before an incomplete batch, or before bytes that can be none (see `refuse_damage`).

    Args:
        chunk: bytes that begin with a batch, of any format.
        max_records: the most records of a stretch of batches of v2; one batch may exceed it.
        max_bytes: the most bytes of such a stretch; one batch may exceed it.
        max_old_bytes: the most bytes of a stretch of messages of v0 and v1; one message may exceed it.
    """
    stretches: list[Stretch] = []
    end, begin, at, count, behind = len(chunk), 0, 0, 0, 0
    while end - at >= MIN_ENTRY_SIZE:
        if chunk[at + MAGIC_AT] < MAGIC:
            if at > begin:
                stretches.append(Stretch(begin, at, behind))
            begin = _cut_old(chunk, at, max_old_bytes, stretches)
            if begin == at:
                break
            at, count, behind = begin, 0, 0
            continue
        if end - at < HEADER_SIZE:
            break
        base_offset, length, magic, last_delta, records = _HEADER.unpack_from(chunk, at)
        size = LOG_OVERHEAD + length
        if magic != MAGIC or not HEADER_SIZE <= size <= end - at:
            break
        if at > begin and (count + records > max_records or at + size - begin > max_bytes):
            stretches.append(Stretch(begin, at, behind))
            begin, count, behind = at, 0, 0
        next_offset = base_offset + last_delta + 1
        if next_offset > behind:
            behind = next_offset
        count += records
        at += size
    if at > begin:
        stretches.append(Stretch(begin, at, behind))
    return stretches


def refuse_damage(chunk: memoryview, at: int) -> None:
    """Check that the bytes of a chunk from `at` on can be the beginning of a batch that is cut off.

    Raises:
        CorruptRecordError: The length is impossible.
        UnsupportedMagicError: The format is unknown.
    """
    left = len(chunk) - at
    if left < MIN_ENTRY_SIZE:
        return
    if chunk[at + MAGIC_AT] < MAGIC:
        next(iter_entries(chunk, at), None)
    elif left >= HEADER_SIZE:
        read_header(chunk, at)


def _cut_old(chunk: memoryview, at: int, max_bytes: int, stretches: list[Stretch]) -> int:
    """Append stretches of the messages of v0 and v1 from position `at` on. Return the position behind the last."""
    begin, behind = at, 0
    while header_is_there(chunk, at, len(chunk)) and chunk[at + MAGIC_AT] < MAGIC:
        try:
            header = read_any_header(chunk, at)
        except RecordsError:
            break
        if header.size > len(chunk) - at:
            break
        if at > begin and at + header.size - begin > max_bytes:
            stretches.append(Stretch(begin, at, behind, is_old=True))
            begin, behind = at, 0
        behind = max(behind, header.next_offset)
        at += header.size
    if at > begin:
        stretches.append(Stretch(begin, at, behind, is_old=True))
    return at
