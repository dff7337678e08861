"""Walking the record batches of a ``.log`` file with positioned reads.

A message of formats v0 and v1, a wrapper of compressed ones too, is a batch here, with a header made for it
(`kafkalog.records.any_format`): one log may hold all formats.

Nothing here trusts the file: a length is checked against what the file holds before memory is taken for it,
and a walk always moves forward.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from struct import Struct

from kafkalog.records.any_format import header_is_there, read_any_header, verify_any_crc
from kafkalog.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, BatchHeader, read_header
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.records.message_set import MIN_ENTRY_SIZE, MIN_SIZES

# Offset and length, which batches of every magic begin with, and the last offset delta of magic 2.
_SPAN = Struct(">qi4xb6xi")
SPAN_BYTES = _SPAN.size
MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD

# Between two index entries lie index.interval.bytes and one batch; most batches are smaller than this.
CHUNK_BYTES = 8192
VERIFY_BYTES = 1 << 20


def find_batch(
    fd: int, position: int, end: int, offset: int, *, pread: Callable[[int, int, int], bytes] = os.pread
) -> tuple[int, int, int] | None:
    """``(base offset, position, size)`` of the first batch at or after ``position`` whose last offset reaches
    ``offset``.

    None when no batch before ``end`` does. ``pread`` reads as ``os.pread`` does, and what it raises is passed on.

    Raises:
        CorruptRecordError: a length that cannot be.
    """
    unpack = _SPAN.unpack_from
    while position + SPAN_BYTES <= end:
        chunk = pread(fd, min(CHUNK_BYTES, end - position), position)
        at, stop = 0, len(chunk) - SPAN_BYTES
        if stop < 0:
            break
        while at <= stop:
            base, length, magic, delta = unpack(chunk, at)
            if length < MIN_LENGTH or magic != 2 or delta < 0:
                if not 0 <= magic < MAGIC or length < MIN_SIZES[magic]:
                    raise CorruptRecordError(f"no record batch at position {position + at}")
                delta = 0  # A message's offset is its last.
            if base + delta >= offset:
                if position + at + LOG_OVERHEAD + length > end:
                    return None
                return base, position + at, LOG_OVERHEAD + length
            at += LOG_OVERHEAD + length
        if at == stop + 1 and position + len(chunk) == end:
            return _last_and_least(chunk, at, position + at, offset)
        position += at
    if end - position == MIN_ENTRY_SIZE:
        return _last_and_least(os.pread(fd, MIN_ENTRY_SIZE, position), 0, position, offset)
    return None


def _last_and_least(chunk: bytes, at: int, position: int, offset: int) -> tuple[int, int, int] | None:
    """`find_batch` for the smallest message there is, at the very end: it is shorter than SPAN_BYTES."""
    try:
        header = read_any_header(chunk, at)
    except RecordsError as error:
        raise CorruptRecordError(f"no record batch at position {position}: {error}") from None
    if header.size != MIN_ENTRY_SIZE or header.base_offset < offset:
        return None
    return header.base_offset, position, MIN_ENTRY_SIZE


def batch_size(fd: int, position: int, end: int) -> int:
    """Size in bytes of the batch at ``position``, or 0 when it does not lie whole before ``end``."""
    head = os.pread(fd, LOG_OVERHEAD, position)
    if len(head) < LOG_OVERHEAD:
        return 0
    size = LOG_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
    return size if size > LOG_OVERHEAD and position + size <= end else 0


def headers(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """``(position, header)`` of each whole batch in [position, end); stops at an incomplete one.

    Raises:
        CorruptRecordError: bytes that are no batch header.
    """
    while position + MIN_ENTRY_SIZE <= end:
        chunk = os.pread(fd, min(CHUNK_BYTES, end - position), position)
        at, have = 0, len(chunk)
        while True:
            if at + HEADER_SIZE <= have and chunk[at + MAGIC_AT] == MAGIC:
                header = read_header(chunk, at)
            elif header_is_there(chunk, at, have):
                header = read_any_header(chunk, at)
            else:
                break
            size = LOG_OVERHEAD + header.batch_length
            if position + at + size > end:
                return
            yield position + at, header
            at += size
        if at == 0:
            return
        position += at


def verified_batches(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """``(position, header, bytes)`` of each batch in [position, end), its CRC checked; the bytes live until
    the next.

    Ends without an error only at ``end``.

    Raises:
        CorruptRecordError: at the first bytes that are no whole batch with a right CRC.
    """
    buffer = bytearray(min(VERIFY_BYTES, max(end - position, 0)))
    while position < end:
        want = min(len(buffer), end - position)
        have = _fill(fd, memoryview(buffer)[:want], position)
        if not header_is_there(buffer, 0, have):
            raise CorruptRecordError(f"{end - position} bytes at position {position} are no record batch")
        at = 0
        while header_is_there(buffer, at, have):
            header = read_any_header(buffer, at)
            size = LOG_OVERHEAD + header.batch_length
            if position + at + size > end:
                raise CorruptRecordError(f"batch at position {position + at} is cut off")
            if at + size > have:
                if at == 0:
                    buffer = bytearray(size)
                break
            verify_any_crc(buffer, at, header)
            yield position + at, header, memoryview(buffer)[at : at + size]
            at += size
        position += at


def is_zero(fd: int, position: int, end: int) -> bool:
    """Whether there is nothing but zeros in [position, end)."""
    while position < end:
        chunk = os.pread(fd, min(VERIFY_BYTES, end - position), position)
        if not chunk or any(chunk):
            return False
        position += len(chunk)
    return True


def _fill(fd: int, view: memoryview, position: int) -> int:
    filled = 0
    while filled < len(view):
        count = os.preadv(fd, [view[filled:]], position + filled)
        if count == 0:
            break
        filled += count
    return filled
