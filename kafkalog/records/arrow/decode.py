"""Fetched batches to Arrow columns. Needs pyarrow.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType, headers.
The loops run in compiled kernels, which the first call loads (`loader.load`) where nothing did before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kafkalog.records.arrow.columns import TYPES, Columns
from kafkalog.records.arrow.scratch import Scratch
from kafkalog.records.batch import CODEC_MASK, CONTROL_FLAG, NO_TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, decode_batch
from kafkalog.records.checksum import crc32c
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Buffer, Codec
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import CorruptRecordError, InvalidRecordError, RecordsError, RecordTooLargeError
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import table as t
from kafkalog.records.kernels.abi.status import OK, error_for
from kafkalog.records.kernels.compiled.native import crc32c_address, lz4_address

OFFSET_MAX = (1 << 31) - 1 - t.SLACK
"""Bytes that 32-bit Arrow offsets can count, less the spare bytes of a buffer."""
TABLE_ROWS = 1024

_KERNEL_CODECS = frozenset({Codec.NONE, Codec.SNAPPY, Codec.LZ4})
_NO_HEADERS = np.zeros(3, np.int64)

Located = Callable[[RecordsError, int], RecordsError]
"""Returns an error about the batch at an offset with partition and offset in its text."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of `decode_arrow`'s result for `columns`.

    Raises:
        ValueError: A column is unknown.
    """
    return _schema(tuple(columns))


@lru_cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    for name in columns:
        if name not in TYPES:
            raise ValueError(f"no column {name!r}; the columns are {', '.join(TYPES)}")
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
    max_batch: int | None = None,
    converted: bool = False,
) -> tuple[pa.RecordBatch | None, int]:
    """Decode the records of offsets start..end-1 in `buf`; return them and the offset to go on from.

    `buf` holds whole batches as a fetch returns them; an incomplete one at its end is left out. `columns` are the names
    wanted, in order; only those are built. `aborted` are the fetch response's aborted transactions as (producer_id,
    first_offset): their records are left out, as a read_committed consumer does. Control batches are always left out.
    `converted` says that batches of `buf` come from `convert.upgraded`, so that their flag for records without a
    timestamp type counts.

    The second result is past every batch that was read, including compacted offsets, markers and aborted records, but
    never past `end`. No record below it is left to read. It equals `start` where `buf` holds no whole batch. A decode
    stops early, between two batches, before the columns would exceed 32-bit Arrow offsets or `max_decompressed`. Call
    again with the same bytes and the new offset as `start` to go on. A single batch may expand to `max_batch` bytes, or
    to `max_decompressed` without it.

    Raises:
        RecordTooLargeError: A batch expands to more than `max_batch` bytes. The text names partition and offset.
        RecordsError: A batch cannot be decoded; any of its subclasses. The text names partition and offset.
        ValueError: A column is unknown.
    """
    schema = arrow_schema(columns)
    loader.load("reading")
    if start >= end:
        return None, start
    decode = _Decode(buf, columns, topic, partition, start, end)
    table, next_offset = decode.scan()
    next_offset = min(max(start, next_offset), end)
    if not converted:
        table[:, t.ATTRIBUTES] &= ~NO_TIMESTAMP_TYPE_FLAG
    table = _visible(buf, table, start, aborted, decode.located)
    try:
        stopped_at = decode.take(table, check_crc, max_decompressed, max_batch or max_decompressed)
    except RecordsError as error:
        raise decode.located(error, decode.offset) from None
    if stopped_at is not None:
        next_offset = max(start, stopped_at)
    if not decode.columns.rows:
        return None, next_offset
    if columns:
        arrays = decode.columns.arrays(columns, topic, partition)
        return pa.RecordBatch.from_arrays(arrays, schema=schema), next_offset
    # Without columns only the count of rows is left, and only a struct array can have a length without columns.
    rows = pa.Array.from_buffers(pa.struct([]), decode.columns.rows, [None])
    return pa.RecordBatch.from_struct_array(rows), next_offset


class _Decode:
    """One call of `decode_arrow`: what it reads and what it has filled."""

    def __init__(self, buf: Buffer, columns: Sequence[str], topic: str, partition: int, start: int, end: int) -> None:
        from kafkalog.records.kernels.compiled import reading, unpacking

        self._kernels: Any = reading
        self._unpack: Any = unpacking.unpack_batches
        self._view = memoryview(buf)
        # The kernels are not compiled for writable arrays.
        self._data = np.frombuffer(self._view.toreadonly(), np.uint8)
        self._start, self._end = start, end
        self._partition = f"{topic}-{partition}"
        self._topic_size = len(topic.encode()) if "topic" in columns else 0
        self.columns = Columns(columns)
        self._address = pa.py_buffer(buf).address
        self._words = np.zeros(t.UNPACKS, np.int64)
        # Python reads an element of a memoryview ten times as fast as an element of a numpy array.
        self._cells = self._words.data
        self._scratch = Scratch(self._cells)
        self._table: Any = None
        self._check_crc = True
        self._current = 0
        self._max_batch = 0
        # Room for the first group: all batches together have the fetched bytes, and decoded bytes up to the maximum.
        self._expected = self._most = 0

    @property
    def offset(self) -> int:
        """Base offset of the batch that is being checked or decoded."""
        return int(self._table[self._current, t.BASE_OFFSET])

    def located(self, error: RecordsError, offset: int) -> RecordsError:
        """Return `error` with partition and offset in its text."""
        return type(error)(f"{self._partition} at offset {offset}: {error}")

    def scan(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
        """Return a table of the whole batches that begin below the end, and the offset after them."""
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

    def _codec(self, index: int) -> int:
        return int(self._table[index, t.ATTRIBUTES]) & CODEC_MASK

    def take(self, table: Any, check_crc: bool, max_decompressed: int, max_batch: int) -> int | None:
        """Check and decode the batches of `table`, group after group.

        Return the base offset of the first batch for which there was no room, or None.
        """
        self._table, self._check_crc = table, check_crc
        self._max_batch = min(max_batch, OFFSET_MAX)
        self._expected = int(table[:, t.SIZE].sum())
        self._most = min(OFFSET_MAX, self._expected + max_decompressed)
        table[:, t.START : t.END + 1] += self._address
        words = self._cells
        words[t.CRC_FUNCTION] = crc32c_address() if check_crc else 0
        words[t.LZ4_FUNCTION] = lz4_address()
        words[t.MOST_BYTES], words[t.MOST_UNPACKED] = OFFSET_MAX, max_decompressed
        words[t.TOPIC_SIZE] = self._topic_size
        # Small batches cost as much Python as decoding them, so a kernel handles the common ones.
        kernel = self._unpack if words[t.CRC_FUNCTION] or not check_crc else None
        first = index = 0
        if kernel is not None and len(table):
            self._scratch.expect(self._codec(0), int(table[0, t.SIZE]), max_decompressed)
        stopped = False
        while index < len(table):
            if kernel is not None and self._codec(index) in _KERNEL_CODECS:
                index = kernel(table, index, self._address, self._words)
            if index < len(table) and words[t.GROUP_LENGTH] < t.GROUP_BYTES:
                stopped = not self._take_one(index)
                index += not stopped
            if stopped or index == len(table) or words[t.GROUP_LENGTH] >= t.GROUP_BYTES:
                self._decode(first, index)
                first = index
                words[t.GROUP_FETCHED] = words[t.GROUP_LENGTH] = words[t.GROUP_ROWS] = 0
                self._scratch.clear()
            if stopped:
                return int(table[index, t.BASE_OFFSET])
        return None

    def _take_one(self, index: int) -> bool:
        """Decode one batch in Python; return whether it fitted.

        The kernel leaves a batch to Python where it does not know the codec, or where something is wrong with the
        batch.
        """
        self._current = index
        row = self._table[index]
        position, size, begin, end, _, _, crc, attributes, _, _, _, records = row.tolist()
        view, words = self._view, self._cells
        if self._check_crc and (computed := crc32c(view[position + t.ATTRIBUTES_AT : position + size])) != crc:
            raise CorruptRecordError(f"CRC {computed:#010x}, stored {crc:#010x}")
        codec = attributes & CODEC_MASK
        room = end - begin
        if codec and room:
            packed = view[begin - self._address : end - self._address]
            unpacked, most = words[t.UNPACKED], words[t.MOST_UNPACKED]
            try:
                begin, room = self._scratch.decompress(codec, packed, most if unpacked else self._max_batch)
            except RecordTooLargeError:
                # Behind others there is no room for it. The next call decodes it alone.
                if unpacked:
                    return False
                raise
            if unpacked and unpacked + room > most:
                return False
            words[t.UNPACKED] = unpacked + room
            row[t.START : t.END + 1] = begin, begin + room
        if records * t.MIN_RECORD_SIZE > room:
            raise InvalidRecordError(f"{records} records cannot be in {room} bytes")
        rows, total = words[t.TAKEN_ROWS], words[t.TAKEN_BYTES] + room
        if rows and (total > OFFSET_MAX or (rows + records) * self._topic_size > OFFSET_MAX):
            return False
        words[t.TAKEN_ROWS] = rows + records
        words[t.TAKEN_BYTES] = total
        words[t.GROUP_FETCHED] += size
        words[t.GROUP_LENGTH] += room
        words[t.GROUP_ROWS] += records
        return True

    def _decode(self, first: int, after: int) -> None:
        """Decode the group of batches first..after-1."""
        if first == after:
            return
        fetched, size, rows = self._words[t.GROUP_FETCHED : t.GROUP_ROWS + 1].tolist()
        table = self._table[first:after]
        columns = self.columns
        totals = _NO_HEADERS
        if columns.wanted & t.HEADERS:
            totals = np.zeros(3, np.int64)
            self._check(self._kernels.count_headers(table, totals), first)
        if not first:
            # Assume that the next batches are like the first, so that growing columns are seldom moved.
            scale = 1.05 * max(1.0, self._expected / fetched)
            size = max(size, min(int(size * scale), self._most))
            rows = max(rows, min(int(rows * scale), size // t.MIN_RECORD_SIZE))
        columns.reserve(rows, size, *totals.tolist())
        self._check(
            self._kernels.decode_batches(table, self._start, self._end, columns.wanted, columns.words, columns.state),
            first,
        )

    def _check(self, answer: tuple[int, int, int], first: int) -> None:
        status, batch, index = answer
        if status != OK:
            self._current = first + batch
            raise error_for(status, index)


def _visible(buf: Buffer, table: Any, start: int, aborted: Sequence[tuple[int, int]], located: Located) -> Any:
    """Return the rows of `table` whose records a consumer that starts at `start` sees."""
    visible = table[:, t.BASE_OFFSET] + table[:, t.LAST_OFFSET_DELTA] >= start
    visible &= table[:, t.ATTRIBUTES] & CONTROL_FLAG == 0
    if aborted:
        visible &= ~_aborted(buf, table, aborted, located)
    return table if visible.all() else table[visible]


def _aborted(buf: Buffer, table: Any, transactions: Sequence[tuple[int, int]], located: Located) -> Any:
    """Return which rows belong to aborted transactions, as Kafka's consumer finds them.

    A producer's batches are dropped from the first offset of its aborted transaction to the marker that ends it.
    Batches before the start of the fetch count too: a marker there ends a transaction that began before it.
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
            try:
                if producer_id in producers and _is_abort(buf, row[t.POSITION]):
                    producers.remove(producer_id)
            except RecordsError as error:
                raise located(error, row[t.BASE_OFFSET]) from None
        elif row[t.ATTRIBUTES] & TRANSACTIONAL_FLAG and producer_id in producers:
            dropped[index] = True
    return dropped


def _is_abort(buf: Buffer, position: int) -> bool:
    _, records = decode_batch(buf, position)
    return bool(records) and parse_control_type(records[0].key) == ControlRecordType.ABORT
