"""The kernels that read: loops over the records of batches v2.

`batch.py` specifies the format, `abi/status.py` the statuses; `plain/reading.py` and `batch.decode_batch` are the twins
in plain Python.

Each byte is read only after its position was compared with its record's end, and each record's end with its section's.
Lengths are compared with the remaining bytes, never added to a position first, so no sum overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.kernels.abi import status as s
from kafkalog.records.kernels.abi import table as t

from .intrinsics import (
    INLINE,
    INNER,
    INT,
    OPTIONS,
    TABLE,
    WORDS,
    address,
    big_endian_64,
    byte,
    copy,
    copy_block,
    load_64,
    njit,
    store_8,
    store_32,
    store_64,
    types,
)

# The type is bytes, so that the kernel's entry point takes any buffer of bytes: `loader`.
BUFFER = types.Bytes(types.uint8, 1, "C")
BYTES = types.Array(types.uint8, 1, "C", readonly=True)

MILLIS_MAX = 9223372036854775
"""The largest number of milliseconds whose microseconds fit 64 bits; larger ones are cut to it."""
SHORT_FIELDS = 16
"""Upper bound of the bytes of the fields up to the key if each is a short varint."""
COPY_INLINE = 512
"""Copies of more bytes than this are left to the C library."""


@njit(**INNER)
def varint_slow(base: Any, at: Any, end: Any, bits: Any) -> Any:
    """Read a varint of up to `bits` bits, byte by byte; return what `varint` returns."""
    raw = np.uint64(0)
    shift = 0
    while shift < bits:
        if at >= end:
            return 0, -s.TRUNCATED
        part = byte(base, at)
        at += 1
        raw |= np.uint64(part & 0x7F) << np.uint64(shift)
        if part < 0x80:
            # The tenth byte may hold bits beyond 64, which were shifted out.
            if (bits == 64 and shift == 63 and part > 1) or (bits == 32 and raw >> np.uint64(32)):
                return 0, -s.BAD_VARINT
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += 7
    return 0, -s.BAD_VARINT


@njit(**INLINE)
def varint(base: Any, at: Any, end: Any) -> Any:
    """Read the 32-bit varint at `at`; return it and the position after it, or 0 and a negative status."""
    if at + 3 <= end:
        raw = byte(base, at)
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        part = byte(base, at + 1)
        raw = (raw & 0x7F) | part << 7
        if part < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 2
        part = byte(base, at + 2)
        if part < 0x80:
            raw = (raw & 0x3FFF) | part << 14
            return (raw >> 1) ^ -(raw & 1), at + 3
    return varint_slow(base, at, end, 32)


@njit(**INLINE)
def varlong(base: Any, at: Any, end: Any) -> Any:
    """Read the 64-bit varlong at `at`; return it and the position after it, or 0 and a negative status."""
    if at + 3 <= end:
        raw = byte(base, at)
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        part = byte(base, at + 1)
        raw = (raw & 0x7F) | part << 7
        if part < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 2
        part = byte(base, at + 2)
        if part < 0x80:
            raw = (raw & 0x3FFF) | part << 14
            return (raw >> 1) ^ -(raw & 1), at + 3
    return varint_slow(base, at, end, 64)


@njit(**INLINE)
def span(base: Any, at: Any, end: Any) -> Any:
    """Read the length (-1 for null) of the bytes at `at`; return it and their position, or 0 and a negative status."""
    length, at = varint(base, at, end)
    if at < 0:
        return 0, at
    if length < -1:
        return 0, -s.BAD_LENGTH
    if length > end - at:
        return 0, -s.TRUNCATED
    return length, at


@njit(**INLINE)
def enter_record(base: Any, at: Any, end: Any) -> Any:
    """Return the end of the record at `at` and the position of its timestamp delta, or 0 and a negative status."""
    if at >= end:
        return 0, -s.TOO_FEW
    length, at = varint(base, at, end)
    if at < 0:
        return 0, at
    if length < 0:
        return 0, -s.BAD_LENGTH
    if length > end - at or length < 1:
        return 0, -s.TRUNCATED
    return at + length, at + 1


@njit(**INLINE)
def short_varint(base: Any, at: Any) -> Any:
    """Read a varint of at most three bytes at `at`; return it, the position after it, and whether it is longer."""
    raw = byte(base, at)
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), at + 1, 0
    part = byte(base, at + 1)
    raw = (raw & 0x7F) | part << 7
    if part < 0x80:
        return (raw >> 1) ^ -(raw & 1), at + 2, 0
    part = byte(base, at + 2)
    raw = (raw & 0x3FFF) | (part & 0x7F) << 14
    return (raw >> 1) ^ -(raw & 1), at + 3, part & 0x80


@njit(**INLINE)
def plain_record(base: Any, at: Any, end: Any) -> Any:
    """Parse the record at `at` if it is whole, without headers and without long varints, as nearly all records are.

    Return its end (0: parse it field by field), its timestamp delta and offset delta, length and position of its key
    and of its value. One comparison with the section's end serves all fields up to the key, which have at most 13
    bytes. If the value ends at the record's last byte, no field went beyond the record's end.
    """
    if end - at < SHORT_FIELDS:
        return 0, 0, 0, 0, 0, 0, 0
    length, position, long_length = short_varint(base, at)
    record_end = position + length
    timestamp_delta, position, long_timestamp = short_varint(base, position + 1)
    offset_delta, position, long_offset = short_varint(base, position)
    key_length, key_at, long_key = short_varint(base, position)
    position = key_at + max(key_length, 0)
    if long_length | long_timestamp | long_offset | long_key or key_length < -1 or end - position < 4:
        return 0, 0, 0, 0, 0, 0, 0
    value_length, value_at, long_value = short_varint(base, position)
    last = record_end - 1
    if long_value or value_length < -1 or value_at + max(value_length, 0) != last or last >= end or byte(base, last):
        return 0, 0, 0, 0, 0, 0, 0
    return record_end, timestamp_delta, offset_delta, key_length, key_at, value_length, value_at


@njit(**INNER)
def walk_headers(base: Any, at: Any, end: Any) -> Any:
    """Walk the headers at `at`, which must fill their record to `end`; return 0 or a status, and their number.

    Return also the bytes of their keys and of their values.
    """
    count, at = varint(base, at, end)
    if at < 0:
        return -at, 0, 0, 0
    if count < 0 or 2 * count > end - at:
        return s.BAD_HEADERS, 0, 0, 0
    key_bytes = value_bytes = 0
    for _ in range(count):
        length, at = span(base, at, end)
        if at < 0:
            return -at, 0, 0, 0
        if length < 0:
            return s.NO_HEADER_KEY, 0, 0, 0
        key_bytes += length
        at += length
        length, at = span(base, at, end)
        if at < 0:
            return -at, 0, 0, 0
        if length > 0:
            value_bytes += length
            at += length
    if at != end:
        return s.RECORD_SIZE, 0, 0, 0
    return s.OK, count, key_bytes, value_bytes


@njit(**OPTIONS)
def validate_records(data: Any, start: Any, end: Any, count: Any, base_timestamp: Any, require_keys: Any) -> Any:
    """Check the `count` records that fill `data[start:end]`, with offset deltas 0..count-1.

    Return a status, the index of the record it is about, the least and the largest timestamp. They wrap around, as in
    Kafka.
    """
    base = address(data)
    least = np.int64(0)
    most = np.int64(0)
    if start < 0 or end > len(data):
        return s.TRUNCATED, 0, least, most
    at = start
    for index in range(count):
        record_end, delta, offset_delta, key_length, _, _, _ = plain_record(base, at, end)
        if not record_end:
            record_end, at = enter_record(base, at, end)
            if at < 0:
                return -at, index, 0, 0
            delta, at = varlong(base, at, record_end)
            if at < 0:
                return -at, index, 0, 0
            offset_delta, at = varint(base, at, record_end)
            if at < 0:
                return -at, index, 0, 0
            key_length, at = span(base, at, record_end)
            if at < 0:
                return -at, index, 0, 0
            at += max(key_length, 0)
            length, at = span(base, at, record_end)
            if at < 0:
                return -at, index, 0, 0
            at += max(length, 0)
            if at != record_end - 1 or byte(base, at) != 0:
                status, _, _, _ = walk_headers(base, at, record_end)
                if status != s.OK:
                    return status, index, 0, 0
        at = record_end
        if offset_delta != index:
            return s.BAD_DELTA, index, 0, 0
        if require_keys and key_length < 0:
            return s.NO_KEY, index, 0, 0
        timestamp = base_timestamp + delta
        if index == 0:
            least = most = timestamp
        least = min(least, timestamp)
        most = max(most, timestamp)
    if at != end:
        return s.TOO_MANY, count, 0, 0
    return s.OK, count, least, most


@njit(**OPTIONS)
def scan_batches(data: Any, pos: Any, next_offset: Any, end_offset: Any, table: Any) -> Any:
    """Fill a row of `table` for each whole batch in `data[pos:]` that begins below `end_offset`, until it is full.

    Offsets must not be below `next_offset` nor go back. Return a status, the number of rows, next position and next
    offset.
    """
    base = address(data)
    end = len(data)
    rows = 0
    while rows < table.shape[0] and end - pos > t.MAGIC_AT:
        size = (big_endian_64(base, pos + 8) >> 32) + t.LOG_OVERHEAD
        if byte(base, pos + t.MAGIC_AT) != t.MAGIC:
            return s.BAD_MAGIC, rows, pos, next_offset
        if size < t.HEADER_SIZE:
            return s.BAD_BATCH, rows, pos, next_offset
        if size > end - pos:
            break
        base_offset = big_endian_64(base, pos)
        last_offset_delta = big_endian_64(base, pos + 23) >> 32
        count = big_endian_64(base, pos + 53) << 32 >> 32
        if base_offset < next_offset or last_offset_delta < 0 or base_offset > t.MAX_BASE_OFFSET:
            return s.OFFSETS_BACK, rows, pos, next_offset
        if base_offset >= end_offset:
            return s.OK, rows, pos, base_offset
        if count < 0 or count > last_offset_delta + 1:
            return s.BAD_COUNT, rows, pos, next_offset
        next_offset = base_offset + last_offset_delta + 1
        word = big_endian_64(base, pos + 17)
        table[rows, t.POSITION] = pos
        table[rows, t.SIZE] = size
        table[rows, t.START] = pos + t.HEADER_SIZE
        table[rows, t.END] = pos + size
        table[rows, t.BASE_OFFSET] = base_offset
        table[rows, t.LAST_OFFSET_DELTA] = last_offset_delta
        table[rows, t.CRC] = (word >> 32) & 0xFFFFFFFF
        table[rows, t.ATTRIBUTES] = (word >> 16) & 0xFFFF
        table[rows, t.BASE_TIMESTAMP] = big_endian_64(base, pos + 27)
        table[rows, t.MAX_TIMESTAMP] = big_endian_64(base, pos + 35)
        table[rows, t.PRODUCER_ID] = big_endian_64(base, pos + 43)
        table[rows, t.COUNT] = count
        pos += size
        rows += 1
    return s.OK, rows, pos, next_offset


@njit(**OPTIONS)
def count_headers(table: Any, totals: Any) -> Any:
    """Add up the headers of the records of the batches in `table`: number, bytes of keys, bytes of values.

    `totals` gets the sums. START..END of each row are addresses.
    Return a status, row of the table, index of the record.
    """
    base = 0
    totals[:] = 0
    for batch in range(table.shape[0]):
        at, end = table[batch, t.START], table[batch, t.END]
        for index in range(table[batch, t.COUNT]):
            record_end, at = enter_record(base, at, end)
            if at >= 0:
                _, at = varlong(base, at, record_end)
            if at >= 0:
                _, at = varint(base, at, record_end)
            for _ in range(2):
                if at >= 0:
                    length, at = span(base, at, record_end)
                    if at >= 0:
                        at += max(length, 0)
            if at < 0:
                return -at, batch, index
            status, count, key_bytes, value_bytes = walk_headers(base, at, record_end)
            if status != s.OK:
                return status, batch, index
            totals[0] += count
            totals[1] += key_bytes
            totals[2] += value_bytes
            at = record_end
    return s.OK, 0, 0


@njit(**INLINE)
def micros(base: Any, delta: Any) -> Any:
    """Return (base + delta) ms, which wraps around as in Kafka, in microseconds, kept within 64 bits."""
    return max(min(base + delta, MILLIS_MAX), -MILLIS_MAX) * 1000


@njit(**INLINE)
def copy_bytes(target: Any, source: Any, length: Any, limit: Any) -> Any:
    """Copy `length` bytes, or up to 31 more if the source reaches that far before `limit`.

    The target must have room for them (`table.SLACK`).
    """
    if length <= COPY_INLINE and source + length + 32 <= limit:
        at = 0
        while at < length:
            copy_block(target, source, at)
            at += 32
    else:
        copy(target, source, length)


@njit(**INLINE)
def clear_bit(bitmap: Any, index: Any) -> Any:
    at = index >> 3
    store_8(bitmap, at, byte(bitmap, at) & ~(1 << (index & 7)))


@njit(**INNER)
def fill_headers(base: Any, at: Any, end: Any, limit: Any, out: Any, state: Any) -> Any:
    """Append the headers at `at`, which `count_headers` has checked, to the columns at `out`."""
    key_offsets, key_data = load_64(out, t.HEADER_KEY_OFFSETS), load_64(out, t.HEADER_KEY_DATA)
    value_offsets, value_data = load_64(out, t.HEADER_VALUE_OFFSETS), load_64(out, t.HEADER_VALUE_DATA)
    value_nulls = load_64(out, t.HEADER_VALUE_VALID)
    total, key_bytes, value_bytes = state[t.HEADER_COUNT], state[t.HEADER_KEY_BYTES], state[t.HEADER_VALUE_BYTES]
    count, at = varint(base, at, end)
    for _ in range(count):
        length, at = span(base, at, end)
        copy_bytes(key_data + key_bytes, base + at, length, limit)
        key_bytes += length
        at += length
        length, at = span(base, at, end)
        if length >= 0:
            copy_bytes(value_data + value_bytes, base + at, length, limit)
            value_bytes += length
            at += length
        else:
            clear_bit(value_nulls, total)
            state[t.HEADER_VALUE_NULLS] += 1
        total += 1
        store_32(key_offsets, total, key_bytes)
        store_32(value_offsets, total, value_bytes)
    state[t.HEADER_COUNT], state[t.HEADER_KEY_BYTES], state[t.HEADER_VALUE_BYTES] = total, key_bytes, value_bytes


@njit(**OPTIONS)
def decode_batches(table: Any, start: Any, end_offset: Any, wanted: Any, columns: Any, state: Any) -> Any:
    """Append the records of offsets start..end_offset-1 of the batches in `table` to columns in Arrow's layout.

    START..END of each row are the addresses of the batch's records, in any memory. `wanted` are the columns' bits,
    `columns` their addresses, `state` their sizes (`abi/table.py`). The columns must have room for every record of the
    batches and `table.SLACK` bytes more. Return a status, row of the table, index of the record.
    """
    base = 0
    out = address(columns)
    key_offsets, key_data, key_valid = columns[t.KEY_OFFSETS], columns[t.KEY_DATA], columns[t.KEY_VALID]
    value_offsets, value_data, value_valid = columns[t.VALUE_OFFSETS], columns[t.VALUE_DATA], columns[t.VALUE_VALID]
    offsets, timestamps, types_ = columns[t.OFFSETS], columns[t.TIMESTAMPS], columns[t.TIMESTAMP_TYPES]
    rows, key_bytes, value_bytes = state[t.ROWS], state[t.KEY_BYTES], state[t.VALUE_BYTES]
    key_nulls, value_nulls = state[t.KEY_NULLS], state[t.VALUE_NULLS]
    for batch in range(table.shape[0]):
        at, end = table[batch, t.START], table[batch, t.END]
        limit = end
        base_offset, last = table[batch, t.BASE_OFFSET], table[batch, t.LAST_OFFSET_DELTA]
        log_append = (table[batch, t.ATTRIBUTES] >> 3) & 1
        # -1 where there is no timestamp type: NO_TIMESTAMP_TYPE_FLAG.
        timestamp_type = log_append - ((table[batch, t.ATTRIBUTES] >> 14) & 1)
        base_timestamp = table[batch, t.MAX_TIMESTAMP] if log_append else table[batch, t.BASE_TIMESTAMP]
        previous = -1
        for index in range(table[batch, t.COUNT]):
            record_end, timestamp_delta, offset_delta, key_length, key_at, value_length, value_at = plain_record(
                base, at, end
            )
            headers_at = record_end - 1
            no_headers = True
            if not record_end:
                record_end, at = enter_record(base, at, end)
                if at < 0:
                    return -at, batch, index
                timestamp_delta, at = varlong(base, at, record_end)
                if at < 0:
                    return -at, batch, index
                offset_delta, at = varint(base, at, record_end)
                if at < 0:
                    return -at, batch, index
                key_length, key_at = span(base, at, record_end)
                if key_at < 0:
                    return -key_at, batch, index
                value_length, value_at = span(base, key_at + max(key_length, 0), record_end)
                if value_at < 0:
                    return -value_at, batch, index
                headers_at = value_at + max(value_length, 0)
                no_headers = headers_at == record_end - 1 and byte(base, headers_at) == 0
                # `count_headers` has checked the headers already if they are wanted.
                if not no_headers and not wanted & t.HEADERS:
                    status, _, _, _ = walk_headers(base, headers_at, record_end)
                    if status != s.OK:
                        return status, batch, index
            at = record_end
            if offset_delta <= previous or offset_delta > last:
                return s.BAD_DELTA, batch, index
            previous = offset_delta
            offset = base_offset + offset_delta
            if offset < start or offset >= end_offset:
                continue
            if wanted & t.KEY:
                if key_length >= 0:
                    copy_bytes(key_data + key_bytes, base + key_at, key_length, limit)
                    key_bytes += key_length
                else:
                    clear_bit(key_valid, rows)
                    key_nulls += 1
                store_32(key_offsets, rows + 1, key_bytes)
            if wanted & t.VALUE:
                if value_length >= 0:
                    copy_bytes(value_data + value_bytes, base + value_at, value_length, limit)
                    value_bytes += value_length
                else:
                    clear_bit(value_valid, rows)
                    value_nulls += 1
                store_32(value_offsets, rows + 1, value_bytes)
            if wanted & t.OFFSET:
                store_64(offsets, rows, offset)
            if wanted & t.TIMESTAMP:
                store_64(timestamps, rows, micros(base_timestamp, 0 if log_append else timestamp_delta))
            if wanted & t.TIMESTAMP_TYPE:
                store_32(types_, rows, timestamp_type)
            if wanted & t.HEADERS:
                if no_headers:
                    clear_bit(columns[t.HEADERS_VALID], rows)
                else:
                    fill_headers(base, headers_at, record_end, limit, out, state)
                    if not byte(base, headers_at):
                        clear_bit(columns[t.HEADERS_VALID], rows)
                store_32(columns[t.HEADERS_OFFSETS], rows + 1, state[t.HEADER_COUNT])
            rows += 1
        if at != end:
            return s.TOO_MANY, batch, table[batch, t.COUNT]
    state[t.ROWS], state[t.KEY_BYTES], state[t.VALUE_BYTES] = rows, key_bytes, value_bytes
    state[t.KEY_NULLS], state[t.VALUE_NULLS] = key_nulls, value_nulls
    return s.OK, 0, 0


SIGNATURES: dict[Any, Any] = {
    validate_records: types.UniTuple(INT, 4)(BUFFER, INT, INT, INT, INT, types.boolean),
    scan_batches: types.UniTuple(INT, 4)(BYTES, INT, INT, INT, TABLE),
    count_headers: types.UniTuple(INT, 3)(TABLE, WORDS),
    decode_batches: types.UniTuple(INT, 3)(TABLE, INT, INT, INT, WORDS, WORDS),
}
"""The kernels to compile, and their types; no others are ever compiled."""
