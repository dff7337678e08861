"""Growing columns in Arrow's layout, for a decode to fill and to be taken as Arrow arrays."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kafkalog.records.arrow.integers import to_arrow
from kafkalog.records.kernels.abi import table as t

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
# PySpark names a list's field so.
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))

TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
"""The names of the columns, and their Arrow types."""

_BITS = {
    "key": t.KEY,
    "value": t.VALUE,
    "offset": t.OFFSET,
    "timestamp": t.TIMESTAMP,
    "timestampType": t.TIMESTAMP_TYPE,
    "headers": t.HEADERS,
}

_SHARED_ROWS = 1 << 16
"""Constant columns of so many rows or fewer are kept for the next decode: at most 16 MiB each, by a topic's name."""

_BITMAP, _OFFSETS_32, _WORDS_32, _WORDS_64, _BYTES = range(5)
"""The units in which a buffer's size is counted."""

_LAYOUT: dict[str, tuple[tuple[int, int, int], ...]] = {
    "key": ((t.KEY_OFFSETS, _OFFSETS_32, 0), (t.KEY_DATA, _BYTES, 1), (t.KEY_VALID, _BITMAP, 0)),
    "value": ((t.VALUE_OFFSETS, _OFFSETS_32, 0), (t.VALUE_DATA, _BYTES, 1), (t.VALUE_VALID, _BITMAP, 0)),
    "offset": ((t.OFFSETS, _WORDS_64, 0),),
    "timestamp": ((t.TIMESTAMPS, _WORDS_64, 0),),
    "timestampType": ((t.TIMESTAMP_TYPES, _WORDS_32, 0),),
    "headers": (
        (t.HEADERS_OFFSETS, _OFFSETS_32, 0),
        (t.HEADERS_VALID, _BITMAP, 0),
        (t.HEADER_KEY_OFFSETS, _OFFSETS_32, 2),
        (t.HEADER_KEY_DATA, _BYTES, 3),
        (t.HEADER_VALUE_OFFSETS, _OFFSETS_32, 2),
        (t.HEADER_VALUE_DATA, _BYTES, 4),
        (t.HEADER_VALUE_VALID, _BITMAP, 2),
    ),
}
"""Of each column: the address its buffer goes by, what its size is counted in, and which count of `reserve` it is."""


@lru_cache
def _plan(names: tuple[str, ...]) -> tuple[int, tuple[tuple[int, int, int], ...]]:
    """Return the bits of the columns, and the buffers that they need."""
    unique = set(names)
    return sum(_BITS.get(name, 0) for name in unique), tuple(each for name in unique for each in _LAYOUT.get(name, ()))


def _size(kind: int, count: int) -> int:
    """Return the bytes of a buffer for `count` elements."""
    if kind == _BITMAP:
        return (count + 7) // 8
    if kind == _OFFSETS_32:
        return 4 * (count + 1)
    return count * (4 if kind == _WORDS_32 else 8 if kind == _WORDS_64 else 1)


class Columns:
    """Columns of records, empty at first. `words` and `state` are the arguments of `decode_batches`: `abi/table.py`."""

    def __init__(self, names: Sequence[str]) -> None:
        self.wanted, self._layout = _plan(tuple(names))
        self.words = np.zeros(t.ADDRESSES, np.int64)
        self.state = np.zeros(t.STATES, np.int64)
        self._buffers: dict[int, Any] = {}
        self._room = (0,) * 5

    @property
    def rows(self) -> int:
        return int(self.state[t.ROWS])

    def reserve(self, rows: int, data: int, headers: int = 0, header_keys: int = 0, header_values: int = 0) -> None:
        """Make room for more rows, bytes of keys, bytes of values, headers, and bytes of headers' keys and values.

        A buffer that is too small grows to at least twice its size, so that many calls cost about as much as few.
        """
        state = self.state.tolist()
        data += max(state[t.KEY_BYTES], state[t.VALUE_BYTES])
        counts = (
            rows + state[t.ROWS],
            data,
            headers + state[t.HEADER_COUNT],
            header_keys + state[t.HEADER_KEY_BYTES],
            header_values + state[t.HEADER_VALUE_BYTES],
        )
        if all(map(operator.le, counts, self._room)):
            return
        self._room = counts
        for slot, kind, count in self._layout:
            buffer = self._buffers.get(slot)
            size = 0 if buffer is None else buffer.size
            needed = _size(kind, counts[count]) + t.SLACK
            if needed <= size:
                continue
            needed = max(needed, 2 * size)
            if buffer is None:
                buffer = self._buffers[slot] = pa.allocate_buffer(needed, resizable=True)
                if kind == _OFFSETS_32:
                    ctypes.memset(buffer.address, 0, 4)
            else:
                buffer.resize(needed)
            if kind == _BITMAP:
                ctypes.memset(buffer.address + size, 0xFF, needed - size)
            self.words[slot] = buffer.address

    def _slice(self, slot: int, kind: int, count: int) -> Any:
        return self._buffers[slot].slice(0, _size(kind, count))

    def _valid(self, slot: int, count: int, nulls: int) -> Any:
        return self._slice(slot, _BITMAP, count) if nulls else None

    def _binary(self, kind: Any, slots: tuple[int, int, int], count: int, size: int, nulls: int) -> Any:
        offsets, data, valid = slots
        buffers = [
            self._valid(valid, count, nulls) if valid >= 0 else None,
            self._slice(offsets, _OFFSETS_32, count),
            self._slice(data, _BYTES, size),
        ]
        return pa.Array.from_buffers(kind, count, buffers, nulls)

    def _headers(self, rows: int, state: list[int]) -> Any:
        count = state[t.HEADER_COUNT]
        slots = (t.HEADER_KEY_OFFSETS, t.HEADER_KEY_DATA, -1)
        keys = self._binary(pa.string(), slots, count, state[t.HEADER_KEY_BYTES], 0)
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:
            # Text that is not UTF-8 is read as Kafka's clients and `batch.decode_batch` read it.
            raw = keys.view(pa.binary()).to_pylist()
            keys = pa.array([key.decode(errors="replace") for key in raw], pa.string())
        slots = (t.HEADER_VALUE_OFFSETS, t.HEADER_VALUE_DATA, t.HEADER_VALUE_VALID)
        nulls = state[t.HEADER_VALUE_NULLS]
        values = self._binary(pa.binary(), slots, count, state[t.HEADER_VALUE_BYTES], nulls)
        pairs = pa.Array.from_buffers(HEADER_TYPE, count, [None], 0, children=[keys, values])
        buffers = [self._slice(t.HEADERS_VALID, _BITMAP, rows), self._slice(t.HEADERS_OFFSETS, _OFFSETS_32, rows)]
        return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, children=[pairs])

    def arrays(self, names: Sequence[str], topic: str, partition: int) -> list[Any]:
        """Return the named columns as Arrow arrays over the buffers that were filled."""
        state = self.state.tolist()
        return [self._array(name, topic, partition, state) for name in names]

    def _array(self, name: str, topic: str, partition: int, state: list[int]) -> Any:
        rows = state[t.ROWS]
        if name == "key":
            slots = (t.KEY_OFFSETS, t.KEY_DATA, t.KEY_VALID)
            return self._binary(TYPES[name], slots, rows, state[t.KEY_BYTES], state[t.KEY_NULLS])
        if name == "value":
            slots = (t.VALUE_OFFSETS, t.VALUE_DATA, t.VALUE_VALID)
            return self._binary(TYPES[name], slots, rows, state[t.VALUE_BYTES], state[t.VALUE_NULLS])
        if name == "headers":
            return self._headers(rows, state)
        if name == "topic":
            return _constant(topic, rows)
        if name == "partition":
            return _constant(partition, rows)
        slot, kind, _ = _LAYOUT[name][0]
        return pa.Array.from_buffers(TYPES[name], rows, [None, self._slice(slot, kind, rows)], 0)


def _constant(value: str | int, rows: int) -> Any:
    """Return an array that repeats a topic or partition; Arrow arrays are immutable, so decodes share them."""
    room = 1 << max(rows - 1, 0).bit_length()
    if rows > _SHARED_ROWS:
        return _repeated.__wrapped__(value, rows)
    return _repeated(value, room).slice(0, rows)


@lru_cache(maxsize=16)
def _repeated(value: str | int, rows: int) -> Any:
    if isinstance(value, int):
        return to_arrow(np.full(rows, value, np.int32))
    # Several times as fast as pyarrow's own repeat.
    encoded = value.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * rows)], 0)
