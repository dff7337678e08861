"""The kernel that encodes rows of Arrow's buffers as the records of a batch v2.

`batch.encode_batch` is the twin in plain Python.
"""

from __future__ import annotations

from typing import Any

from kafkalog.records.kernels.abi import table as t

from .intrinsics import (
    INLINE,
    INNER,
    INT,
    OPTIONS,
    WORDS,
    address,
    byte,
    copy,
    copy_block,
    load_32,
    load_64,
    njit,
    store_8,
    types,
)

OUT = types.Array(types.uint8, 1, "C")

COPY_INLINE = 512
"""Copies of more bytes than this are left to the C library."""


@njit(**INLINE)
def zigzag(value: Any) -> Any:
    return (value << 1) ^ (value >> 63)


@njit(**INLINE)
def varint_size(value: Any) -> Any:
    """Return the size of the varint of `value`."""
    raw = zigzag(value)
    size = 1
    # An arithmetic shift would keep the sign of values that use all 64 bits.
    raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
    while raw:
        raw >>= 7
        size += 1
    return size


@njit(**INLINE)
def put_varint(out: Any, at: Any, value: Any) -> Any:
    """Write the varint of `value` at out + at; return the position after it."""
    raw = zigzag(value)
    while raw & ~0x7F:
        store_8(out, at, (raw & 0x7F) | 0x80)
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    store_8(out, at, raw)
    return at + 1


@njit(**INLINE)
def put_bytes(out: Any, at: Any, source: Any, length: Any, limit: Any) -> Any:
    """Write `length` (-1 for null) and that many bytes; return the position after them. It may write 31 bytes more."""
    at = put_varint(out, at, length)
    if length <= COPY_INLINE and source + length + 32 <= limit:
        done = 0
        while done < length:
            copy_block(out + at, source, done)
            done += 32
    elif length > 0:
        copy(out + at, source, length)
    return at + max(length, 0)


@njit(**INLINE)
def is_valid(bitmap: Any, index: Any) -> Any:
    return bitmap == 0 or (byte(bitmap, index >> 3) >> (index & 7)) & 1


@njit(**INLINE)
def cell(offsets: Any, valid: Any, index: Any) -> Any:
    """Return where an element of an Arrow array begins in its data, and its length (-1 for null)."""
    if offsets == 0 or not is_valid(valid, index):
        return 0, -1
    begin = load_32(offsets, index)
    return begin, load_32(offsets, index + 1) - begin


@njit(**INLINE)
def header_range(inputs: Any, row: Any) -> Any:
    """Return the first and last + 1 of the row's headers."""
    offsets = load_64(inputs, t.IN_HEADERS_OFFSETS)
    index = row + load_64(inputs, t.IN_HEADERS_SKIP)
    if offsets == 0 or not is_valid(load_64(inputs, t.IN_HEADERS_VALID), index):
        return 0, 0
    return load_32(offsets, index), load_32(offsets, index + 1)


@njit(**INNER)
def headers_size(inputs: Any, first: Any, last: Any) -> Any:
    """Return the bytes of the headers first..last-1, their count included."""
    size = varint_size(last - first)
    key_skip, value_skip = load_64(inputs, t.IN_HEADER_KEY_SKIP), load_64(inputs, t.IN_HEADER_VALUE_SKIP)
    for index in range(first, last):
        _, length = cell(load_64(inputs, t.IN_HEADER_KEY_OFFSETS), 0, index + key_skip)
        size += varint_size(length) + max(length, 0)
        _, length = cell(
            load_64(inputs, t.IN_HEADER_VALUE_OFFSETS), load_64(inputs, t.IN_HEADER_VALUE_VALID), index + value_skip
        )
        size += varint_size(length) + max(length, 0)
    return size


@njit(**INNER)
def put_headers(inputs: Any, first: Any, last: Any, out: Any, at: Any) -> Any:
    """Write the headers first..last-1 after their count; return the position after them."""
    at = put_varint(out, at, last - first)
    key_skip, value_skip = load_64(inputs, t.IN_HEADER_KEY_SKIP), load_64(inputs, t.IN_HEADER_VALUE_SKIP)
    for index in range(first, last):
        begin, length = cell(load_64(inputs, t.IN_HEADER_KEY_OFFSETS), 0, index + key_skip)
        at = put_bytes(out, at, load_64(inputs, t.IN_HEADER_KEY_DATA) + begin, length, 0)
        begin, length = cell(
            load_64(inputs, t.IN_HEADER_VALUE_OFFSETS), load_64(inputs, t.IN_HEADER_VALUE_VALID), index + value_skip
        )
        at = put_bytes(out, at, load_64(inputs, t.IN_HEADER_VALUE_DATA) + begin, length, 0)
    return at


@njit(**OPTIONS)
def encode_records(words: Any, row: Any, rows: Any, timestamp: Any, data: Any, start: Any, end: Any) -> Any:
    """Write rows row..rows-1 as records with offset deltas from 0 into `data[start:end]`, while they fit.

    `words` holds the addresses to read (`table.IN_...`); `timestamp` (ms) is that of all records where there is no such
    column. Where there is an order (`table.IN_ORDER`), rows are its elements, which are row numbers of the columns. The
    buffer needs `table.SLACK` bytes after `end`. A timestamp whose delta would not fit 64 bits ends the batch. Return
    the next row, the end of the records, and the first and the largest timestamp.
    """
    out = address(data)
    inputs = address(words)
    key_offsets, key_data, key_end = words[t.IN_KEY_OFFSETS], words[t.IN_KEY_DATA], words[t.IN_KEY_END]
    key_valid, key_skip = words[t.IN_KEY_VALID], words[t.IN_KEY_SKIP]
    value_offsets, value_data, value_end = words[t.IN_VALUE_OFFSETS], words[t.IN_VALUE_DATA], words[t.IN_VALUE_END]
    value_valid, value_skip = words[t.IN_VALUE_VALID], words[t.IN_VALUE_SKIP]
    timestamps, with_headers, order = words[t.IN_TIMESTAMPS], words[t.IN_HEADERS_OFFSETS] != 0, words[t.IN_ORDER]
    first_row = row
    at = start
    base_timestamp = most = timestamp
    header_first = header_last = 0
    while row < rows:
        place = load_64(order, row) if order else row
        if timestamps:
            timestamp = load_64(timestamps, place)
        if row == first_row:
            base_timestamp = most = timestamp
        delta = timestamp - base_timestamp
        if (timestamp ^ base_timestamp) & (timestamp ^ delta) < 0:
            break
        key_at, key_length = cell(key_offsets, key_valid, place + key_skip)
        value_at, value_length = cell(value_offsets, value_valid, place + value_skip)
        size = 1 + varint_size(delta) + varint_size(row - first_row)
        size += varint_size(key_length) + max(key_length, 0) + varint_size(value_length) + max(value_length, 0)
        if with_headers:
            header_first, header_last = header_range(inputs, place)
        if header_first == header_last:
            size += 1
        else:
            size += headers_size(inputs, header_first, header_last)
        if at + varint_size(size) + size > end:
            break
        at = put_varint(out, at, size)
        store_8(out, at, 0)
        at = put_varint(out, at + 1, delta)
        at = put_varint(out, at, row - first_row)
        at = put_bytes(out, at, key_data + key_at, key_length, key_end)
        at = put_bytes(out, at, value_data + value_at, value_length, value_end)
        if header_first == header_last:
            store_8(out, at, 0)
            at += 1
        else:
            at = put_headers(inputs, header_first, header_last, out, at)
        most = max(most, timestamp)
        row += 1
    return row, at, base_timestamp, most


SIGNATURES: dict[Any, Any] = {
    encode_records: types.UniTuple(INT, 4)(WORDS, INT, INT, INT, OUT, INT, INT),
}
"""The kernels to compile, and their types; no others are ever compiled."""
