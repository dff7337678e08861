"""The kernels of log cleaning that select the records that stay, and write them. They run without the GIL.

Ordinary batches (of no transaction, and uncompressed or with lz4) are read, filtered and written here, many in one
call; Python passes the others one at a time and decompresses and compresses them. `plain/log_cleaning.py` is the twin
in plain Python.

Records are looked up in groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.kernels.abi import clean_layout as c

from .cleaning_parts import fetch_ahead, find, hash_key, ordinary, record_at, unpack, varint
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
    call_crc32c,
    call_lz4,
    copy,
    load_64,
    njit,
    store_8,
    store_64,
    types,
)
from .unpacking import LZ4

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")

GROUP = 64
"""Number of records whose cells are prefetched before the first one is read."""
# A record of a group: the hash to look up, and the fields that are needed if the record stays.
TIME = c.CELL
TOMBSTONE = c.CELL + 1
MEMBER = c.CELL + 2
STAYS = 0
GOES = -1

LZ4_HEADER = 0x04224D18_60_40_82
"""The header of a frame of independent blocks of 64 KiB, with neither checksums nor a size."""
LZ4_BLOCK = 64 << 10
LZ4_STORED = 1 << 31
LZ4_FRAME_BYTES = 7 + 4
LZ4_BLOCK_BYTES = 4


@njit(**INLINE)
def varint_size(value: Any) -> Any:
    raw = (value << 1) ^ (value >> 63)
    size = 1
    raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
    while raw:
        raw >>= 7
        size += 1
    return size


@njit(**INLINE)
def put_varint(out: Any, at: Any, value: Any) -> Any:
    """Write the varint of `value` at out + at; return the position after it."""
    raw = (value << 1) ^ (value >> 63)
    while raw & ~0x7F:
        store_8(out, at, (raw & 0x7F) | 0x80)
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    store_8(out, at, raw)
    return at + 1


@njit(**INLINE)
def put_integer(out: Any, at: Any, value: Any, size: Any) -> Any:
    """Write the low `size` bytes of `value` at out + at, big-endian."""
    for index in range(size):
        store_8(out, at + index, (value >> (8 * (size - 1 - index))) & 0xFF)


@njit(**INNER)
def mark(
    base: Any, at: Any, end: Any, count: Any, base_offset: Any, base_timestamp: Any, last: Any, mode: Any,
    tombstones_stay: Any, cells: Any, m: Any, f: Any, flags: Any, group: Any,
) -> Any:  # fmt: skip
    """Write to `flags` which of the `count` records at `at` stay; return DONE or BAD and what stays.

    That is the number of records that stay, the number of tombstones among them, and their largest timestamp, or -1. As
    in Kafka, timestamps wrap around. The records are looked up in groups: first each key is hashed and its cell
    prefetched, then the cells are read.
    """
    slots, latest = m[c.SLOTS], m[c.LATEST_OFFSET]
    kept = tombstones = unkeyed = 0
    most = -1
    previous = -1
    index = 0
    while index < count:
        size = min(count - index, GROUP)
        for member in range(size):
            stop, timestamp_delta, delta, key_at, key_length, value_length = record_at(base, at, end)
            if stop < 0 or delta <= previous or delta > last:
                return c.BAD, 0, 0, 0
            previous = delta
            at = stop
            offset = base_offset + delta
            # Only records at or after the start offset are looked up; the others stay or go without it.
            wanted = STAYS
            place = member * MEMBER
            if mode == c.BY_MAP and offset <= latest:
                if key_length < 0:
                    unkeyed += 1
                    wanted = GOES
                elif value_length < 0 and not tombstones_stay:
                    wanted = GOES
                else:
                    wanted = offset + 1
                    first, more = hash_key(base + key_at, key_length, m[c.KEY], m[c.KEY_MORE])
                    fetch_ahead(cells, slots, first)
                    store_64(group, place, first)
                    store_64(group, place + c.HASH_MORE, more)
            store_64(group, place + c.NEXT_OFFSET, wanted)
            store_64(group, place + TIME, base_timestamp + timestamp_delta)
            store_64(group, place + TOMBSTONE, 1 if value_length < 0 else 0)
        for member in range(size):
            place = member * MEMBER
            stays = load_64(group, place + c.NEXT_OFFSET)
            if stays > 0:
                cell = find(cells, slots, load_64(group, place), load_64(group, place + c.HASH_MORE))
                stays = 1 if stays >= load_64(cells, cell + c.NEXT_OFFSET) else 0
            elif stays == STAYS:
                stays = 1
            else:
                stays = 0
            store_8(flags, index + member, stays)
            if stays:
                kept += 1
                tombstones += load_64(group, place + TOMBSTONE)
                most = max(most, load_64(group, place + TIME))
        index += size
    if at != end:
        return c.BAD, 0, 0, 0
    f[c.RECORDS_READ] += count
    f[c.RECORDS_KEPT] += kept
    f[c.RECORDS_WITHOUT_KEY] += unkeyed
    return c.DONE, kept, tombstones, most


@njit(**INNER)
def write_kept(base: Any, at: Any, end: Any, count: Any, flags: Any, shift: Any, out: Any) -> Any:
    """Copy the records that stay to `out`, several at once where they are adjacent; return the address after them.

    Where `shift` is not 0, it is added to each timestamp delta.
    """
    run = at
    for index in range(count):
        length, body = varint(base, at, end)
        stop = body + length
        stays = byte(flags, index)
        if not stays or shift:
            copy(out, base + run, at - run)
            out += at - run
            run = stop
            if stays:
                delta, rest = varint(base, body + 1, stop)
                after = delta + shift
                length += varint_size(after) - (rest - body - 1)
                written = put_varint(out, 0, length)
                store_8(out, written, byte(base, body))
                written = put_varint(out, written + 1, after)
                copy(out + written, base + rest, stop - rest)
                out += written + stop - rest
        at = stop
    copy(out, base + run, at - run)
    return out + at - run


@njit(**INLINE)
def keeps_state(owners: Any, producer_id: Any, last_offset: Any) -> Any:
    """Return whether the batch is the last of its producer; `owners` are pairs of id and last offset, sorted by id."""
    low, high = 0, owners.shape[0] >> 1
    while low < high:
        middle = (low + high) >> 1
        if owners[2 * middle] < producer_id:
            low = middle + 1
        else:
            high = middle
    return 2 * low < owners.shape[0] and owners[2 * low] == producer_id and owners[2 * low + 1] == last_offset


@njit(**INLINE)
def note(f: Any, rows: Any, position: Any, size: Any, last_offset: Any, max_timestamp: Any) -> Any:
    """Update timestamps and indexes for a batch that was written; add a row for the indexes where one is due."""
    if max_timestamp > f[c.MAX_TIMESTAMP]:
        f[c.MAX_TIMESTAMP] = max_timestamp
        f[c.MAX_TIMESTAMP_OFFSET] = last_offset
    if f[c.BYTES_SINCE_INDEX] > f[c.INDEX_INTERVAL]:
        row = f[c.INDEX_ROWS]
        rows[row, c.ROW_OFFSET] = last_offset
        rows[row, c.ROW_POSITION] = position
        rows[row, c.ROW_TIMESTAMP] = f[c.MAX_TIMESTAMP]
        rows[row, c.ROW_TIMESTAMP_OFFSET] = f[c.MAX_TIMESTAMP_OFFSET]
        f[c.INDEX_ROWS] = row + 1
        f[c.BYTES_SINCE_INDEX] = 0
    f[c.BYTES_SINCE_INDEX] += size


@njit(**INNER)
def seal(
    base: Any, out: Any, size: Any, attributes: Any, base_timestamp: Any, max_timestamp: Any, count: Any,
    crc_function: Any,
) -> Any:  # fmt: skip
    """Write the header of a batch of `size` bytes at `out`: the one at `base` with the given changes and its CRC."""
    copy(out, base, c.HEADER_SIZE)
    put_integer(out, 8, size - c.LOG_OVERHEAD, 4)
    put_integer(out, c.ATTRIBUTES_AT, attributes, 2)
    put_integer(out, c.BASE_TIMESTAMP_AT, base_timestamp, 8)
    put_integer(out, c.MAX_TIMESTAMP_AT, max_timestamp, 8)
    put_integer(out, c.COUNT_AT, count, 4)
    put_integer(out, c.CRC_AT, call_crc32c(crc_function, out + c.ATTRIBUTES_AT, size - c.ATTRIBUTES_AT), 4)


@njit(**INNER)
def pack_lz4(source: Any, size: Any, target: Any, lz4: Any) -> Any:
    """Write `size` bytes as an lz4 frame to `target`, as `compression.compress` does; return the frame's size.

    `target` needs `LZ4_FRAME_BYTES`, the bytes themselves and `LZ4_BLOCK_BYTES` more for each block.
    """
    # Magic, flags, blocks of 64 KiB, and the header's checksum.
    put_integer(target, 0, LZ4_HEADER, 7)
    done, written = 0, 7
    while done < size:
        length = min(size - done, LZ4_BLOCK)
        packed = call_lz4(lz4, source + done, target + written + 4, length, length - 1)
        if packed > 0:
            word = packed
        else:
            word = length | LZ4_STORED
            packed = length
            copy(target + written + 4, source + done, length)
        for at in range(4):
            store_8(target, written + at, (word >> (8 * at)) & 0xFF)
        written += 4 + packed
        done += length
    put_integer(target, written, 0, 4)
    return written + 4


@njit(**OPTIONS)
def filter_batches(
    data: Any, pos: Any, end: Any, cells: Any, m: Any, f: Any, owners: Any, flags: Any, out: Any, rows: Any,
    room: Any, crc_function: Any, lz4: Any, lz4_compress: Any,
) -> Any:  # fmt: skip
    """Write the records that stay of the ordinary batches in data[pos:end] to `out`; return status and position.

    FULL means that there is no room for a batch that keeps all its records and grows, or for a row of `rows`. `flags`
    has a byte for each byte of `data`, so for each record. Batches with lz4 are decompressed to `room`, and their
    records that stay are written after that, to be compressed again. A batch that does not fit there is left to Python,
    as is one with more records than `flags` has bytes.
    """
    base, table, marks = address(data), address(cells), address(flags)
    target, space = address(out), address(room)
    if pos < 0 or end > len(data) or len(flags) < len(data):
        return c.BAD, pos
    codecs = 1 << LZ4 if lz4 and lz4_compress else 0
    memory = np.empty(GROUP * MEMBER, np.int64)
    group = address(memory)
    while True:
        size = ordinary(base, pos, end, crc_function, codecs)
        if size <= 0:
            return c.DONE if size == 0 else c.SPECIAL, pos
        here = base + pos
        count = big_endian_64(here, c.COUNT_AT - 4) << 32 >> 32
        used = f[c.OUT_USED]
        attributes = (big_endian_64(here, c.ATTRIBUTES_AT) >> 48) & 0xFFFF
        source, at, stop = here, c.HEADER_SIZE, size
        most_written = size + c.GROWTH * count
        codec = attributes & c.CODEC_MASK if size > c.HEADER_SIZE else 0
        if codec:
            stop = unpack(codec, here + at, here + size, space, len(room) - c.SLACK, lz4)
            source, at = space, 0
            grown = stop + c.GROWTH * count
            most_written = max(
                size, c.HEADER_SIZE + LZ4_FRAME_BYTES + grown + LZ4_BLOCK_BYTES * (1 + grown // LZ4_BLOCK)
            )
            if (
                stop < 0
                or count * (c.MIN_RECORD_LENGTH + 1) > stop
                or count > len(flags)
                or stop + c.SLACK + grown > len(room)
                or most_written > len(out)
            ):
                return c.SPECIAL, pos
        elif count * (c.MIN_RECORD_LENGTH + 1) > size - c.HEADER_SIZE:
            return c.BAD, pos
        if most_written > len(out) - used or f[c.INDEX_ROWS] >= rows.shape[0]:
            return c.FULL, pos
        base_offset = big_endian_64(here, 0)
        last = big_endian_64(here, c.LAST_OFFSET_DELTA_AT) >> 32
        base_timestamp = big_endian_64(here, c.BASE_TIMESTAMP_AT)
        max_timestamp = big_endian_64(here, c.MAX_TIMESTAMP_AT)
        has_horizon = attributes & c.DELETE_HORIZON_FLAG
        status, kept, tombstones, most = mark(
            source, at, stop, count, base_offset, base_timestamp, last, c.BY_MAP,
            not has_horizon or f[c.NOW] < base_timestamp, table, m, f, marks, group,
        )  # fmt: skip
        if status != c.DONE:
            return status, pos
        pos += size
        begin = target + used
        written = 0
        if kept:
            horizon = tombstones and not has_horizon
            if kept == count and not horizon:
                copy(begin, here, size)
                written = size
            else:
                shift = 0
                if not attributes & c.LOG_APPEND_TIME_FLAG:
                    max_timestamp = most
                if horizon:
                    attributes |= c.DELETE_HORIZON_FLAG
                    shift = base_timestamp - (f[c.NOW] + f[c.DELETE_RETENTION])
                    base_timestamp -= shift
                records = begin + c.HEADER_SIZE
                if codec:
                    plain = space + stop + c.SLACK
                    left = write_kept(source, at, stop, count, marks, shift, plain) - plain
                    written = c.HEADER_SIZE + pack_lz4(plain, left, records, lz4_compress)
                else:
                    written = write_kept(source, at, stop, count, marks, shift, records) - begin
                seal(here, begin, written, attributes, base_timestamp, max_timestamp, kept, crc_function)
        else:
            producer_id = big_endian_64(here, c.PRODUCER_AT)
            if producer_id >= 0 and keeps_state(owners, producer_id, base_offset + last):
                written = c.HEADER_SIZE
                attributes &= ~(c.DELETE_HORIZON_FLAG | c.CODEC_MASK)
                seal(here, begin, written, attributes, -1, max_timestamp, 0, crc_function)
        if written:
            note(f, rows, f[c.OUT_POSITION] + used, written, base_offset + last, max_timestamp)
            f[c.OUT_USED] = used + written


@njit(**OPTIONS)
def filter_section(
    data: Any, start: Any, end: Any, count: Any, base_offset: Any, base_timestamp: Any, last: Any, mode: Any,
    tombstones_stay: Any, cells: Any, m: Any, f: Any, flags: Any,
) -> Any:  # fmt: skip
    """Call `mark` for data[start:end], the uncompressed records of one batch."""
    if start < 0 or end > len(data) or count > len(flags):
        return c.BAD, 0, 0, 0
    memory = np.empty(GROUP * MEMBER, np.int64)
    return mark(
        address(data), start, end, count, base_offset, base_timestamp, last, mode, tombstones_stay, address(cells), m,
        f, address(flags), address(memory),
    )  # fmt: skip


@njit(**OPTIONS)
def write_section(data: Any, start: Any, end: Any, count: Any, flags: Any, shift: Any, out: Any) -> Any:
    """Write the records that `filter_section` kept of data[start:end] to `out`; return the bytes written.

    Return 0 where `out` is too small: it needs end - start bytes, and `GROWTH` more for each record where there is a
    shift.
    """
    if len(out) < end - start + (c.GROWTH * count if shift else 0):
        return 0
    target = address(out)
    return write_kept(address(data), start, end, count, address(flags), shift, target) - target


SIGNATURES: dict[Any, Any] = {
    filter_batches: types.UniTuple(INT, 2)(
        BYTES, INT, INT, WORDS, WORDS, WORDS, WORDS, OUT, OUT, TABLE, OUT, INT, INT, INT
    ),
    filter_section: types.UniTuple(INT, 4)(BYTES, INT, INT, INT, INT, INT, INT, INT, INT, WORDS, WORDS, WORDS, OUT),
    write_section: INT(BYTES, INT, INT, INT, OUT, INT, OUT),
}
"""The kernels to compile, and their types; no others are ever compiled."""
