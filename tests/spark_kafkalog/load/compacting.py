"""Run compactions, also ones that die at a named point."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkalog import faults
from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.load.compact import Compacted, compact
from spark_kafkalog.load.formats import SCHEMA, ParquetFormat
from spark_kafkalog.load.layout.file_names import OFFSETS_FILE, file_name, load_name
from spark_kafkalog.load.layout.offsets_document import Offsets, PartitionOffsets
from spark_kafkalog.load.layout.staging import Staging
from spark_kafkalog.load.runner import ThreadRunner
from tests.spark_kafkalog.load.loading import Loading
from tests.spark_kafkalog.topics import T0_MS

HOUR = "date=2026-11-21/hour=18"
LOADS = 3


class KilledError(BaseException):
    """Stands for SIGKILL: nothing may catch it. What a dead process would not do is left undone by the test."""


def run(loading: Loading, topic: str, **more: Any) -> Compacted:
    return compact(loading.files, loading.path(topic), lambda: ThreadRunner(2), **more)


def fill(loading: Loading, stem: str, loads: int = 4, partitions: int = 2) -> tuple[str, dict[tuple[int, int], Any]]:
    """A topic with some loads of two hours each."""
    topic = loading.topics.create(stem, partitions)
    for load in range(loads):
        records = [
            {"value": b"%d-%d" % (load, index), "timestamp": T0_MS + (index % 2) * 3_600_000} for index in range(40)
        ]
        for partition in range(partitions):
            loading.topics.produce(topic, records, partition=partition)
        loading.load(topic, min_splits=2)
    return topic, loading.check(topic)


POINTS = ["merged", "committed", "sign-up", "hidden", "shown", "sign-down", "exchanged", "moved-away"]


def interrupted(
    loading: Loading, topic: str, at: str, count: int, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> bool:
    """Run a compaction that dies at the `count`-th time of a point; whether it came to it.

    What its process would have left undone: the staging directory stays, with a lease that nobody renews.
    """
    left = count

    def point(name: str) -> None:
        nonlocal left
        if name == f"compact-{at}":
            left -= 1
            if left == 0:
                raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(faults, "point", point)
        patched.setattr(Staging, "__exit__", lambda self, *_: self._ended.set())
        try:
            run(loading, topic, **more)
        except KilledError:
            return True
    return False


def publish_loads(topic_path: str, hours: Sequence[str] = (HOUR,)) -> None:
    """Put LOADS loads into a directory, with one row for each partition. Each hour has a partition of its own."""
    files = LocalFiles()
    topic = topic_path.rpartition("/")[2]
    for load in range(LOADS):
        place = f"{topic_path}/{load_name(load)}"
        for number, hour in enumerate(hours):
            files.make_directories(f"{place}/{hour}")
            buffer = io.BytesIO()
            writer = ParquetFormat(buffer)
            row = dict.fromkeys(SCHEMA.names) | {"value": b"%d" % load, "partition": number, "offset": load}
            writer.write(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
            writer.close()
            files.write(f"{place}/{hour}/{file_name(topic, number, load, load + 1, 'parquet')}", buffer.getvalue())
        ends = {number: PartitionOffsets(load, load + 1, 1) for number in range(len(hours))}
        document = Offsets(topic, "", load, load - 1 if load else None, "run", "now", "parquet", ends)
        files.write(f"{place}/{OFFSETS_FILE}", document.to_json().encode())
