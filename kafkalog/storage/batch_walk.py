"""Walking over the record batches of a ``.log`` file.

A file ``<base offset>.log`` holds batches one after another, without anything between them; their offsets grow. A
message of formats v0 and v1, a wrapper of compressed ones too, is a batch here, with a header made for it
(`kafkalog.records.any_format`): one log may hold all formats. Leaders append what producers sent, followers what
leaders have; compaction writes files anew. A crash leaves a batch that is not whole at the end of the last file, or,
where a file was made at its full size (``preallocate``), zeros.

Nothing here trusts the file: a length is checked against what the file holds before memory is taken for it, and a walk
always moves forward. Nothing here opens it either: callers hand in how to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from kafkalog.records.any_format import header_is_there, read_any_header, verify_any_crc
from kafkalog.records.batch import ATTRIBUTES_AT, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, BatchHeader
from kafkalog.records.checksum import crc32c
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE, MIN_SIZES

Read = Callable[[int, int], bytes | memoryview]
"""``read(size, position)``: up to so many bytes, fewer only at the file's end. ``partial(os.pread, fd)`` is one."""
ReadInto = Callable[[memoryview, int], int]
"""``read_into(view, position)``: fills the view, or as much of it as there is; returns how many bytes."""

# Offset and length, which batches of every magic begin with, and the last offset delta of magic 2.
_SPAN = Struct(">qi4xb6xi")
SPAN_BYTES = _SPAN.size
MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD

CHUNK_BYTES = 8192
"""Between two index entries lie ``index.interval.bytes`` and one batch; most batches are smaller than this."""
VERIFY_BYTES = 1 << 20


def stated_size(head: bytes | memoryview) -> int:
    """Size of the batch that begins with ``head``, as the batch states it; 0 where its length is not there.

    The length may be anything, a negative number too.
    """
    if len(head) < LOG_OVERHEAD:
        return 0
    return LOG_OVERHEAD + int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)


def find_batch(read: Read, position: int, end: int, offset: int) -> tuple[int, int, int] | None:
    """``(base offset, position, size)`` of the first batch at or after ``position`` whose last offset reaches
    ``offset``.

    None when no batch before ``end`` does. What ``read`` raises is passed on.

    Raises:
        CorruptRecordError: a length that cannot be.
    """
    unpack = _SPAN.unpack_from
    while position + SPAN_BYTES <= end:
        chunk = read(min(CHUNK_BYTES, end - position), position)
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
        return _last_and_least(read(MIN_ENTRY_SIZE, position), 0, position, offset)
    return None


def _last_and_least(chunk: bytes | memoryview, at: int, position: int, offset: int) -> tuple[int, int, int] | None:
    """`find_batch` for the smallest message there is, at the very end: it is shorter than SPAN_BYTES."""
    try:
        header = read_any_header(chunk, at)
    except RecordsError as error:
        raise CorruptRecordError(f"no record batch at position {position}: {error}") from None
    if header.size != MIN_ENTRY_SIZE or header.base_offset < offset:
        return None
    return header.base_offset, position, MIN_ENTRY_SIZE


def batch_size(read: Read, position: int, end: int) -> int:
    """Size in bytes of the batch at ``position``, or 0 when it does not lie whole before ``end``."""
    size = stated_size(read(LOG_OVERHEAD, position))
    return size if size > LOG_OVERHEAD and position + size <= end else 0


def headers(
    read: Read, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES, verified_bytes: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """``(position, header)`` of each whole batch in [position, end); stops at an incomplete one.

    Args:
        read: see `Read`.
        position: where a batch begins.
        end: bytes of the file that count.
        chunk_bytes: so many bytes are read at a time.
        verified_bytes: batches up to this size, at most ``chunk_bytes``, have their checksums verified.

    Raises:
        CorruptRecordError: bytes that are no batch header, or a wrong checksum.
        UnsupportedMagicError: a magic that no batch has.
    """
    unpack, make = HEADER.unpack_from, BatchHeader._make
    while position + MIN_ENTRY_SIZE <= end:
        chunk = read(min(chunk_bytes, end - position), position)
        view = memoryview(chunk)
        at, have = 0, len(chunk)
        while True:
            # The first case is `read_header`, written out: a walk is this and little else.
            if at + HEADER_SIZE <= have and chunk[at + MAGIC_AT] == MAGIC:
                header = make(unpack(chunk, at))
                if header.batch_length < MIN_LENGTH:
                    raise CorruptRecordError(f"batch length {header.batch_length} is less than a header's")
            elif header_is_there(chunk, at, have):
                header = read_any_header(chunk, at)
            else:
                break
            size = LOG_OVERHEAD + header.batch_length
            if position + at + size > end:
                return
            if size <= verified_bytes:
                if at + size > have:
                    break
                if header.magic < MAGIC or crc32c(view[at + ATTRIBUTES_AT : at + size]) != header.crc:
                    verify_any_crc(chunk, at, header)
            yield position + at, header
            at += size
        if at == 0:
            return
        position += at


def verified_batches(read_into: ReadInto, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """``(position, header, bytes)`` of each batch in [position, end), its CRC checked; the bytes live until
    the next.

    Ends without an error only at ``end``.

    Raises:
        CorruptRecordError: at the first bytes that are no whole batch with a right CRC.
    """
    buffer = bytearray(min(VERIFY_BYTES, max(end - position, 0)))
    while position < end:
        want = min(len(buffer), end - position)
        have = read_into(memoryview(buffer)[:want], position)
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


def is_zero(read: Read, position: int, end: int) -> bool:
    """Whether there is nothing but zeros in [position, end)."""
    while position < end:
        chunk = read(min(VERIFY_BYTES, end - position), position)
        if not chunk or any(chunk):
            return False
        position += len(chunk)
    return True
