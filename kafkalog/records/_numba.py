"""The kernels, compiled: loops over the records of batches v2, without the GIL.

Importing this module compiles them, or takes them from numba's cache; only `kernels.py` does so. The format is that
of `batch.py`, the answers are those of `status.py`, and `_plain.py` holds a twin of each function in plain Python.

Every function takes the buffer as a whole and the bounds to stay within, and never reads outside those.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from . import status as s
from . import table as t
from ._numba_read import (
    BYTES,
    INT,
    OPTIONS,
    TABLE,
    address,
    big_endian_64,
    byte,
    record_end,
    skip_bytes,
    skip_headers,
    varint,
    varlong,
)


@njit(  # type: ignore[misc]
    types.UniTuple(INT, 4)(BYTES, INT, INT, INT, types.boolean), **OPTIONS
)
def validate_records(data: Any, start: Any, end: Any, count: Any, require_keys: Any) -> Any:
    """Check the `count` records that fill `data[start:end]`, with offset deltas 0..count-1.

    Status, index of the record it is about, least and most timestamp delta.
    """
    base = address(data)
    at = start
    least = np.int64(0)
    most = np.int64(0)
    for index in range(count):
        record_end, at = record_end(base, at, end)
        if at < 0:
            return -at, index, 0, 0
        delta, at = varlong(base, at, record_end)
        if at < 0:
            return -at, index, 0, 0
        if index == 0:
            least = most = delta
        least = min(least, delta)
        most = max(most, delta)
        offset_delta, at = varint(base, at, record_end)
        if at < 0:
            return -at, index, 0, 0
        key_length, at = skip_bytes(base, at, record_end)
        if at < 0:
            return -at, index, 0, 0
        at += max(key_length, 0)
        length, at = skip_bytes(base, at, record_end)
        if at < 0:
            return -at, index, 0, 0
        at += max(length, 0)
        if at == record_end - 1 and byte(base, at) == 0:
            at = record_end
        else:
            status, _, _, _ = skip_headers(base, at, record_end)
            if status != s.OK:
                return status, index, 0, 0
            at = record_end
        if offset_delta != index:
            return s.BAD_DELTA, index, 0, 0
        if require_keys and key_length < 0:
            return s.NO_KEY, index, 0, 0
    if at != end:
        return s.TOO_MANY, count, 0, 0
    return s.OK, count, least, most


@njit(types.UniTuple(INT, 3)(BYTES, INT, INT, INT, TABLE), **OPTIONS)  # type: ignore[misc]
def scan_batches(data: Any, pos: Any, end: Any, next_offset: Any, table: Any) -> Any:
    """Fill a row of `table` for each whole batch in `data[pos:end]`, until it is full.

    Offsets must not be below `next_offset` nor go back. Status, rows filled, position of the first batch not taken.
    """
    base = address(data)
    rows = 0
    while rows < table.shape[0] and end - pos > t.MAGIC_AT:
        size = (big_endian_64(base, pos + 8) >> 32) + t.LOG_OVERHEAD
        if byte(base, pos + t.MAGIC_AT) != t.MAGIC:
            return s.BAD_MAGIC, rows, pos
        if size < t.HEADER_SIZE:
            return s.BAD_BATCH, rows, pos
        if size > end - pos:
            break
        base_offset = big_endian_64(base, pos)
        word = big_endian_64(base, pos + 17)
        last_offset_delta = big_endian_64(base, pos + 23) >> 32
        count = big_endian_64(base, pos + 53) << 32 >> 32
        if base_offset < next_offset or last_offset_delta < 0 or base_offset > t.MAX_BASE_OFFSET:
            return s.OFFSETS_BACK, rows, pos
        if count < 0 or count > last_offset_delta + 1:
            return s.BAD_COUNT, rows, pos
        next_offset = base_offset + last_offset_delta + 1
        row = table[rows]
        row[t.POSITION] = pos
        row[t.SIZE] = size
        row[t.START] = pos + t.HEADER_SIZE
        row[t.END] = pos + size
        row[t.BASE_OFFSET] = base_offset
        row[t.LAST_OFFSET_DELTA] = last_offset_delta
        row[t.CRC] = (word >> 32) & 0xFFFFFFFF
        row[t.ATTRIBUTES] = (word >> 16) & 0xFFFF
        row[t.BASE_TIMESTAMP] = big_endian_64(base, pos + 27)
        row[t.MAX_TIMESTAMP] = big_endian_64(base, pos + 35)
        row[t.PRODUCER_ID] = big_endian_64(base, pos + 43)
        row[t.COUNT] = count
        pos += size
        rows += 1
    return s.OK, rows, pos


@njit(types.UniTuple(INT, 5)(BYTES, TABLE), **OPTIONS)  # type: ignore[misc]
def count_headers(data: Any, table: Any) -> Any:
    """How many headers the records of the batches in `table` have: status, index, count, bytes of keys, of values."""
    base = address(data)
    total = key_total = value_total = 0
    for batch in range(table.shape[0]):
        at, end = table[batch, t.START], table[batch, t.END]
        for index in range(table[batch, t.COUNT]):
            record_end, at = record_end(base, at, end)
            if at < 0:
                return -at, index, 0, 0, 0
            _, at = varlong(base, at, record_end)
            if at >= 0:
                _, at = varint(base, at, record_end)
            for _ in range(2):
                if at >= 0:
                    length, at = skip_bytes(base, at, record_end)
                    if at >= 0:
                        at += max(length, 0)
            if at < 0:
                return -at, index, 0, 0, 0
            status, count, key_bytes, value_bytes = skip_headers(base, at, record_end)
            if status != s.OK:
                return status, index, 0, 0, 0
            total += count
            key_total += key_bytes
            value_total += value_bytes
            at = record_end
    return s.OK, 0, total, key_total, value_total
