"""Hashes of keys, sizes of records, and rows by their group, for Arrow columns that go to several partitions.

Needs pyarrow; the loops run in compiled kernels, which the first call loads (`loader.load`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.records.arrow.integers import to_numpy
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import hash_layout as layout

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]

NO_KEY = -1
"""Stands for the hash of a row without a key."""


def hash_keys(keys: pa.Array) -> Int32s:
    """Return Kafka's hash of each key, `toPositive(murmur2(key))`: 0..2**31-1, and `NO_KEY` where the key is null.

    `keys` are binary or strings. The Java client puts a key into the partition of this number modulo the number of
    partitions.
    """
    loader.load("rows")
    from kafkalog.records.kernels.compiled import rows

    if keys.type != pa.binary():
        keys = pc.cast(keys, pa.binary())
    hashes = np.full(len(keys), NO_KEY, np.int32)
    valid, offsets, data = keys.buffers()
    if not len(keys) or offsets is None or keys.null_count == len(keys):
        return hashes
    words = np.zeros(layout.KEY_WORDS, np.int64)
    words[layout.KEY_OFFSETS] = offsets.address
    words[layout.KEY_DATA] = 0 if data is None else data.address
    words[layout.KEY_VALID] = 0 if valid is None or not keys.null_count else valid.address
    words[layout.KEY_SKIP] = keys.offset
    rows.hash_keys(words, hashes)
    return hashes


def group_rows(groups: Int32s, count: int) -> tuple[Int64s, Int64s]:
    """Return the rows' numbers sorted by group, and the bounds of each group in them.

    `groups` has the group of each row; there are `count` groups. The rows of group g are `order[bounds[g]:bounds[g +
    1]]`, in their original order.

    Raises:
        ValueError: A group is not below `count`.
    """
    loader.load("rows")
    from kafkalog.records.kernels.compiled import rows

    if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < count:
        raise ValueError(f"groups {groups.min()} to {groups.max()} where there are {count}")
    order = np.empty(len(groups), np.int64)
    bounds = np.zeros(count + 1, np.int64)
    rows.group_rows(np.ascontiguousarray(groups, np.int32), bounds[1:], order)
    return order, bounds


def lengths(column: pa.Array) -> Int64s:
    """Return the bytes of each element of binary or strings, 0 for a null."""
    if column.type not in (pa.binary(), pa.string()):
        column = pc.cast(column, pa.binary())
    return to_numpy(pc.binary_length(column), null=0).astype(np.int64)


def headers_lengths(headers: pa.Array) -> tuple[Int64s, Int64s]:
    """Return how many headers each row has, and the bytes of their keys and values; `headers` as in `encode_arrow`."""
    counts = to_numpy(pc.list_value_length(headers), null=0).astype(np.int64)
    pairs = headers.flatten()
    sizes = lengths(pairs.field(0)) + lengths(pairs.field(1)) if len(pairs) else np.zeros(0, np.int64)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    after = np.cumsum(counts)
    return counts, ends[after] - ends[after - counts]
