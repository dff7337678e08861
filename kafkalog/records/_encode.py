"""Arrow columns to record batches: `arrow.encode_arrow`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import kernels
from . import table as t
from ._columns import HEADERS_TYPE
from .batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    pack_header,
    seal_batch,
)
from .compression import Codec, compress
from .errors import InvalidRecordError, RecordTooLargeError

ArrayLike: TypeAlias = pa.Array | pa.ChunkedArray

DEFAULT_BATCH_BYTES = 1024 * 1024
_OVERHEAD = 64
"""At least what a record takes besides key, value and headers: six varints."""


def encode_arrow(
    keys: ArrayLike | None,
    values: ArrayLike | None,
    timestamps: ArrayLike | int,
    headers: ArrayLike | None = None,
    *,
    codec: int = Codec.NONE,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> list[bytearray]:
    """Batches of the rows, in order, each with base offset 0 and at most `max_batch_bytes` before compression.

    `keys` and `values` are binary or string arrays of one length, or None where every row's is null; at least one
    must be there. `timestamps` are Arrow timestamps of any unit (cut to ms), int64 ms, or one int in ms for all.
    `headers` are lists of structs of key (string) and value (binary), null or empty where a row has none.
    `base_sequence` is the first batch's; the others' count on from there, wrapping after 2**31 - 1.

    `RecordTooLargeError` for a row that does not fit a batch alone, `InvalidRecordError` for null timestamps and
    null header keys, `ValueError` where the columns' lengths differ.
    """
    columns = [column for column in (keys, values) if column is not None]
    if not columns:
        raise ValueError("neither keys nor values: how many rows is not known")
    rows = len(columns[0])
    inputs = _Inputs(rows, keys, values, timestamps, headers)
    kernels.load()
    from . import _numba_write

    attributes = int(codec) | (TRANSACTIONAL_FLAG if is_transactional else 0)
    max_batch_bytes = min(max_batch_bytes, (1 << 31) - 1 - t.SLACK)
    batches: list[bytearray] = []
    scratch = bytearray(min(max_batch_bytes, max(inputs.bytes_bound(0), HEADER_SIZE)) + t.SLACK) if codec else None
    row = 0
    while row < rows:
        # Only the last batches are smaller, so a bound on what is left spares zeroing what is not needed.
        capacity = max(min(max_batch_bytes, inputs.bytes_bound(row)), HEADER_SIZE)
        out = bytearray(capacity + t.SLACK) if scratch is None else scratch
        data = np.frombuffer(out, np.uint8)
        start = HEADER_SIZE if scratch is None else 0
        end = capacity if scratch is None else capacity - HEADER_SIZE
        after, size, base_timestamp, max_timestamp = _numba_write.encode_records(
            inputs.words, row, rows, inputs.timestamp, data, start, end
        )
        del data
        if after == row:
            raise RecordTooLargeError(f"row {row} does not fit a batch of {max_batch_bytes} bytes")
        count = after - row
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=count,
        )
        if scratch is None:
            del out[size:]
            batches.append(seal_batch(header, out))
        else:
            with memoryview(scratch) as view, view[:size] as records:
                batches.append(pack_header(header, compress(codec, records, level)))
        if base_sequence != NO_SEQUENCE:
            base_sequence = (base_sequence + count) & 0x7FFFFFFF
        row = after
    return batches


def _whole(column: ArrayLike) -> Any:
    """One array of what may be several chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


class _Inputs:
    """Columns as the kernel takes them: addresses in `words`, and the arrays kept alive."""

    def __init__(self, rows: int, keys: Any, values: Any, timestamps: Any, headers: Any) -> None:
        self.words = np.zeros(t.INPUTS, np.int64)
        self.timestamp = 0
        self._rows = rows
        self._kept: list[Any] = []
        self._offsets: list[Any] = []
        for column, first in ((keys, t.IN_KEY_OFFSETS), (values, t.IN_VALUE_OFFSETS)):
            if column is not None:
                self._check_length(column)
                self._add_binary(_whole(column), first)
        if isinstance(timestamps, int):
            self.timestamp = timestamps
        else:
            self._add_timestamps(timestamps)
        self._with_headers = headers is not None
        if headers is not None:
            self._add_headers(headers)

    def _check_length(self, column: Any) -> None:
        if len(column) != self._rows:
            raise ValueError(f"columns of {self._rows} and of {len(column)} rows")

    def _valid(self, array: Any) -> int:
        bitmap = array.buffers()[0]
        return 0 if bitmap is None or not array.null_count else int(bitmap.address)

    def _add_binary(self, array: Any, first: int) -> None:
        """Note a binary column's offsets, data, end of data, validity and skip from `words[first]` on."""
        if array.type != pa.binary():
            array = pc.cast(array, pa.binary())
        self._kept.append(array)
        _, offsets, data = array.buffers()
        if offsets is None or not len(array):
            return
        address, size = (0, 0) if data is None else (data.address, data.size)
        self.words[first : first + 5] = offsets.address, address, address + size, self._valid(array), array.offset
        self._offsets.append(np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1])

    def _add_timestamps(self, column: Any) -> None:
        self._check_length(column)
        array = _whole(column)
        if array.null_count:
            raise InvalidRecordError("a timestamp is null")
        if pa.types.is_timestamp(array.type):
            values = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
            per_milli = {"s": 0, "ms": 1, "us": 1000, "ns": 1000000}[array.type.unit]
            values = values * 1000 if not per_milli else values if per_milli == 1 else values // per_milli
        else:
            values = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        values = np.ascontiguousarray(values, np.int64)
        self._kept.append(values)
        self.words[t.IN_TIMESTAMPS] = values.ctypes.data

    def _add_headers(self, column: Any) -> None:
        self._check_length(column)
        array = _whole(column)
        if array.type != HEADERS_TYPE:
            array = array.cast(HEADERS_TYPE)
        pairs = array.values
        # Nulls that no row refers to do no harm.
        if pairs.null_count or pairs.field(0).null_count:
            seen = array.flatten()
            if seen.null_count or seen.field(0).null_count:
                raise InvalidRecordError("a header has no key")
        offsets = array.buffers()[1]
        if not len(array) or offsets is None or not len(pairs):
            return
        self._kept += [array, pairs]
        self.words[t.IN_HEADERS_OFFSETS : t.IN_HEADERS_SKIP + 1] = offsets.address, self._valid(array), array.offset
        for index, first in ((0, t.IN_HEADER_KEY_OFFSETS), (1, t.IN_HEADER_VALUE_OFFSETS)):
            child = pairs.field(index)
            self._kept.append(child)
            _, child_offsets, data = child.buffers()
            words = [child_offsets.address, 0 if data is None else data.address]
            if index:
                words.append(self._valid(child))
            words.append(child.offset)
            self.words[first : first + len(words)] = words

    def bytes_bound(self, row: int) -> int:
        """At least the bytes of a batch of the rows from `row` on; headers are not looked at and count as any size."""
        if self._with_headers:
            return 1 << 31
        data = sum(int(offsets[-1]) - int(offsets[row]) for offsets in self._offsets)
        return HEADER_SIZE + (self._rows - row) * _OVERHEAD + data
