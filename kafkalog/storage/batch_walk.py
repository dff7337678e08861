"""Walks over the record batches of a `.log` file.

A file `<base offset>.log` contains batches one directly after another, with increasing offsets. A message of format
v0 or v1, including a wrapper of compressed messages, counts as a batch here, with a header made for it
(`kafkalog.records.any_format`); a log may contain all formats. Leaders append the batches of producers, followers copy
those of the leader, and compaction writes new files. A crash leaves an incomplete batch at the end of the last file, or
zeros if the file was created at its full size (`preallocate`).

Nothing here trusts the file: a length is checked against the file's size before memory is taken for it, and a walk
always moves forward. Nothing here opens the file; callers pass a function that reads.
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
"""`read(size, position)` returns `size` bytes, fewer only at the file's end, like `partial(os.pread, fd)`."""
ReadInto = Callable[[memoryview, int], int]
"""`read_into(view, position)` fills the view, less only at the file's end; it returns the number of bytes."""

_SPAN = Struct(">qi4xb6xi")
"""Offset and length, with which batches of every magic begin, and the last offset delta of magic 2."""
SPAN_BYTES = _SPAN.size
MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD

CHUNK_BYTES = 8192
"""Two index entries are `index.interval.bytes` plus one batch apart; most batches are smaller than this."""
VERIFY_BYTES = 1 << 20


def stated_size(head: bytes | memoryview) -> int:
    """Return the size that the batch beginning with `head` states; 0 if `head` is too short for a length.

    The size is not checked, and may even be negative.
    """
    if len(head) < LOG_OVERHEAD:
        return 0
    return LOG_OVERHEAD + int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)


def find_batch(read: Read, position: int, end: int, offset: int) -> tuple[int, int, int] | None:
    """Find the first batch at or after `position` whose last offset is at least `offset`.

    Returns:
        Base offset, position and size; None if no whole batch before `end` qualifies.

    Raises:
        CorruptRecordError: A length is impossible. Errors of `read` are passed on.
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
    """Do the work of `find_batch` for the smallest possible message, at the very end: it is shorter than SPAN_BYTES."""
    try:
        header = read_any_header(chunk, at)
    except RecordsError as error:
        raise CorruptRecordError(f"no record batch at position {position}: {error}") from None
    if header.size != MIN_ENTRY_SIZE or header.base_offset < offset:
        return None
    return header.base_offset, position, MIN_ENTRY_SIZE


def batch_size(read: Read, position: int, end: int) -> int:
    """Return the size in bytes of the batch at `position`, or 0 if it is not whole before `end`."""
    size = stated_size(read(LOG_OVERHEAD, position))
    return size if size > LOG_OVERHEAD and position + size <= end else 0


def headers(
    read: Read, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES, verified_bytes: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield `(position, header)` of each whole batch in [position, end); stop at an incomplete one.

    Args:
        read: see `Read`.
        position: the position of a batch.
        end: the end of the part of the file to walk over.
        chunk_bytes: the number of bytes to read at a time.
        verified_bytes: the checksums of batches up to this size, at most `chunk_bytes`, are verified.

    Raises:
        CorruptRecordError: A batch header is invalid, or a checksum is wrong.
        UnsupportedMagicError: A magic is unknown.
    """
    unpack, make = HEADER.unpack_from, BatchHeader._make
    while position + MIN_ENTRY_SIZE <= end:
        chunk = read(min(chunk_bytes, end - position), position)
        view = memoryview(chunk)
        at, have = 0, len(chunk)
        while True:
            # The first case is `read_header` written out, because a walk does little else.
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
    """Yield `(position, header, bytes)` of each batch in [position, end), after checking its CRC.

    The bytes are valid until the next batch. The walk ends without an error only at `end`.

    Raises:
        CorruptRecordError: The next bytes are not a whole batch with a correct CRC.
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
                if have < want:
                    raise CorruptRecordError(f"batch at position {position + at} is cut off")
                if at == 0:
                    buffer = bytearray(size)
                break
            verify_any_crc(buffer, at, header)
            yield position + at, header, memoryview(buffer)[at : at + size]
            at += size
        position += at


def is_zero(read: Read, position: int, end: int) -> bool:
    """Return whether all bytes in [position, end) are zero."""
    while position < end:
        chunk = read(min(VERIFY_BYTES, end - position), position)
        if not chunk or any(chunk):
            return False
        position += len(chunk)
    return True
