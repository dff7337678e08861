"""Functions of both kernels of log cleaning: records and their keys, the offset map's cells, ordinary batches.

Keys are hashed with SipHash-2-4 to 128 bits under a secret of the process. Keys with equal hashes count as equal, as
Kafka treats equal MD5 sums. Among n keys two have one hash with a probability of n * n / 2**129, and without the secret
nobody can construct two on purpose. The map is a table of cells (hash, offset + 1) with linear probing. A look-up in a
large map waits for memory much longer than hashing the key takes, so the kernels prefetch many cells (`fetch_ahead`).

Each byte is read only after its position was compared with its section's end. `plain/log_cleaning.py` is the twin.
"""

from __future__ import annotations

from typing import Any

from kafkalog.records.kernels.abi import clean_layout as c

from .intrinsics import (
    INLINE,
    INNER,
    big_endian_64,
    byte,
    call_crc32c,
    little_endian_32,
    load_64,
    njit,
    prefetch,
)
from .unpacking import SNAPPY, lz4_block_max, unpack_lz4, unpack_snappy

FAILED = -1
LOW_63 = 0x7FFFFFFFFFFFFFFF


@njit(**INLINE)
def varint(base: Any, at: Any, end: Any) -> Any:
    """Read the varint or varlong at `at`; return it and the position after it, or 0 and FAILED."""
    if at < end:
        raw = byte(base, at)
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
    raw = 0
    shift = 0
    while at < end and shift < 70:
        part = byte(base, at)
        at += 1
        raw |= (part & 0x7F) << shift
        if part < 0x80:
            return ((raw >> 1) & LOW_63) ^ -(raw & 1), at
        shift += 7
    return 0, FAILED


@njit(**INLINE)
def record_at(base: Any, at: Any, end: Any) -> Any:
    """Parse the record at `at`: return its end (FAILED if invalid), timestamp and offset delta, position of its key.

    Return also the lengths of key and value, -1 for null.
    """
    length, at = varint(base, at, end)
    if at < 0 or length < c.MIN_RECORD_LENGTH or length > end - at:
        return FAILED, 0, 0, 0, 0, 0
    stop = at + length
    timestamp_delta, at = varint(base, at + 1, stop)
    if at < 0:
        return FAILED, 0, 0, 0, 0, 0
    offset_delta, at = varint(base, at, stop)
    if at < 0:
        return FAILED, 0, 0, 0, 0, 0
    key_length, key_at = varint(base, at, stop)
    if key_at < 0 or key_length < -1 or key_length > stop - key_at:
        return FAILED, 0, 0, 0, 0, 0
    value_length, at = varint(base, key_at + max(key_length, 0), stop)
    if at < 0 or value_length < -1 or value_length > stop - at:
        return FAILED, 0, 0, 0, 0, 0
    return stop, timestamp_delta, offset_delta, key_at, key_length, value_length


@njit(**INLINE)
def rotated(word: Any, bits: Any) -> Any:
    return (word << bits) | ((word >> (64 - bits)) & ((1 << bits) - 1))


@njit(**INLINE)
def sip_round(a: Any, b: Any, c_: Any, d: Any) -> Any:
    a += b
    b = rotated(b, 13) ^ a
    a = rotated(a, 32)
    c_ += d
    d = rotated(d, 16) ^ c_
    a += d
    d = rotated(d, 21) ^ a
    c_ += b
    b = rotated(b, 17) ^ c_
    c_ = rotated(c_, 32)
    return a, b, c_, d


@njit(**INNER)
def hash_key(base: Any, length: Any, key: Any, key_more: Any) -> Any:
    """Hash `length` bytes with SipHash-2-4 of 128 bits (Aumasson and Bernstein); return two words."""
    v0 = key ^ 0x736F6D6570736575
    v1 = key_more ^ 0x646F72616E646F6D ^ 0xEE
    v2 = key ^ 0x6C7967656E657261
    v3 = key_more ^ 0x7465646279746573
    at = 0
    while at + 8 <= length:
        word = little_endian_32(base, at) | little_endian_32(base, at + 4) << 32
        v3 ^= word
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = length << 56
    shift = 0
    while at < length:
        word |= byte(base, at) << shift
        at += 1
        shift += 8
    v3 ^= word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@njit(**INLINE)
def find(cells: Any, slots: Any, first: Any, more: Any) -> Any:
    """Return the index of the first word of the hash's cell, or of the empty one that it would take."""
    slot = (((first >> 32) & 0xFFFFFFFF) * slots) >> 32
    while True:
        at = slot * c.CELL
        if not load_64(cells, at + c.NEXT_OFFSET):
            return at
        if load_64(cells, at) == first and load_64(cells, at + c.HASH_MORE) == more:
            return at
        slot += 1
        if slot == slots:
            slot = 0


@njit(**INLINE)
def fetch_ahead(cells: Any, slots: Any, first: Any) -> Any:
    """Prefetch the cell where the look-up of a hash begins; that takes longer than computing the hash."""
    at = cells + ((((first >> 32) & 0xFFFFFFFF) * slots) >> 32) * c.CELL_BYTES
    prefetch(at, 0)
    # A cell may span two of the processor's cache lines.
    prefetch(at, c.CELL_BYTES - 8)


@njit(**INLINE)
def ordinary(base: Any, pos: Any, end: Any, crc_function: Any, codecs: Any) -> Any:
    """Return the size of the batch at `pos`, 0 where it is incomplete, FAILED where Python must handle it.

    `codecs` has a bit for each codec that the caller supports. Python decides about an incomplete batch when it has
    read more, or has reached the end.
    """
    if end - pos < c.HEADER_SIZE:
        return 0
    size = (big_endian_64(base, pos + 8) >> 32) + c.LOG_OVERHEAD
    if byte(base, pos + c.MAGIC_AT) != c.MAGIC or size < c.HEADER_SIZE or not crc_function:
        return FAILED
    if size > end - pos:
        return 0
    count = big_endian_64(base, pos + c.COUNT_AT - 4) << 32 >> 32
    last = big_endian_64(base, pos + c.LAST_OFFSET_DELTA_AT) >> 32
    flags = byte(base, pos + c.ATTRIBUTES_AT + 1) & c.SPECIAL_FLAGS
    if (flags and not (codecs >> flags) & 1) or count < 0 or last < 0:
        return FAILED
    crc = (big_endian_64(base, pos + c.CRC_AT) >> 32) & 0xFFFFFFFF
    if call_crc32c(crc_function, base + pos + c.ATTRIBUTES_AT, size - c.ATTRIBUTES_AT) != crc:
        return FAILED
    return size


@njit(**INNER)
def unpack(codec: Any, source: Any, end: Any, target: Any, limit: Any, lz4: Any) -> Any:
    """Decompress lz4 or snappy to `target`; return the size, at most `limit`, or FAILED where Python must do it."""
    if codec == SNAPPY:
        return unpack_snappy(source, end, target, limit)
    block_max = lz4_block_max(source, end) if lz4 else 0
    if not block_max:
        return FAILED
    return unpack_lz4(lz4, source, end, block_max, target, limit)
