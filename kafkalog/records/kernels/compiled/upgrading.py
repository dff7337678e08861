"""The kernel that turns the messages of a set of v0 or v1 into records of v2, in one pass.

`plain/upgrading.py` is the twin in plain Python.

A record of v2 never takes more bytes than its message did: the fields around key and value are at least 26 bytes of v0
and 34 of v1, and at most 23 and 32 of v2. So a target as large as the set is large enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.kernels.abi import upgrade_layout as u

from .intrinsics import (
    INLINE,
    INNER,
    INT,
    OPTIONS,
    WORDS,
    address,
    big_endian_64,
    byte,
    copy,
    little_endian_32,
    njit,
    store_8,
    types,
)

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")

COPY_INLINE = 16
"""Copies of more bytes than this are left to the C library."""


def _crc_tables() -> Any:
    """Return eight tables of CRC-32 (zlib's polynomial), to process eight bytes at a time."""
    tables = np.zeros((8, 256), np.uint32)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        tables[0, value] = crc
    for value in range(256):
        crc = int(tables[0, value])
        for table in range(1, 8):
            crc = crc >> 8 ^ int(tables[0, crc & 0xFF])
            tables[table, value] = crc
    return tables


CRC = _crc_tables()


@njit(**INLINE)
def unsigned_32(base: Any, at: Any) -> Any:
    """Load the big-endian uint32 at base + at."""
    raw = little_endian_32(base, at)
    return (raw & 0xFF) << 24 | (raw & 0xFF00) << 8 | (raw >> 8 & 0xFF00) | raw >> 24


@njit(**INLINE)
def big_endian_32(base: Any, at: Any) -> Any:
    """Load the big-endian int32 at base + at."""
    return (unsigned_32(base, at) ^ 0x80000000) - 0x80000000


@njit(**INLINE)
def crc32(base: Any, at: Any, end: Any) -> Any:
    """Compute CRC-32 of base[at:end]."""
    crc = np.uint64(0xFFFFFFFF)
    low = np.uint64(0xFF)
    while end - at >= 8:
        first = np.uint64(little_endian_32(base, at)) ^ crc
        second = np.uint64(little_endian_32(base, at + 4))
        crc = np.uint64(
            CRC[7, first & low]
            ^ CRC[6, first >> np.uint64(8) & low]
            ^ CRC[5, first >> np.uint64(16) & low]
            ^ CRC[4, first >> np.uint64(24)]
            ^ CRC[3, second & low]
            ^ CRC[2, second >> np.uint64(8) & low]
            ^ CRC[1, second >> np.uint64(16) & low]
            ^ CRC[0, second >> np.uint64(24)]
        )
        at += 8
    while at < end:
        crc = np.uint64(CRC[0, (crc ^ np.uint64(byte(base, at))) & low]) ^ crc >> np.uint64(8)
        at += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


@njit(**INLINE)
def varint_size(value: Any) -> Any:
    """Return the size of the zig-zag varint of `value`."""
    raw = np.uint64(value << 1 ^ value >> 63)
    size = 1
    while raw >= np.uint64(0x80):
        raw >>= np.uint64(7)
        size += 1
    return size


@njit(**INLINE)
def put_varint(out: Any, at: Any, value: Any) -> Any:
    """Write the zig-zag varint of `value` at `at`; return the position after it."""
    raw = np.uint64(value << 1 ^ value >> 63)
    while raw >= np.uint64(0x80):
        store_8(out, at, np.int64(raw & np.uint64(0x7F) | np.uint64(0x80)))
        raw >>= np.uint64(7)
        at += 1
    store_8(out, at, np.int64(raw))
    return at + 1


@njit(**INNER)
def put_field(out: Any, at: Any, source: Any, length: Any) -> Any:
    """Write a length (-1 for null) and that many bytes from address `source`; return the position after them."""
    at = put_varint(out, at, length)
    if length > COPY_INLINE:
        copy(out + at, source, length)
    else:
        for i in range(length):
            store_8(out, at + i, byte(source, i))
    return at + max(length, 0)


@njit(**OPTIONS)
def upgrade_messages(data: Any, magic: Any, max_size: Any, target: Any, words: Any) -> Any:
    """Write the messages in `data`, of format `magic`, to `target` as records of v2 with offsets from 0.

    `target` has as many bytes as `data`. `words` gets counts and timestamps of the records (`abi/upgrade_layout.py`).
    Return whether all messages are valid; if not, the output must not be used.
    """
    base, out, end = address(data), address(target), len(data)
    head = 26 if magic else 18
    at = written = count = null_keys = offset = np.int64(0)
    first = timestamp = earliest = latest = np.int64(-1)
    while at < end:
        # The shortest message: its fixed fields, and a value of length -1.
        if end - at < head + 8 or written > max_size:
            return False
        offset = big_endian_64(base, at)
        size = big_endian_32(base, at + 8)
        if size < head - 4 or size > end - at - 12 or byte(base, at + 16) != magic or byte(base, at + 17) & 7:
            return False
        after = at + 12 + size
        if crc32(base, at + 16, after) != unsigned_32(base, at + 12):
            return False
        if magic:
            timestamp = big_endian_64(base, at + 18)
        if count == 0:
            first = latest = timestamp
        latest = max(latest, timestamp)
        if timestamp != -1 and (earliest == -1 or timestamp < earliest):
            earliest = timestamp
        delta = timestamp - first
        if (timestamp ^ first) & (timestamp ^ delta) < 0:
            return False
        at += head
        key_length = big_endian_32(base, at)
        at += 4
        key_at = at
        if key_length < 0:
            key_length = np.int64(-1)
            null_keys += 1
        elif key_length > after - at - 4:
            return False
        else:
            at += key_length
        value_length = big_endian_32(base, at)
        at += 4
        if value_length < 0:
            value_length = np.int64(-1)
        elif value_length > after - at:
            return False
        length = 2 + varint_size(delta) + varint_size(count) + varint_size(key_length) + varint_size(value_length)
        length += max(key_length, 0) + max(value_length, 0)
        written = put_varint(out, written, length)
        store_8(out, written, 0)
        written = put_varint(out, written + 1, delta)
        written = put_varint(out, written, count)
        written = put_field(out, written, base + key_at, key_length)
        written = put_field(out, written, base + at, value_length)
        store_8(out, written, 0)
        written += 1
        count += 1
        at = after
    words[u.SIZE], words[u.COUNT], words[u.NULL_KEYS], words[u.LAST_OFFSET] = written, count, null_keys, offset
    words[u.FIRST_TIMESTAMP], words[u.LATEST], words[u.EARLIEST] = first, latest, earliest
    return True


SIGNATURES: dict[Any, Any] = {
    upgrade_messages: types.boolean(BYTES, INT, INT, OUT, WORDS),
}
"""The kernels to compile, and their types; no others are ever compiled."""
