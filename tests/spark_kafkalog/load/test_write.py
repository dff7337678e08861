"""Test what becomes of a task of a load whose files cannot be written."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.load import write
from spark_kafkalog.load.formats import SCHEMA
from spark_kafkalog.load.load_plan import Split
from spark_kafkalog.load.write import SplitTask, load_split
from spark_kafkalog.options.source_options import SourceOptions


class FullFiles(LocalFiles):
    """A file system without space."""

    def create(self, path: str) -> io.RawIOBase:
        raise OSError(errno.ENOSPC, "No space left on device", path)


def test_its_reading_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when its error, which has the frames of the task, is forgotten: a reading has a connection and a thread."""
    ended: list[bool] = []

    def read(*given: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        try:
            row = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0}
            yield pa.RecordBatch.from_pylist([row], SCHEMA)
        finally:
            ended.append(True)

    monkeypatch.setattr(write, "read_range", read)
    options = SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "subscribe": "t"})
    task = SplitTask(Split("t", 0, 0, 1), options, FullFiles(), str(tmp_path), "parquet", 3, 1 << 20)
    with pytest.raises(OSError, match="No space left") as failed:
        load_split(task)
    assert ended == [True], f"after {failed.value}"
