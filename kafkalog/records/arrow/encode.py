"""Arrow columns to record batches: `arrow.encode_arrow`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.records.arrow.columns import HEADERS_TYPE
from kafkalog.records.arrow.integers import to_numpy
from kafkalog.records.batch import (
    CODEC_MASK,
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
from kafkalog.records.compression import Codec, compress
from kafkalog.records.errors import InvalidRecordError, RecordTooLargeError
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import table as t

ArrayLike: TypeAlias = pa.Array | pa.ChunkedArray

DEFAULT_BATCH_BYTES = 1024 * 1024
_OVERHEAD = 64
"""The least bytes of a record besides key, value and headers: six varints."""


def encode_arrow(
    keys: ArrayLike | None,
    values: ArrayLike | None,
    timestamps: ArrayLike | int,
    headers: ArrayLike | None = None,
    *,
    order: npt.NDArray[np.int64] | None = None,
    codec: int = Codec.NONE,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    max_single_bytes: int | None = None,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> list[bytearray]:
    """Encode the rows, in order, as batches with base offset 0 and at most `max_batch_bytes` before compression each.

    `keys` and `values` are binary or string arrays of one length, or None where every row's is null; at least one must
    be given. `timestamps` are Arrow timestamps of any unit (cut to ms), int64 ms, or one int in ms for all. `headers`
    are lists of structs of key (string) and value (binary), null or empty where a row has none. `order` are the numbers
    of the rows to take, one after another; None takes all rows as they are. A batch of one row may take
    `max_single_bytes`. `base_sequence` is the first batch's; the others' count on from there, wrapping after 2**31 - 1.

    Raises:
        RecordTooLargeError: A row does not fit a batch of its own.
        InvalidRecordError: A timestamp or a header's key is null.
        ValueError: The columns' lengths differ, or `order` names a row that does not exist.
    """
    columns = [column for column in (keys, values) if column is not None]
    if not columns:
        raise ValueError("neither keys nor values are given, so the number of rows is unknown")
    inputs = _Inputs(len(columns[0]), keys, values, timestamps, headers, order)
    loader.load("writing")
    attributes = int(codec) | (TRANSACTIONAL_FLAG if is_transactional else 0)
    writer = _Writer(inputs, attributes, level, max_batch_bytes)
    alone = _Writer(inputs, attributes, level, max_single_bytes or 0)
    batches: list[bytearray] = []
    row = 0
    while row < inputs.rows:
        found = writer.batch(row, inputs.rows, producer_id, producer_epoch, base_sequence)
        if found is None and alone.limit > writer.limit:
            found = alone.batch(row, row + 1, producer_id, producer_epoch, base_sequence)
        if found is None:
            raise RecordTooLargeError(f"row {row} does not fit a batch of {max(writer.limit, alone.limit)} bytes")
        batch, after = found
        batches.append(batch)
        if base_sequence != NO_SEQUENCE:
            base_sequence = (base_sequence + after - row) & 0x7FFFFFFF
        row = after
    return batches


class _Writer:
    """A writer of batches of at most `limit` bytes before compression."""

    def __init__(self, inputs: _Inputs, attributes: int, level: int | None, limit: int) -> None:
        self.limit = min(limit, (1 << 31) - 1 - t.SLACK)
        self._inputs = inputs
        self._attributes = attributes
        self._level = level
        self._scratch: npt.NDArray[np.uint8] | None = None
        self._bound = 0
        """An upper bound of the bytes of the remaining rows. It is counted down, and computed again when it may be less
        than a batch."""
        from kafkalog.records.kernels.compiled import writing

        self._encode: Any = writing.encode_records

    def batch(
        self, row: int, rows: int, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> tuple[bytearray, int] | None:
        """Return a batch of the rows row..rows-1 that fit, and the next row; None if the first is too large."""
        # Only the last batches are smaller. A bound on the remaining bytes spares zeroing memory that they do not need.
        if self._bound <= self.limit:
            self._bound = self._inputs.bytes_bound(row)
        capacity = max(min(self.limit, self._bound), HEADER_SIZE)
        # Compressing and cutting off both copy, so one buffer serves all batches.
        copied = bool(self._attributes & CODEC_MASK) or self._inputs.ordered
        out = bytearray() if copied else bytearray(capacity + t.SLACK)
        data = self._buffer(capacity + t.SLACK) if copied else np.frombuffer(out, np.uint8)
        start, end = (0, capacity - HEADER_SIZE) if copied else (HEADER_SIZE, capacity)
        after, size, base_timestamp, max_timestamp = self._encode(
            self._inputs.words, row, rows, self._inputs.timestamp, data, start, end
        )
        if after == row:
            return None
        self._bound -= size - start + (after - row) * _OVERHEAD
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=self._attributes,
            last_offset_delta=after - row - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=after - row,
        )
        if not copied:
            del data, out[size:]
            return seal_batch(header, out), after
        return pack_header(header, compress(self._attributes & CODEC_MASK, data[:size].data, self._level)), after

    def _buffer(self, size: int) -> npt.NDArray[np.uint8]:
        if self._scratch is None or len(self._scratch) < size:
            self._scratch = np.empty(size, np.uint8)
        return self._scratch


def _whole(column: ArrayLike) -> Any:
    """Return the column as one array; join its chunks if it has several."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


class _Inputs:
    """The columns as the kernel takes them: addresses in `words`, and the arrays, which are kept alive.

    Attributes:
        rows: The number of rows to write.
    """

    def __init__(self, rows: int, keys: Any, values: Any, timestamps: Any, headers: Any, order: Any) -> None:
        self.words = np.zeros(t.INPUTS, np.int64)
        self.timestamp = 0
        self.rows = rows
        self.ordered = order is not None
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
        if order is not None:
            self._add_order(order)

    def _check_length(self, column: Any) -> None:
        if len(column) != self._rows:
            raise ValueError(f"columns of {self._rows} and of {len(column)} rows")

    def _valid(self, array: Any) -> int:
        bitmap = array.buffers()[0]
        return 0 if bitmap is None or not array.null_count else int(bitmap.address)

    def _add_binary(self, array: Any, first: int) -> None:
        """Write a binary column's offsets, data, end of data, validity and skip to `words`, from `words[first]` on."""
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
            values = to_numpy(array.cast(pa.int64()))
            per_milli = {"s": 0, "ms": 1, "us": 1000, "ns": 1000000}[array.type.unit]
            values = values * 1000 if not per_milli else values if per_milli == 1 else values // per_milli
        else:
            values = to_numpy(array.cast(pa.int64()))
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

    def _add_order(self, order: Any) -> None:
        order = np.ascontiguousarray(order, np.int64)
        if len(order) and not 0 <= int(order.min()) <= int(order.max()) < self._rows:
            raise ValueError(f"an order of rows {order.min()} to {order.max()} where there are {self._rows}")
        self.rows = len(order)
        self._kept.append(order)
        self.words[t.IN_ORDER] = order.ctypes.data

    def bytes_bound(self, row: int) -> int:
        """Return a lower bound of the bytes of a batch with the rows from `row` on; headers may have any size."""
        if self._with_headers:
            return 1 << 31
        # An order may name a row several times, and its rows may be larger than others.
        first, times = (0, self.rows) if self.ordered else (row, 1)
        data = sum(int(offsets[-1]) - int(offsets[first]) for offsets in self._offsets)
        return HEADER_SIZE + (self.rows - row) * _OVERHEAD + data * times
