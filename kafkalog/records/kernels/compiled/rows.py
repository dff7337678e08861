"""The kernels that hash keys and sort rows by their group; `arrow/grouping.py` calls them."""

from __future__ import annotations

from typing import Any

from kafkalog.records.kernels.abi import hash_layout as layout

from .intrinsics import (
    INLINE,
    INTS,
    OPTIONS,
    WORDS,
    byte,
    little_endian_32,
    load_32,
    njit,
    types,
)

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


@njit(**INLINE)
def murmur2(data: Any, length: Any) -> Any:
    """Compute MurmurHash2 (32 bits, unsigned) of the bytes at `data`, as Kafka's `Utils.murmur2` does."""
    h = (_SEED ^ length) & _MASK
    at = 0
    while at + 4 <= length:
        k = (little_endian_32(data, at) * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        at += 4
    left = length - at
    if left:
        if left == 3:
            h ^= byte(data, at + 2) << 16
        if left >= 2:
            h ^= byte(data, at + 1) << 8
        h = ((h ^ byte(data, at)) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


@njit(**OPTIONS)
def hash_keys(words: Any, out: Any) -> Any:
    """Write each key's hash without its sign bit to `out`, -1 for a null; return the number of nulls."""
    nulls = 0
    offsets, data, valid, skip = (
        words[layout.KEY_OFFSETS],
        words[layout.KEY_DATA],
        words[layout.KEY_VALID],
        words[layout.KEY_SKIP],
    )
    for row in range(len(out)):
        index = row + skip
        if valid and not (byte(valid, index >> 3) >> (index & 7)) & 1:
            out[row] = -1
            nulls += 1
        else:
            begin = load_32(offsets, index)
            out[row] = murmur2(data + begin, load_32(offsets, index + 1) - begin) & 0x7FFFFFFF
    return nulls


@njit(**OPTIONS)
def group_rows(groups: Any, ends: Any, order: Any) -> Any:
    """Write the rows' numbers to `order`, sorted by group and otherwise in order; write each group's end to `ends`.

    `groups` has each row's group, which must be below the length of `ends`; `ends` must be zeros. Return the number of
    rows.
    """
    for row in range(len(groups)):
        ends[groups[row]] += 1
    total = 0
    for group in range(len(ends)):
        count = ends[group]
        # Where the group begins; it becomes the group's end as its rows are placed.
        ends[group] = total
        total += count
    for row in range(len(groups)):
        group = groups[row]
        order[ends[group]] = row
        ends[group] += 1
    return total


SIGNATURES: dict[Any, Any] = {
    hash_keys: types.int64(WORDS, INTS),
    group_rows: types.int64(INTS, WORDS, WORDS),
}
"""The kernels to compile, and their types; no others are ever compiled."""
