"""Fetched batches to Arrow columns, and Arrow columns to batches for a produce request. Needs pyarrow.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType, headers.
Both directions run in compiled kernels, which the first call loads (`kernels.load`) where nothing did before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from . import kernels
from . import table as t
from ._columns import TYPES, Columns
from ._encode import encode_arrow
from .batch import CODEC_MASK, CONTROL_FLAG, MIN_RECORD_SIZE, TRANSACTIONAL_FLAG, decode_batch
from .checksum import crc32c
from .compression import DEFAULT_MAX_SIZE, Buffer, decompress
from .control import ControlRecordType, parse_control_type
from .errors import CorruptRecordError, InvalidRecordError, RecordsError
from .status import OK, error_for

__all__ = ["arrow_schema", "decode_arrow", "encode_arrow"]

OFFSET_MAX = (1 << 31) - 1 - t.SLACK
"""Bytes that 32-bit Arrow offsets can count, less what buffers take beyond."""
GROUP_BYTES = 256 * 1024
"""Batches are checked, decompressed and decoded so many bytes at a time, while the cache still holds them."""
TABLE_ROWS = 4096

_ATTRIBUTES_AT = 21


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of what `decode_arrow` makes of `columns`. `ValueError` for a name that is not a column's."""
    for name in columns:
        if name not in TYPES:
            raise ValueError(f"no column {name!r}; there are {', '.join(TYPES)}")
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


def decode_arrow(
    buf: Buffer,
    *,
    topic: str,
    partition: int,
    start: int,
    end: int,
    columns: Sequence[str],
    aborted: Sequence[tuple[int, int]] = (),
    check_crc: bool = True,
    max_decompressed: int = DEFAULT_MAX_SIZE,
) -> tuple[pa.RecordBatch | None, int]:
    """The records of offsets start..end-1 in `buf`, and the offset to go on from.

    `buf` holds whole batches as a fetch returns them; an incomplete one at its end is left out. `columns` are the
    names wanted, in order; only those are built. `aborted` are the fetch response's aborted transactions as
    (producer_id, first_offset): their records are left out, as a read_committed consumer does. Control batches are
    left out always.

    No record below the second result is left: it is past every batch that was read, compacted offsets, markers and
    aborted records included, but never past `end`. It equals `start` where `buf` holds no whole batch. A decode stops
    early, on a batch's border, where 32-bit Arrow offsets or `max_decompressed` would be exceeded by all batches
    together; calling again with the same bytes and the new offset as `start` goes on.

    Raises any `RecordsError`, its text naming partition and offset; `ValueError` for an unknown column. At most twice
    `max_decompressed` is held decompressed at a time.
    """
    schema = arrow_schema(columns)
    kernels.load()
    if start >= end:
        return None, start
    decode = _Decode(buf, columns, topic, partition, start, end)
    table, next_offset = decode.scan()
    next_offset = min(max(start, next_offset), end)
    table = _visible(buf, table, start, aborted)
    for batch in decode.expect(table, max_decompressed):
        try:
            taken = decode.take(batch, check_crc, max_decompressed)
        except RecordsError as error:
            raise decode.located(error, batch[t.BASE_OFFSET]) from None
        if not taken:
            next_offset = max(start, batch[t.BASE_OFFSET])
            break
    decode.flush()
    if not decode.columns.rows:
        return None, next_offset
    arrays = [decode.columns.array(name, topic, partition) for name in columns]
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema), next_offset
    # Without columns the count of rows is all there is, and only a struct's length can say it.
    rows = pa.Array.from_buffers(pa.struct([]), decode.columns.rows, [None])
    return pa.RecordBatch.from_struct_array(rows), next_offset


class _Decode:
    """One call of `decode_arrow`: what it reads and what it has filled."""

    def __init__(self, buf: Buffer, columns: Sequence[str], topic: str, partition: int, start: int, end: int) -> None:
        from . import _numba

        self._kernels: Any = _numba
        self._view = memoryview(buf)
        self._data = np.frombuffer(buf, np.uint8)
        self._start, self._end = start, end
        self._partition = f"{topic}-{partition}"
        self._topic_size = len(topic.encode()) if "topic" in columns else 0
        self.columns = Columns(columns)
        self._address = self._data.ctypes.data
        # The batches to take; those from `first` on of which `bounds` has begin and end wait, as do their sections.
        self._table: Any = None
        self._first = 0
        self._bounds: list[tuple[int, int]] = []
        self._sections: list[Any] = []
        self._group_bytes = self._group_rows = 0
        # Of all batches taken: bytes as fetched and of records, the decompressed ones of these, and rows.
        self._fetched = self._bytes = self._decompressed = self._rows = 0
        self._expected = self._most = 0

    def located(self, error: RecordsError, offset: int) -> RecordsError:
        """`error`, saying where."""
        return type(error)(f"{self._partition} at offset {offset}: {error}")

    def scan(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
        """A table of the whole batches that begin below the end, and the offset after them."""
        parts = []
        pos = next_offset = 0
        while True:
            part = np.empty((TABLE_ROWS, t.WIDTH), np.int64)
            status, rows, pos, next_offset = self._kernels.scan_batches(self._data, pos, next_offset, self._end, part)
            if status != OK:
                raise self.located(error_for(status, 0, "batch"), next_offset)
            parts.append(part[:rows])
            if rows < TABLE_ROWS:
                return parts[0] if len(parts) == 1 else np.concatenate(parts), next_offset

    def expect(self, table: Any, max_decompressed: int) -> list[list[int]]:
        """The batches of `table`, for `take` to be called with each in turn."""
        self._table = table
        self._expected = int(table[:, t.SIZE].sum())
        self._most = min(OFFSET_MAX, self._expected + max_decompressed)
        batches: list[list[int]] = table.tolist()
        return batches

    def take(self, batch: list[int], check_crc: bool, max_decompressed: int) -> bool:
        """Check the batch and decode it, now or with those after it; False where it has no room."""
        position, size, begin, end, _, _, crc, attributes, _, _, _, count = batch
        if check_crc:
            computed = crc32c(self._view[position + _ATTRIBUTES_AT : position + size])
            if computed != crc:
                raise CorruptRecordError(f"CRC {computed:#010x}, stored {crc:#010x}")
        codec = attributes & CODEC_MASK
        if codec and begin != end:
            section = pa.py_buffer(decompress(codec, self._view[begin:end], max_decompressed))
            if self._decompressed and self._decompressed + section.size > max_decompressed:
                return False
            self._decompressed += section.size
            self._sections.append(section)
            begin, end = section.address, section.address + section.size
        else:
            begin, end = begin + self._address, end + self._address
        length = end - begin
        if count * MIN_RECORD_SIZE > length:
            raise InvalidRecordError(f"{count} records cannot be in {length} bytes")
        rows = self._rows + count
        if self._rows and (self._bytes + length > OFFSET_MAX or rows * self._topic_size > OFFSET_MAX):
            return False
        self._rows = rows
        self._bytes += length
        self._fetched += size
        self._bounds.append((begin, end))
        self._group_bytes += length
        self._group_rows += count
        if self._group_bytes >= GROUP_BYTES:
            self.flush()
        return True

    def flush(self) -> None:
        """Decode the batches that wait."""
        after = self._first + len(self._bounds)
        if after == self._first:
            return
        table = self._table[self._first : after]
        table[:, t.START : t.END + 1] = self._bounds
        columns = self.columns
        totals = np.zeros(3, np.int64)
        if columns.wanted & t.HEADERS:
            self._check(self._kernels.count_headers(table, totals))
        rows, size = self._group_rows, self._group_bytes
        if not columns.rows:
            # The batches to come are taken to be like the first, so that the columns need not be moved as they grow.
            scale = 1.05 * max(1.0, self._expected / self._fetched)
            size = max(size, min(int(size * scale), self._most))
            rows = max(rows, min(int(rows * scale), size // MIN_RECORD_SIZE))
        columns.reserve(rows, size, *totals.tolist())
        self._check(
            self._kernels.decode_batches(table, self._start, self._end, columns.wanted, columns.words, columns.state)
        )
        self._first = after
        self._bounds, self._sections = [], []
        self._group_bytes = self._group_rows = 0

    def _check(self, answer: tuple[int, int, int]) -> None:
        status, batch, index = answer
        if status != OK:
            raise self.located(error_for(status, index), int(self._table[self._first + batch, t.BASE_OFFSET]))


def _visible(buf: Buffer, table: Any, start: int, aborted: Sequence[tuple[int, int]]) -> Any:
    """The rows of `table` whose records a consumer from `start` on sees."""
    visible = table[:, t.BASE_OFFSET] + table[:, t.LAST_OFFSET_DELTA] >= start
    visible &= table[:, t.ATTRIBUTES] & CONTROL_FLAG == 0
    if aborted:
        visible &= ~_aborted(buf, table, aborted)
    return table[visible]


def _aborted(buf: Buffer, table: Any, transactions: Sequence[tuple[int, int]]) -> Any:
    """Which rows belong to aborted transactions, found as Kafka's consumer does.

    A producer's batches are dropped from the first offset of its aborted transaction on, to the marker that ends it.
    Batches before the start of the fetch count too: a marker there ends what began before.
    """
    waiting = sorted(transactions, key=lambda transaction: transaction[1], reverse=True)
    producers: set[int] = set()
    dropped = np.zeros(len(table), bool)
    for index, row in enumerate(table.tolist()):
        producer_id = row[t.PRODUCER_ID]
        if producer_id < 0:
            continue
        while waiting and waiting[-1][1] <= row[t.BASE_OFFSET] + row[t.LAST_OFFSET_DELTA]:
            producers.add(waiting.pop()[0])
        if row[t.ATTRIBUTES] & CONTROL_FLAG:
            if producer_id in producers and _is_abort(buf, row[t.POSITION]):
                producers.remove(producer_id)
        elif row[t.ATTRIBUTES] & TRANSACTIONAL_FLAG and producer_id in producers:
            dropped[index] = True
    return dropped


def _is_abort(buf: Buffer, position: int) -> bool:
    _, records = decode_batch(buf, position)
    return bool(records) and parse_control_type(records[0].key) == ControlRecordType.ABORT
