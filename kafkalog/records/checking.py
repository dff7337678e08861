"""Check what a log holds, in any format, many batches at a time: CRC, lengths, offsets, every record.

A leader's check of what is produced (`validate.py`) asks for more: here compaction may have left gaps. A
table describes the batches (`kernels/abi/table.py`), so that one call of a kernel checks whole megabytes. Needs numpy,
and numba where `load` was called; without it, plain Python gives the same answers, at a hundredth of the speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kafkalog.records import compression
from kafkalog.records.any_format import decode_any, header_is_there, read_any_header, verify_any_crc
from kafkalog.records.batch import CODEC_MASK, HEADER_SIZE, MAGIC, MAGIC_AT, BatchHeader, read_header, records_section
from kafkalog.records.compression import Buffer
from kafkalog.records.errors import CorruptRecordError, InvalidRecordError, RecordsError
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import check_layout as c
from kafkalog.records.kernels.abi import table as t
from kafkalog.records.kernels.abi.status import OK, error_for
from kafkalog.records.kernels.compiled.native import crc32c_address
from kafkalog.records.kernels.plain import log_checking as plain

TABLE_ROWS = 8192
Table = Any
"""An array of int64 with a row for each batch; positions count from the start of the buffer."""

_fast: Any = None


def load() -> None:
    """Load the compiled kernels; this takes about half a second if they are compiled, and longer otherwise."""
    global _fast
    if _fast is None:
        loader.load("checking")
        from kafkalog.records.kernels.compiled import log_checking, reading

        _fast = (reading.scan_batches, log_checking.check_batches, log_checking.check_records)


def _read_only(buf: Buffer) -> Any:
    """Return a read-only array of the bytes: the kernels are not compiled for writable ones."""
    return np.frombuffer(memoryview(buf).toreadonly(), np.uint8)


class Counts:
    """Counts and sizes of the records that were checked. Sizes are in bytes."""

    __slots__ = ("words",)

    def __init__(self) -> None:
        self.words: Any = np.zeros(c.COUNTS, np.int64)

    def add(self, other: Counts) -> None:
        """Add another's counts to these."""
        largest = [c.LARGEST_KEY, c.LARGEST_VALUE]
        most = np.maximum(self.words[largest], other.words[largest])
        self.words += other.words
        self.words[largest] = most

    def note(self, key: bytes | None, value: bytes | None) -> None:
        """Count one record without headers."""
        words = self.words
        words[c.RECORDS] += 1
        for data, null, total, largest in (
            (key, c.NULL_KEYS, c.KEY_BYTES, c.LARGEST_KEY),
            (value, c.NULL_VALUES, c.VALUE_BYTES, c.LARGEST_VALUE),
        ):
            if data is None:
                words[null] += 1
            else:
                words[total] += len(data)
                words[largest] = max(words[largest], len(data))

    def __getitem__(self, index: int) -> int:
        return int(self.words[index])


class Scan(NamedTuple):
    """Batches that follow one another in a buffer, and where and why the scan ended."""

    table: Table
    position: int
    next_offset: int
    error: RecordsError | None


def scan(buf: Buffer, pos: int, next_offset: int) -> Scan:
    """Return a row for each whole batch in `buf[pos:]`, of any format, and at most `TABLE_ROWS`.

    Offsets that are below `next_offset` or go back are an error. Wrappers (v0, v1) are not decompressed: their count is
    -1, their offset that of their last record.
    """
    if _fast is None or (len(buf) - pos > MAGIC_AT and buf[pos + MAGIC_AT] != MAGIC):
        return _scan_plain(buf, pos, next_offset)
    table = np.empty((TABLE_ROWS, t.WIDTH), np.int64)
    data = _read_only(buf)
    status, rows, after, offset = _fast[0](data, pos, next_offset, (1 << 63) - 1, table)
    table = table[:rows]
    if status == OK:
        return Scan(table, after, offset, None)
    if not rows and buf[after + MAGIC_AT] in (0, 1):
        return _scan_plain(buf, pos, next_offset)
    if buf[after + MAGIC_AT] in (0, 1):
        return Scan(table, after, offset, None)
    return Scan(table, after, offset, error_for(status, rows, "batch"))


def _scan_plain(buf: Buffer, pos: int, next_offset: int) -> Scan:
    rows: list[list[int]] = []
    error: RecordsError | None = None
    end = len(buf)
    while len(rows) < TABLE_ROWS and header_is_there(buf, pos, end):
        try:
            header = read_any_header(buf, pos)
            if header.size > end - pos:
                break
            _check_offsets(header, next_offset)
        except RecordsError as found:
            error = found
            break
        rows.append(row_of(header, pos))
        pos += header.size
        next_offset = header.next_offset
    table = np.array(rows, np.int64).reshape(len(rows), t.WIDTH)
    return Scan(table, pos, next_offset, error)


def _check_offsets(header: BatchHeader, next_offset: int) -> None:
    if header.last_offset_delta < 0 or not next_offset <= header.base_offset <= t.MAX_BASE_OFFSET:
        raise InvalidRecordError(
            f"offsets {header.base_offset} to {header.last_offset} do not follow offset {next_offset - 1}"
        )
    if header.magic == MAGIC and not 0 <= header.records_count <= header.last_offset_delta + 1:
        raise InvalidRecordError(f"{header.records_count} records in {header.last_offset_delta + 1} offsets")


def row_of(header: BatchHeader, pos: int) -> list[int]:
    """Return the row of a table that describes the batch of any format at `pos`."""
    begin = HEADER_SIZE if header.magic == MAGIC else header.size
    return [
        pos, header.size, pos + begin, pos + header.size, header.base_offset, header.last_offset_delta, header.crc,
        header.attributes & 0xFFFF, header.base_timestamp, header.max_timestamp, header.producer_id,
        header.records_count,
    ]  # fmt: skip


def check(
    buf: Buffer, table: Table, counts: Counts, *, records: bool = True, max_size: int = compression.DEFAULT_MAX_SIZE
) -> list[tuple[int, RecordsError]]:
    """Return the invalid batches, as pairs of row and error: wrong checksums and, with `records`, wrong records.

    `counts` gets the records of the valid batches. A batch may have up to `max_size` bytes uncompressed.
    """
    if not len(table):
        return []
    data = _read_only(buf)
    new = data[table[:, t.POSITION] + MAGIC_AT] == MAGIC
    wrong: dict[int, RecordsError] = {}
    slow = np.ones(len(table), bool)
    function = crc32c_address()
    if _fast is not None and function:
        for start, stop in _runs(new):
            row = start
            while True:
                row, status, index = _fast[1](data, table[:stop], row, function, records, counts.words)
                if row >= stop:
                    break
                wrong[row] = _error(buf, table, row, status, index)
                row += 1
            slow[start:stop] = (table[start:stop, t.ATTRIBUTES] & CODEC_MASK != 0) & records
    summed = _fast is not None and bool(function)
    for row in np.flatnonzero(slow).tolist():
        if row not in wrong:
            before = counts.words.copy()
            try:
                _check_one(buf, int(table[row, t.POSITION]), counts, records, max_size, summed and bool(new[row]))
            except RecordsError as error:
                counts.words = before
                wrong[row] = error
    return sorted(wrong.items())


def _runs(flags: Any) -> Iterator[tuple[int, int]]:
    """Return the ranges in which the flags are set."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])))).tolist()
    yield from zip(edges[::2], edges[1::2], strict=True)


def _error(buf: Buffer, table: Table, row: int, status: int, index: int) -> RecordsError:
    if status != c.BAD_CRC:
        return error_for(status, index)
    try:
        verify_any_crc(buf, int(table[row, t.POSITION]), read_header(buf, int(table[row, t.POSITION])))
    except RecordsError as error:
        return error
    return CorruptRecordError("the kernel and Python disagree about a checksum")


def _check_one(buf: Buffer, pos: int, counts: Counts, records: bool, max_size: int, summed: bool) -> None:
    """Check one batch; `summed` says that its checksum was verified already."""
    header = read_any_header(buf, pos)
    if not summed:
        verify_any_crc(buf, pos, header)
    if not records:
        return
    if header.magic != MAGIC:
        for record in decode_any(buf, pos, max_size=max_size)[1]:
            counts.note(record.key, record.value)
        return
    section, start, end = records_section(buf, pos, header, max_size)
    if header.records_count * t.MIN_RECORD_SIZE > end - start:
        raise InvalidRecordError(f"{header.records_count} records cannot be in {end - start} bytes")
    status, index = check_records(section, start, end, header.records_count, header.last_offset_delta, counts)
    if status != OK:
        raise error_for(status, index)


def check_records(
    section: Buffer, start: int, end: int, count: int, last_offset_delta: int, counts: Counts
) -> tuple[int, int]:
    """Check the `count` uncompressed records of v2 in `section[start:end]`.

    Return a status (`abi/status.py`) and the index of the record that it is about.
    """
    if _fast is None or start == end:
        return plain.check_records(section, start, end, count, last_offset_delta, counts.words)
    data = _read_only(section)
    status, index = _fast[2](data, start, end, count, last_offset_delta, counts.words)
    return int(status), int(index)
