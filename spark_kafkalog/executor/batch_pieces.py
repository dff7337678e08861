"""Cuts a fetched chunk into pieces of whole record batches, each of which is decoded into one Arrow batch."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kafkalog.records.batch import (
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    read_header,
)
from kafkalog.records.legacy.convert import upgraded, without_private_flag
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE, iter_entries

PIECE_ROWS = 1 << 16
PIECE_BYTES = 2 << 20
"""The most rows or (compressed) bytes of a piece; one batch of the log may exceed them. Small pieces stay in the
processor's cache between this process and the JVM's copy."""

_START = Struct(">qi")
_INT32 = Struct(">i")
_RECORDS_COUNT_AT = 57


class Piece(NamedTuple):
    """Some whole record batches, and the offset behind the last of them."""

    records: memoryview
    behind: int
    converted: bool = False
    """Whether the batches were messages of formats v0 and v1."""


def joined(pieces: list[Piece]) -> Piece:
    """Put the pieces of a chunk, at least one, into one piece."""
    converted = any(piece.converted for piece in pieces)
    records = [
        without_private_flag(piece.records) if converted and not piece.converted else piece.records for piece in pieces
    ]
    return Piece(memoryview(b"".join(records)), pieces[-1].behind, converted)


def cut(records: memoryview, offset: int) -> list[Piece]:
    """Cut the whole batches of a chunk fetched from ``offset`` into pieces of about PIECE_ROWS or PIECE_BYTES.

    A batch that the response cut off at its end is left out. Messages of formats v0 and v1 become batches of v2. Raises
    CorruptRecordError for an impossible length and UnsupportedMagicError for an unknown format.
    """
    pieces: list[Piece] = []
    end, begin, at, rows = len(records), 0, 0, 0
    behind = offset
    while end - at >= MIN_ENTRY_SIZE:
        if records[at + MAGIC_AT] < MAGIC:
            if at > begin:
                pieces.append(Piece(records[begin:at], behind))
            begin = _cut_old(records, at, pieces)
            if begin == at:
                break
            at, rows, behind = begin, 0, max(behind, pieces[-1].behind)
            continue
        if end - at < HEADER_SIZE:
            break
        base_offset, length = _START.unpack_from(records, at)
        size = LOG_OVERHEAD + length
        if size < HEADER_SIZE or records[at + MAGIC_AT] != MAGIC:
            read_header(records, at)  # raises
        if size > end - at:
            break
        count = _INT32.unpack_from(records, at + _RECORDS_COUNT_AT)[0]
        if at > begin and (rows + count > PIECE_ROWS or at + size - begin > PIECE_BYTES):
            pieces.append(Piece(records[begin:at], behind))
            begin, rows = at, 0
        behind = max(behind, base_offset + _INT32.unpack_from(records, at + LAST_OFFSET_DELTA_AT)[0] + 1)
        rows += count
        at += size
    if at > begin:
        pieces.append(Piece(records[begin:at], behind))
    return pieces


def _cut_old(records: memoryview, at: int, pieces: list[Piece]) -> int:
    """Append the messages of v0 and v1 from position ``at`` on as batches of v2. Return the position behind them."""
    end = at
    for position, header in _old_entries(records, at):
        end = position + header.size
    made = bytearray()
    behind = 0
    for batch in upgraded(records, at, end):
        if len(made) + len(batch.records) > PIECE_BYTES and made:
            pieces.append(Piece(memoryview(made), behind, converted=True))
            made = bytearray()
        made += batch.records
        behind = batch.behind
    if made:
        pieces.append(Piece(memoryview(made), behind, converted=True))
    return end


def _old_entries(records: memoryview, at: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole message before the first batch of v2."""
    for position, header in iter_entries(records, at):
        yield position, header
        following = position + header.size + MAGIC_AT
        if following < len(records) and records[following] >= MAGIC:
            return
