"""Cuts a fetched chunk into pieces of whole record batches, each of which is decoded into one Arrow batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kafkalog.client.types import TopicPartition
from kafkalog.records import stretches
from kafkalog.records.compression import DEFAULT_MAX_SIZE
from kafkalog.records.errors import RecordTooLargeError
from kafkalog.records.legacy.convert import upgraded, without_private_flag

PIECE_ROWS = 1 << 16
PIECE_BYTES = 2 << 20
"""The most rows or (compressed) bytes of a piece; one batch of the log may exceed them. Small pieces stay in the
processor's cache between this process and the JVM's copy."""


class BatchTooLargeError(RecordTooLargeError):
    """A record batch expands to more bytes than `maxBatchBytes`. It is no damage, so no option skips it."""


@contextmanager
def bounded(tp: TopicPartition, offset: int) -> Iterator[None]:
    """Name the option in the error of a batch at `offset` or later that expands too far.

    Raises:
        BatchTooLargeError: It does.
    """
    try:
        yield
    except RecordTooLargeError as error:
        raise BatchTooLargeError(
            f"Could not read a record batch of {tp} at offset {offset} or later: {error}. The bound is maxBatchBytes: "
            "set it higher, 2g at most, and plan twice that memory for each Python worker."
        ) from None


class ChunkPiece(NamedTuple):
    """Some whole record batches of a fetched chunk, and the offset behind the last of them."""

    records: memoryview
    behind: int
    converted: bool = False
    """True if the batches were messages of formats v0 and v1."""
    is_old: bool = False
    """True if they are such messages still; see `modern`."""


def modern(piece: ChunkPiece, max_batch: int = DEFAULT_MAX_SIZE) -> Iterator[ChunkPiece]:
    """Yield the piece, or if it is of formats v0 and v1, pieces of batches of v2.

    Old messages are converted one part after the other, because all of a chunk may expand to more than the memory has.
    A compressed one of them may expand to `max_batch` bytes.

    Raises:
        RecordTooLargeError: It expands to more.
        RecordsError: A message cannot be decoded; any of its subclasses.
    """
    if piece.is_old:
        return _converted(piece.records, max_batch)
    return iter((piece,))


def joined(pieces: Iterable[ChunkPiece], max_batch: int = DEFAULT_MAX_SIZE) -> ChunkPiece:
    """Put the pieces of a chunk, at least one, into one piece of v2. Raises as `modern`."""
    pieces = [part for piece in pieces for part in modern(piece, max_batch)]
    converted = any(piece.converted for piece in pieces)
    records = [
        without_private_flag(piece.records) if converted and not piece.converted else piece.records for piece in pieces
    ]
    return ChunkPiece(memoryview(b"".join(records)), pieces[-1].behind, converted)


def cut_pieces(records: memoryview, offset: int) -> list[ChunkPiece]:
    """Cut the whole batches of a chunk fetched from `offset` into pieces of about PIECE_ROWS or PIECE_BYTES.

    A batch that the response cut off at its end is left out. Messages of formats v0 and v1 make pieces of their own.

    Raises:
        CorruptRecordError: A length is impossible.
        UnsupportedMagicError: A format is unknown.
    """
    # The size of old messages says little: `modern` bounds pieces of them by what they become.
    found = stretches.cut(records, max_records=PIECE_ROWS, max_bytes=PIECE_BYTES, max_old_bytes=len(records))
    stretches.refuse_damage(records, found[-1].end if found else 0)
    pieces: list[ChunkPiece] = []
    behind = offset
    for stretch in found:
        behind = max(behind, stretch.behind)
        pieces.append(ChunkPiece(records[stretch.begin : stretch.end], behind, is_old=stretch.is_old))
    return pieces


def _converted(records: memoryview, max_batch: int) -> Iterator[ChunkPiece]:
    made = bytearray()
    behind = 0
    for batch in upgraded(records, max_size=max_batch):
        if len(made) + len(batch.records) > PIECE_BYTES and made:
            yield ChunkPiece(memoryview(made), behind, converted=True)
            made = bytearray()
        made += batch.records
        behind = batch.behind
    if made:
        yield ChunkPiece(memoryview(made), behind, converted=True)
