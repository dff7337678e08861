"""Arrow to record batches: columns become batches ready to be produced, by one compiled loop over their buffers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from . import compression, kernels
from . import table as t
from .batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    pack_header,
)
from .compression import Codec
from .errors import InvalidRecordError

DEFAULT_BATCH_BYTES = 1 << 20
RECORD_OVERHEAD = 64
"""More than the varints of a record without headers take."""
HEADER_OVERHEAD = 10


def encode_arrow(
    keys: pa.Array | None,
    values: pa.Array | None,
    timestamps: pa.Array | None = None,
    headers: pa.Array | None = None,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    timestamp_ms: int | None = None,
) -> list[bytearray]:
    """Whole batches with base offset 0, in the order of the rows.

    Args:
        keys, values: binary or string, of one length; None for a column of nulls.
        timestamps: int64 milliseconds, or timestamps; without it every record gets `timestamp_ms` (default: now).
        headers: list<struct<key: string, value: binary>>; null where a record has none.
        max_batch_bytes: a batch's bytes before compression, header included; a larger record has a batch of its own.

    Raises `InvalidRecordError` for columns of other types or lengths, null timestamps or null header keys.
    """
    rows = _common_length(keys, values, timestamps, headers)
    if not rows:
        return []
    kernels.load()
    inputs = _Inputs()
    inputs.binary(keys, "keys", t.IN_KEY_OFFSETS, t.IN_KEY_DATA, t.IN_KEY_VALID, t.IN_KEY_SKIP, t.IN_KEY_END)
    inputs.binary(
        values, "values", t.IN_VALUE_OFFSETS, t.IN_VALUE_DATA, t.IN_VALUE_VALID, t.IN_VALUE_SKIP, t.IN_VALUE_END
    )
    inputs.times(timestamps)
    inputs.headers(headers)
    now = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    return list(_batches(inputs, rows, now, codec, level, max(max_batch_bytes - HEADER_SIZE, 1)))


def _batches(inputs: _Inputs, rows: int, now: int, codec: Codec, level: int | None, room: int) -> Iterator[bytearray]:
    from ._numba_write import encode_records

    out = np.empty(room + t.SLACK, dtype=np.uint8)
    row = 0
    while row < rows:
        section = out
        stop, end, base_timestamp, max_timestamp = encode_records(inputs.words, row, rows, now, out, 0, room)
        if stop == row:
            # This record alone is larger than a batch should be; it gets the room it needs, and this once only.
            needed = inputs.size_of(row)
            section = np.empty(needed + t.SLACK, dtype=np.uint8)
            stop, end, base_timestamp, max_timestamp = encode_records(
                inputs.words, row, row + 1, now, section, 0, needed
            )
            if stop == row:
                raise InvalidRecordError(f"row {row} does not fit the {needed} bytes it was measured at")
        records = memoryview(section)[:end]
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=int(codec),
            last_offset_delta=stop - row - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            records_count=stop - row,
        )
        yield pack_header(header, compression.compress(codec, records, level) if codec else records)
        row = stop


def _common_length(*columns: pa.Array | None) -> int:
    lengths = {len(column) for column in columns if column is not None}
    if len(lengths) > 1:
        raise InvalidRecordError(f"columns of different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


class _Inputs:
    """What the kernel reads: addresses of the columns' buffers (`table.IN_...`), kept alive here."""

    def __init__(self) -> None:
        self.words = np.zeros(t.INPUTS, dtype=np.int64)
        self._kept: list[Any] = []
        self._sizes: list[pa.Array] = []
        self._headers: pa.Array | None = None

    def binary(
        self,
        column: pa.Array | None,
        name: str,
        offsets: int,
        data: int,
        valid: int | None,
        skip: int,
        end: int | None = None,
    ) -> None:
        if column is None:
            return
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        elif not pa.types.is_binary(column.type):
            raise InvalidRecordError(f"{name} are {column.type}; binary or string was expected")
        bitmap, starts, content = column.buffers()
        self._kept.append(column)
        self._sizes.append(column)
        words = self.words
        words[offsets] = starts.address
        words[data] = 0 if content is None else content.address
        if valid is not None:
            words[valid] = 0 if bitmap is None or not column.null_count else bitmap.address
        words[skip] = column.offset
        if end is not None:
            words[end] = 0 if content is None else content.address + content.size

    def times(self, column: pa.Array | None) -> None:
        if column is None:
            return
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).view(pa.int64())
        if not pa.types.is_int64(column.type):
            raise InvalidRecordError(f"timestamps are {column.type}; int64 milliseconds or timestamps were expected")
        if column.null_count:
            raise InvalidRecordError(f"{column.null_count} timestamps are null")
        self._kept.append(column)
        self.words[t.IN_TIMESTAMPS] = column.buffers()[1].address + 8 * column.offset

    def headers(self, column: pa.Array | None) -> None:
        if column is None:
            return
        if not pa.types.is_list(column.type) or not pa.types.is_struct(column.type.value_type):
            raise InvalidRecordError(f"headers are {column.type}; list<struct<key, value>> was expected")
        pairs = column.values
        # The children as they lie under the list's offsets, the struct's own nulls and slices applied.
        keys, values = pairs.flatten()
        if keys.null_count:
            raise InvalidRecordError("a header's key is null")
        bitmap, offsets = column.buffers()[:2]
        self._kept.append(column)
        self._headers = column
        words = self.words
        words[t.IN_HEADERS_OFFSETS] = offsets.address
        words[t.IN_HEADERS_VALID] = 0 if bitmap is None or not column.null_count else bitmap.address
        words[t.IN_HEADERS_SKIP] = column.offset
        sizes = self._sizes
        self._sizes = []
        self.binary(keys, "header keys", t.IN_HEADER_KEY_OFFSETS, t.IN_HEADER_KEY_DATA, None, t.IN_HEADER_KEY_SKIP)
        self.binary(
            values, "header values", t.IN_HEADER_VALUE_OFFSETS, t.IN_HEADER_VALUE_DATA, t.IN_HEADER_VALUE_VALID,
            t.IN_HEADER_VALUE_SKIP,
        )  # fmt: skip
        self._sizes = sizes

    def size_of(self, row: int) -> int:
        """An upper bound of the bytes of this row's record."""
        size = RECORD_OVERHEAD
        for column in self._sizes:
            cell = column[row].as_buffer()
            size += 0 if cell is None else cell.size
        pairs = None if self._headers is None else self._headers[row].as_py()
        for pair in pairs or ():
            size += HEADER_OVERHEAD + len(pair["key"].encode()) + len(pair["value"] or b"") + HEADER_OVERHEAD
        return size
