"""The kernel that prepares batches for decoding: it checks their CRC and decompresses them, many in one call.

In Python, preparing batches of 16 KiB would take as long as decoding them, so the common ones are done here:
uncompressed ones, lz4 in plain frames, and snappy. A batch that the kernel does not support, or finds wrong, is left to
Python, which handles it anew (`compression.py`) and raises the right error; so this code need not tell one fault from
another.

The checksum and lz4 are C functions of the wheels `crc32c` and `lz4`, called by their addresses (`native.py`). snappy's
library exports none: its blocks are decoded here. The kernels of log cleaning use functions of this file.
"""

from __future__ import annotations

from typing import Any

from kafkalog.records.compression import LZ4_MAGIC, XERIAL_HEADER, XERIAL_MAGIC, Codec
from kafkalog.records.kernels.abi import table as t

from .intrinsics import (
    INLINE,
    INNER,
    INT,
    OPTIONS,
    TABLE,
    WORDS,
    big_endian_64,
    byte,
    call_crc32c,
    call_lz4,
    copy,
    copy_8,
    copy_16,
    copy_block,
    little_endian_32,
    njit,
    store_8,
)

SNAPPY = int(Codec.SNAPPY)
LZ4 = int(Codec.LZ4)

COPY_INLINE = 256
"""Literals of more bytes than this are left to the C library."""
FAR = 64
"""The most bytes after a tag of a short literal or a copy. Where that many are left, they are read without a check."""
LONG_LITERAL_MASK, LONG_LITERAL = 0xF3, 0xF0
"""Tags of literals whose length is stored in the bytes after the tag."""
COPY_BYTES = 0, 1, 2, 4
"""Bytes after the tag of a copy, by its kind."""

FAILED = -1
"""Instead of a size: Python must handle the batch."""

LZ4_FRAME = int.from_bytes(LZ4_MAGIC, "little")
LZ4_FLAGS = 0x60
"""Version 1, independent blocks, and neither checksums nor a size."""
LZ4_CHECKS = 0x82, 0xFB, 0x51, 0x73
"""The second byte of the xxHash32 of headers with these flags, by block size (64 KiB, 256 KiB, 1 MiB, 4 MiB)."""

XERIAL = int.from_bytes(XERIAL_MAGIC, "big", signed=True)
XERIAL_SIZE = len(XERIAL_HEADER)


@njit(**INLINE)
def big_endian_32(base: Any, at: Any) -> Any:
    """Load the big-endian uint32 at base + at, aligned or not."""
    return byte(base, at) << 24 | byte(base, at + 1) << 16 | byte(base, at + 2) << 8 | byte(base, at + 3)


@njit(**INLINE)
def copy_back(target: Any, distance: Any, length: Any) -> Any:
    """Copy `length` bytes (64 at most) to `target` from `distance` before it, which may be less than the length.

    It writes at most 31 bytes more.
    """
    source = target - distance
    if distance >= 32:
        copy_block(target, source, 0)
        if length > 32:
            copy_block(target, source, 32)
    elif distance >= 16:
        for at in range(0, length, 16):
            copy_16(target, source, at)
    elif distance >= 8:
        for at in range(0, length, 8):
            copy_8(target, source, at)
    else:
        # Byte by byte the pattern repeats itself; once it is long enough, whole repetitions of eight bytes and more are
        # copied.
        for at in range(8):
            store_8(target, at, byte(source, at))
        back = target - distance * ((7 + distance) // distance)
        for at in range(8, length, 8):
            copy_8(target, back, at)


@njit(**INNER)
def unpack_snappy_block(source: Any, end: Any, target: Any, limit: Any) -> Any:
    """Decompress a raw block to `target`; return the size, at most `limit`. Up to SLACK bytes more may be written."""
    size = shift = 0
    while True:
        if source >= end or shift > 28:
            return FAILED
        part = byte(source, 0)
        source += 1
        size |= (part & 0x7F) << shift
        shift += 7
        if part < 0x80:
            break
    if size > limit:
        return FAILED
    done = 0
    while source < end:
        tag = byte(source, 0)
        left = end - source - 1
        kind = tag & 3
        if left >= FAR and kind != 3 and tag & LONG_LITERAL_MASK != LONG_LITERAL:
            # Nearly all elements come here. There is no branch on their kind, since the processor cannot predict it.
            word = little_endian_32(source, 1)
            near = kind & 1
            length = ((tag >> 2) & (0x3F >> 3 * near)) + 1 + 3 * near
            distance = (word & (0xFFFF >> 8 * near)) | (tag >> 5 << 8) * near
            place = target + done
            origin = place - distance if kind else source + 1
            if length <= size - done and (kind == 0 or 32 <= distance <= done):
                copy_block(place, origin, 0)
                copy_block(place, origin, 32)
                done += length
                source += 1 + (kind if kind else length)
                continue
        if kind == 0:
            length = (tag >> 2) + 1
            source += 1
            if length > 60:
                extra = length - 60
                if left < 4:
                    return FAILED
                length = (little_endian_32(source, 0) & (0xFFFFFFFF >> (32 - 8 * extra))) + 1
                source += extra
                left -= extra
            if length > left or length > size - done:
                return FAILED
            if length <= COPY_INLINE and left >= length + 32:
                for at in range(0, length, 32):
                    copy_block(target + done, source, at)
            else:
                copy(target + done, source, length)
            source += length
            done += length
            continue
        if left < COPY_BYTES[kind]:
            return FAILED
        length = ((tag >> 2) & 7) + 4 if kind == 1 else (tag >> 2) + 1
        distance = byte(source, 1)
        if kind == 1:
            distance |= tag >> 5 << 8
        elif kind == 2:
            distance |= byte(source, 2) << 8
        else:
            distance = little_endian_32(source, 1)
        source += 1 + COPY_BYTES[kind]
        if distance == 0 or distance > done or length > size - done:
            return FAILED
        copy_back(target + done, distance, length)
        done += length
    return size if done == size else FAILED


@njit(**INNER)
def unpack_snappy(source: Any, end: Any, target: Any, limit: Any) -> Any:
    """Decompress blocks in xerial framing, or one raw block, to `target`; return the size, at most `limit`."""
    if end - source < XERIAL_SIZE or big_endian_64(source, 0) != XERIAL:
        return unpack_snappy_block(source, end, target, limit)
    if big_endian_32(source, 12) > 1:
        return FAILED
    source += XERIAL_SIZE
    done = 0
    while source < end:
        if end - source < 4:
            return FAILED
        length = big_endian_32(source, 0)
        source += 4
        if length > end - source:
            return FAILED
        size = unpack_snappy_block(source, source + length, target + done, limit - done)
        if size < 0:
            return FAILED
        source += length
        done += size
    return done


@njit(**INLINE)
def lz4_block_max(source: Any, end: Any) -> Any:
    """Return the most bytes that a block of a plain lz4 frame expands to; 0 where it is no such frame."""
    if end - source < 11 or little_endian_32(source, 0) != LZ4_FRAME or byte(source, 4) != LZ4_FLAGS:
        return 0
    kind = (byte(source, 5) >> 4) - 4
    if byte(source, 5) & 0x8F or kind < 0 or byte(source, 6) != LZ4_CHECKS[kind]:
        return 0
    return 1 << (16 + 2 * kind)


@njit(**INNER)
def unpack_lz4(function: Any, source: Any, end: Any, block_max: Any, target: Any, limit: Any) -> Any:
    """Decompress a plain lz4 frame to `target`; return the size, at most `limit`."""
    # Not even the slack is there. The C function must not get a negative size of the room.
    if limit < 0:
        return FAILED
    source += 7
    done = 0
    while end - source >= 4:
        length = little_endian_32(source, 0)
        source += 4
        if length == 0:
            return done if source == end else FAILED
        stored = length >> 31
        length &= 0x7FFFFFFF
        if length > end - source:
            return FAILED
        room = min(block_max, limit - done)
        if stored:
            if length > room:
                return FAILED
            copy(target + done, source, length)
            size = length
        else:
            size = call_lz4(function, source, target + done, length, room)
            if size < 0:
                return FAILED
        source += length
        done += size
    return FAILED


@njit(**OPTIONS)
def unpack_batches(table: Any, index: Any, origin: Any, words: Any) -> Any:
    """Check and decompress the batches from `index` on, until a group is full; return the first one that was not done.

    Rows of compressed batches get new addresses, in the room that `words` names; `words` also has the limits and the
    sums so far (`abi/table.py`). A batch that is not done has changed nothing.
    """
    base, capacity = words[t.ROOM], words[t.ROOM_SIZE]
    checksum, lz4 = words[t.CRC_FUNCTION], words[t.LZ4_FUNCTION]
    most_bytes, most_unpacked, topic_size = words[t.MOST_BYTES], words[t.MOST_UNPACKED], words[t.TOPIC_SIZE]
    while index < len(table) and words[t.GROUP_LENGTH] < t.GROUP_BYTES:
        row = table[index]
        codec = row[t.ATTRIBUTES] & 7
        packed = row[t.END] - row[t.START]
        block_max = 0
        if codec and packed and codec != SNAPPY:
            if codec == LZ4 and lz4:
                block_max = lz4_block_max(row[t.START], row[t.END])
            if not block_max:
                return index
        if checksum:
            at = row[t.POSITION] + t.ATTRIBUTES_AT
            if call_crc32c(checksum, origin + at, row[t.SIZE] - t.ATTRIBUTES_AT) != row[t.CRC]:
                return index
        size = packed
        target = row[t.START]
        if codec and packed:
            target = base + words[t.ROOM_USED]
            # Bytes after the decompressed ones may be overwritten too.
            limit = min(capacity - words[t.ROOM_USED] - t.SLACK, most_unpacked)
            if codec == SNAPPY:
                size = unpack_snappy(row[t.START], row[t.END], target, limit)
            else:
                size = unpack_lz4(lz4, row[t.START], row[t.END], block_max, target, limit)
            if size < 0 or (words[t.UNPACKED] and words[t.UNPACKED] + size > most_unpacked):
                return index
        count = row[t.COUNT]
        if count * t.MIN_RECORD_SIZE > size:
            return index
        rows = words[t.TAKEN_ROWS]
        if rows and (words[t.TAKEN_BYTES] + size > most_bytes or (rows + count) * topic_size > most_bytes):
            return index
        if codec and packed:
            words[t.ROOM_USED] += size
            words[t.UNPACKED] += size
            row[t.START] = target
            row[t.END] = target + size
        words[t.TAKEN_ROWS] = rows + count
        words[t.TAKEN_BYTES] += size
        words[t.GROUP_FETCHED] += row[t.SIZE]
        words[t.GROUP_LENGTH] += size
        words[t.GROUP_ROWS] += count
        index += 1
    return index


SIGNATURES: dict[Any, Any] = {unpack_batches: INT(TABLE, INT, INT, WORDS)}
"""The kernels to compile, and their types; no others are ever compiled."""
