"""The kernels that take the keys of a log into the offset map of log cleaning. They run without the GIL.

Ordinary batches (of no transaction, and uncompressed or with lz4 or snappy) are read here, many in one call; Python
passes the others one at a time and decompresses them. `plain/log_cleaning.py` is the twin in plain Python.

Hashes wait in a ring while their cells come from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.kernels.abi import clean_layout as c

from .cleaning_parts import fetch_ahead, find, hash_key, ordinary, record_at, unpack
from .intrinsics import (
    INLINE,
    INNER,
    INT,
    OPTIONS,
    WORDS,
    address,
    big_endian_64,
    byte,
    load_64,
    njit,
    store_64,
    types,
)
from .unpacking import LZ4, SNAPPY

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")

RING = 16
"""Number of hashes that wait while their cells come from memory: enough that a cell has arrived by its turn."""
RING_MASK = RING - 1


@njit(**INLINE)
def put_oldest(ring: Any, turn: Any, cells: Any, m: Any) -> Any:
    """Put the hash and offset in the ring's slot of `turn` into the map."""
    place = (turn & RING_MASK) * c.CELL
    first, more = load_64(ring, place), load_64(ring, place + c.HASH_MORE)
    cell = find(cells, m[c.SLOTS], first, more)
    if not load_64(cells, cell + c.NEXT_OFFSET):
        store_64(cells, cell, first)
        store_64(cells, cell + c.HASH_MORE, more)
        m[c.ENTRIES] += 1
    store_64(cells, cell + c.NEXT_OFFSET, load_64(ring, place + c.NEXT_OFFSET))


@njit(**INLINE)
def drain(ring: Any, turn: Any, cells: Any, m: Any) -> Any:
    """Put all that waits in the ring into the map; `turn` is the ring's next turn."""
    waiting = m[c.WAITING]
    for at in range(turn - waiting, turn):
        put_oldest(ring, at, cells, m)
    m[c.WAITING] = 0


@njit(**INNER)
def index_section(
    base: Any, at: Any, end: Any, count: Any, base_offset: Any, last: Any, cells: Any, m: Any, ring: Any
) -> Any:
    """Take the keys of the `count` records at `at` into the map: DONE, FULL or BAD.

    Where the map certainly has room for all of them, they wait in the ring while their cells come from memory; up to a
    ring of them still wait at the end (`drain`). With FULL none waits.
    """
    slots, capacity, start = m[c.SLOTS], m[c.CAPACITY], m[c.START_OFFSET]
    turn = m[c.TURN]
    ahead = m[c.ENTRIES] + m[c.WAITING] + count <= capacity
    if not ahead:
        drain(ring, turn, cells, m)
    waiting = m[c.WAITING]
    previous = -1
    status = c.DONE
    indexed = 0
    for _ in range(count):
        stop, _, delta, key_at, key_length, _ = record_at(base, at, end)
        if stop < 0 or delta <= previous or delta > last:
            status = c.BAD
            break
        previous = delta
        at = stop
        offset = base_offset + delta
        if key_length >= 0 and offset >= start:
            if not ahead and m[c.ENTRIES] >= capacity:
                status = c.FULL
                break
            if waiting == RING:
                put_oldest(ring, turn - RING, cells, m)
                waiting -= 1
            first, more = hash_key(base + key_at, key_length, m[c.KEY], m[c.KEY_MORE])
            fetch_ahead(cells, slots, first)
            place = (turn & RING_MASK) * c.CELL
            store_64(ring, place, first)
            store_64(ring, place + c.HASH_MORE, more)
            store_64(ring, place + c.NEXT_OFFSET, offset + 1)
            turn += 1
            waiting += 1
            if not ahead:
                put_oldest(ring, turn - 1, cells, m)
                waiting = 0
        indexed += 1
    m[c.INDEXED_RECORDS] += indexed
    m[c.TURN] = turn
    m[c.WAITING] = waiting
    if status == c.DONE and at != end:
        return c.BAD
    return status


@njit(**OPTIONS)
def index_records(data: Any, start: Any, end: Any, count: Any, base_offset: Any, last: Any, cells: Any, m: Any) -> Any:
    """Call `index_section` for data[start:end], the uncompressed records of one batch."""
    if start < 0 or end > len(data):
        return c.BAD
    base, table = address(data), address(cells)
    memory = np.empty(RING * c.CELL, np.int64)
    ring = address(memory)
    status = index_section(base, start, end, count, base_offset, last, table, m, ring)
    drain(ring, m[c.TURN], table, m)
    return status


@njit(**OPTIONS)
def index_batches(data: Any, pos: Any, end: Any, cells: Any, m: Any, room: Any, crc_function: Any, lz4: Any) -> Any:
    """Take the keys of the ordinary batches in data[pos:end] into the map; return the status and the position.

    Batches with lz4 or snappy are decompressed to `room`, if they fit there.
    """
    base, table, space = address(data), address(cells), address(room)
    if pos < 0 or end > len(data):
        return c.BAD, pos
    limit = len(room) - c.SLACK
    codecs = (1 << LZ4 | 1 << SNAPPY) if limit > 0 else 0
    memory = np.empty(RING * c.CELL, np.int64)
    ring = address(memory)
    while True:
        size = ordinary(base, pos, end, crc_function, codecs)
        if size <= 0:
            status = c.DONE if size == 0 else c.SPECIAL
            break
        base_offset = big_endian_64(base, pos)
        last = big_endian_64(base, pos + c.LAST_OFFSET_DELTA_AT) >> 32
        count = big_endian_64(base, pos + c.COUNT_AT - 4) << 32 >> 32
        codec = byte(base, pos + c.ATTRIBUTES_AT + 1) & c.CODEC_MASK
        records, at, stop = base, pos + c.HEADER_SIZE, pos + size
        if codec and at < stop:
            stop = unpack(codec, base + at, base + stop, space, limit, lz4)
            records, at = space, 0
            if stop < 0 or count * (c.MIN_RECORD_LENGTH + 1) > stop:
                status = c.SPECIAL
                break
        status = index_section(records, at, stop, count, base_offset, last, table, m, ring)
        if status != c.DONE:
            break
        if base_offset + last >= m[c.START_OFFSET]:
            m[c.LATEST_OFFSET] = base_offset + last
        pos += size
    drain(ring, m[c.TURN], table, m)
    return status, pos


SIGNATURES: dict[Any, Any] = {
    index_records: INT(BYTES, INT, INT, INT, INT, INT, WORDS, WORDS),
    index_batches: types.UniTuple(INT, 2)(BYTES, INT, INT, WORDS, WORDS, OUT, INT, INT),
}
"""The kernels to compile, and their types; no others are ever compiled."""
