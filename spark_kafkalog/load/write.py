"""Writes one split of a load, on an executor: from the partition's leader to files in staging, without the JVM.

Each attempt of a task writes into a directory of its own, under consecutive numbers. If Spark runs a task twice (a
retry, speculation), there are two directories, and the driver takes the files named in the result that Spark accepts.
The timestamp of a record decides its hour, so a split may write several files. A file may be closed early, to bound
memory or its size; then another one of the same hour follows, with higher offsets.
"""

from __future__ import annotations

import io
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalog.client.types import TopicPartition
from kafkalog.records.arrow.integers import to_arrow, to_numpy
from kafkalog.records.checksum import crc32c
from spark_kafkalog import faults
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.formats import COLUMNS, WRITERS, FormatWriter
from spark_kafkalog.load.layout.file_names import HOUR_US, LAST_HOUR, file_name, hour_path
from spark_kafkalog.load.layout.offsets_document import DataFile, Lost
from spark_kafkalog.load.load_plan import Split
from spark_kafkalog.options.source_options import SourceOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_OPEN = 64
"""The most files (hours) that a task has open at a time."""
MOST_PENDING = 256 << 20
"""The most bytes that wait in memory for their row groups, over all files of a task."""
_BUFFER = 1 << 20


@dataclass(frozen=True)
class SplitTask:
    """A split, and everything that an executor needs to write it."""

    split: Split
    options: SourceOptions
    files: Files
    directory: str
    """The parent directory of the attempts' directories."""
    format: str
    compression_level: int
    most_file_bytes: int
    topic_mark: str | None = None
    """The mark (`spark_kafkalog.offsets.topic_mark`) of the topic that the split was planned for."""


class WrittenFile(NamedTuple):
    """A closed file: the path where the attempt wrote it, and its entry in the load's document."""

    path: str
    file: DataFile


class WrittenSplit(NamedTuple):
    """The result of a task."""

    split: Split
    files: tuple[WrittenFile, ...]
    lost: tuple[Lost, ...]

    @property
    def rows(self) -> int:
        return sum(each.file.rows for each in self.files)

    @property
    def bytes(self) -> int:
        return sum(each.file.bytes for each in self.files)


def load_split(task: SplitTask) -> WrittenSplit:
    """Read the split and write its files.

    Raises:
        OSError: The file system has failed.
        Exception: The split could not be read.
    """
    split = task.split
    faults.point("split-begun")
    attempt = f"{task.directory}/{uuid.uuid4().hex}"
    task.files.make_directories(attempt)
    output = _SplitOutput(task, attempt)
    lost: list[Lost] = []

    def note(start: int, end: int, why: str) -> None:
        lost.append(Lost(split.partition, start, end, why))

    tp = TopicPartition(split.topic, split.partition)
    reading = read_range(tp, split.start, split.end, task.options, COLUMNS, topic=task.topic_mark, on_loss=note)
    with closing(reading) as records:
        for batch in records:
            output.write(batch)
            faults.point("batch-written")
    written = output.close()
    task.files.sync(attempt)
    faults.point("split-written")
    return WrittenSplit(split, written, tuple(lost))


class Checksummed(io.RawIOBase):
    """Passes bytes on to a file, and computes their count and CRC-32C."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self.size = 0
        self.crc = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        self.crc = crc32c(memoryview(data).cast("B"), self.crc)
        count = self._file.write(data)
        assert count is not None
        self.size += count
        return count

    def close(self) -> None:
        if not self.closed:
            try:
                self._file.close()
            finally:
                super().close()


class _HourFile:
    """The open file of one hour."""

    def __init__(self, path: str, task: SplitTask) -> None:
        self.path = path
        self.rows = 0
        self._first = self._last = 0
        self._times: tuple[int, int] | None = None
        self._sink = Checksummed(task.files.create(path))
        self._buffered = io.BufferedWriter(self._sink, _BUFFER)
        self._writer: FormatWriter = WRITERS[task.format](self._buffered, task.compression_level)

    @property
    def pending(self) -> int:
        return self._writer.pending

    @property
    def size(self) -> int:
        return self._sink.size

    def write(self, batch: pa.RecordBatch, offsets: Any, micros: Any) -> None:
        if not self.rows:
            self._first = int(offsets[0])
        self._last = int(offsets[-1])
        self.rows += batch.num_rows
        millis = micros[micros >= 0] // 1000
        if len(millis):
            low, high = int(millis.min()), int(millis.max())
            self._times = (low, high) if self._times is None else (min(low, self._times[0]), max(high, self._times[1]))
        self._writer.write(batch)

    def flush(self) -> None:
        self._writer.flush()

    def close(self, split: Split, hour: int | None, suffix: str) -> WrittenFile:
        self._writer.close()
        self._buffered.close()
        name = file_name(split.topic, split.partition, self._first, self._last + 1, suffix)
        low, high = self._times or (None, None)
        file = DataFile(
            path=f"{hour_path(hour)}/{name}",
            partition=split.partition,
            first_offset=self._first,
            last_offset=self._last,
            rows=self.rows,
            bytes=self._sink.size,
            crc32c=f"{self._sink.crc:08x}",
            min_timestamp=low,
            max_timestamp=high,
        )
        return WrittenFile(self.path, file)


class _SplitOutput:
    """The files of a split: one an hour, or more if one is closed early."""

    def __init__(self, task: SplitTask, directory: str) -> None:
        self._task = task
        self._directory = directory
        self._open: OrderedDict[int | None, _HourFile] = OrderedDict()
        self._closed: list[WrittenFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for hour, part in by_hour(batch):
            file = self._open.get(hour)
            if file is None:
                if len(self._open) >= MOST_OPEN:
                    self._close(next(iter(self._open)))
                number = len(self._closed) + len(self._open)
                file = self._open[hour] = _HourFile(f"{self._directory}/{number}.{self._task.format}", self._task)
            self._open.move_to_end(hour)
            file.write(part, _int64(part, "offset"), _int64(part, "timestamp"))
            if file.size >= self._task.most_file_bytes:
                self._close(hour)
        while sum(each.pending for each in self._open.values()) > MOST_PENDING:
            max(self._open.values(), key=lambda each: each.pending).flush()

    def close(self) -> tuple[WrittenFile, ...]:
        for hour in list(self._open):
            self._close(hour)
        return tuple(sorted(self._closed, key=lambda each: each.file.path))

    def _close(self, hour: int | None) -> None:
        file = self._open.pop(hour)
        self._closed.append(file.close(self._task.split, hour, self._task.format))


def by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Yield the rows of each hour since 1970 (UTC), in their order.

    The hour is None for rows without a timestamp (negative), or with one that no calendar has: a producer may send any
    64 bits.
    """
    hours = _int64(batch, "timestamp") // HOUR_US
    hours[(hours < 0) | (hours > LAST_HOUR)] = -1
    low, high = int(hours.min()), int(hours.max())
    if low == high:
        yield (low if low >= 0 else None), batch
        return
    for hour in np.unique(hours).tolist():
        # Copied, not sliced: a few waiting rows would keep the whole batch in memory.
        yield (hour if hour >= 0 else None), batch.take(to_arrow(np.flatnonzero(hours == hour)))


def _int64(batch: pa.RecordBatch, name: str) -> Any:
    return to_numpy(batch.column(batch.schema.get_field_index(name)).cast(pa.int64()))
