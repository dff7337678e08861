"""The kernel that checks and counts what a log holds: CRC and every record of batches v2, without the GIL.

Unlike the check of produced batches it accepts what compaction leaves: offset deltas with gaps, batches without
records. `plain/log_checking.py` is the twin in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.kernels.abi import check_layout as c
from kafkalog.records.kernels.abi import status as s
from kafkalog.records.kernels.abi import table as t

from .intrinsics import INLINE, INNER, INT, OPTIONS, TABLE, WORDS, address, byte, call_crc32c, njit, types

BYTES = types.Array(types.uint8, 1, "C", readonly=True)


@njit(**INLINE)
def varint(base: Any, at: Any, end: Any, bits: Any) -> Any:
    """Read the varint of up to `bits` bits at `at`; return it and the position after it, or 0 and a negative status."""
    if at < end:
        part = byte(base, at)
        if part < 0x80:
            return (part >> 1) ^ -(part & 1), at + 1
    raw = np.uint64(0)
    shift = 0
    while shift < bits:
        if at >= end:
            return 0, -s.TRUNCATED
        part = byte(base, at)
        at += 1
        raw |= np.uint64(part & 0x7F) << np.uint64(shift)
        if part < 0x80:
            if (bits == 64 and shift == 63 and part > 1) or (bits == 32 and raw >> np.uint64(32)):
                return 0, -s.BAD_VARINT
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += 7
    return 0, -s.BAD_VARINT


@njit(**INLINE)
def span(base: Any, at: Any, end: Any) -> Any:
    """Read the length (-1 for null) of the bytes at `at`; return it and their position, or 0 and a negative status."""
    length, at = varint(base, at, end, 32)
    if at < 0:
        return 0, at
    if length < -1:
        return 0, -s.BAD_LENGTH
    if length > end - at:
        return 0, -s.TRUNCATED
    return length, at


@njit(**INNER)
def check_headers(base: Any, at: Any, end: Any, counts: Any) -> Any:
    """Check the headers that must fill a record from `at` to its end, and count them; return 0 or a status."""
    count, at = varint(base, at, end, 32)
    if at < 0:
        return -at
    if count < 0 or 2 * count > end - at:
        return s.BAD_HEADERS
    for _ in range(count):
        length, at = span(base, at, end)
        if at < 0:
            return -at
        if length < 0:
            return s.NO_HEADER_KEY
        at += length
        counts[c.HEADER_BYTES] += length
        length, at = span(base, at, end)
        if at < 0:
            return -at
        at += max(length, 0)
        counts[c.HEADER_BYTES] += max(length, 0)
    counts[c.HEADERS] += count
    return s.OK if at == end else s.RECORD_SIZE


@njit(**INNER)
def check_section(base: Any, at: Any, end: Any, count: Any, last_delta: Any, counts: Any) -> Any:
    """Check the `count` records that fill base[at:end]; return a status and the index of the record it is about."""
    previous = np.int64(-1)
    for index in range(count):
        if at >= end:
            return s.TOO_FEW, index
        length, at = varint(base, at, end, 32)
        if at < 0:
            return -at, index
        if length < 0:
            return s.BAD_LENGTH, index
        if length > end - at or length < 1:
            return s.TRUNCATED, index
        record_end = at + length
        _, at = varint(base, at + 1, record_end, 64)
        if at < 0:
            return -at, index
        delta, at = varint(base, at, record_end, 32)
        if at < 0:
            return -at, index
        key_length, at = span(base, at, record_end)
        if at < 0:
            return -at, index
        at += max(key_length, 0)
        value_length, at = span(base, at, record_end)
        if at < 0:
            return -at, index
        at += max(value_length, 0)
        if at == record_end - 1 and byte(base, at) == 0:
            at = record_end
        else:
            status = check_headers(base, at, record_end, counts)
            if status != s.OK:
                return status, index
            at = record_end
        if delta <= previous or delta > last_delta:
            return s.BAD_DELTA, index
        previous = delta
        if key_length < 0:
            counts[c.NULL_KEYS] += 1
        else:
            counts[c.KEY_BYTES] += key_length
            counts[c.LARGEST_KEY] = max(counts[c.LARGEST_KEY], key_length)
        if value_length < 0:
            counts[c.NULL_VALUES] += 1
        else:
            counts[c.VALUE_BYTES] += value_length
            counts[c.LARGEST_VALUE] = max(counts[c.LARGEST_VALUE], value_length)
        counts[c.RECORDS] += 1
    if at != end:
        return s.TOO_MANY, count
    return s.OK, count


@njit(**OPTIONS)
def check_records(data: Any, start: Any, end: Any, count: Any, last_delta: Any, counts: Any) -> Any:
    """Call `check_section` for data[start:end]; return status and index of the record."""
    if start < 0 or end > len(data):
        return s.TRUNCATED, 0
    return check_section(address(data), start, end, count, last_delta, counts)


@njit(**OPTIONS)
def check_batches(data: Any, table: Any, first: Any, crc_function: Any, records: Any, counts: Any) -> Any:
    """Check the batches from row `first` of `table` on, whose bytes are in `data`, until one is wrong.

    Return its row, a status (`BAD_CRC` for its checksum) and the index of the record; the number of rows where all are
    right. Compressed records are not checked; without `records` none are. `counts` gets those of valid batches.
    """
    base = address(data)
    before = np.zeros(c.COUNTS, np.int64)
    for row in range(first, table.shape[0]):
        size = table[row, t.SIZE] - t.ATTRIBUTES_AT
        if call_crc32c(crc_function, base + table[row, t.POSITION] + t.ATTRIBUTES_AT, size) != table[row, t.CRC]:
            return row, c.BAD_CRC, 0
        if records and table[row, t.ATTRIBUTES] & 7 == 0:
            for i in range(c.COUNTS):
                before[i] = counts[i]
            status, index = check_section(
                base,
                table[row, t.START],
                table[row, t.END],
                table[row, t.COUNT],
                table[row, t.LAST_OFFSET_DELTA],
                counts,
            )
            if status != s.OK:
                for i in range(c.COUNTS):
                    counts[i] = before[i]
                return row, status, index
    return table.shape[0], s.OK, 0


SIGNATURES: dict[Any, Any] = {
    check_records: types.UniTuple(INT, 2)(BYTES, INT, INT, INT, INT, WORDS),
    check_batches: types.UniTuple(INT, 3)(BYTES, TABLE, INT, INT, types.boolean, WORDS),
}
"""The kernels to compile, and their types; no others are ever compiled."""
