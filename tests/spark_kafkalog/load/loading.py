"""Run loads as the tests need them, and read what they have published."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog.records.checksum import crc32c
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.fs.opening import open_files
from spark_kafkalog.load import job
from spark_kafkalog.load.layout import published
from spark_kafkalog.load.layout.file_names import LONGEST_TOPIC, load_name, parse_file_name
from spark_kafkalog.load.layout.offsets_document import Offsets
from spark_kafkalog.load.load_options import LoadOptions
from spark_kafkalog.load.runner import ThreadRunner
from tests.spark_kafkalog.topics import Topics

Where = tuple[int, int]
"""A partition and an offset."""


class Loading:
    """Loads of topics into one target, without Spark."""

    def __init__(self, topics: Topics, target: str) -> None:
        self.topics = topics
        self.target = target
        self.files, self.root = open_files(target)

    def options(self, *names: str, **more: Any) -> LoadOptions:
        return LoadOptions(self.topics.bootstrap, names, self.target, **more)

    def load(self, topic: str, **more: Any) -> job.Loaded:
        return job.load_topic(self.options(topic, **more), topic, lambda: ThreadRunner(2))

    def path(self, topic: str) -> str:
        return job.topic_path(self.root, topic)

    def history(self, topic: str) -> list[Offsets]:
        return published.history(self.files, self.path(topic))

    def names(self, topic: str) -> list[str]:
        """Return the names in the topic's directory."""
        return [each.name for each in self.files.list(self.path(topic))]

    def rows(self, topic: str) -> dict[Where, bytes | None]:
        """Return the rows of the published files.

        Raises:
            AssertionError: A row is there twice.
        """
        return rows_of(self.files, self.path(topic))

    def check(self, topic: str) -> dict[Where, bytes | None]:
        """Check that loads have no gap or overlap, and that their documents match the files."""
        ends: dict[int, int] = {}
        for document in self.history(topic):
            for number, part in document.partitions.items():
                if not document.restarted:
                    assert part.start == ends.get(number, part.start), f"load {document.load} leaves a gap"
                ends[number] = part.end
            check_files(self.files, f"{self.path(topic)}/{load_name(document.load)}", document)
        return self.rows(topic)


def data_files(files: Files, path: str) -> list[str]:
    """Return the data files below a directory, as readers list them: without names that begin with _ or a dot."""
    found = []
    for each in files.list(path):
        if each.name.startswith(("_", ".")):
            continue
        below = f"{path}/{each.name}"
        found += data_files(files, below) if each.is_directory else [below]
    return found


def read_table(files: Files, path: str) -> pa.Table:
    return pq.read_table(io.BytesIO(files.read(path)))


def rows_of(files: Files, path: str) -> dict[Where, bytes | None]:
    """Return the values of all Parquet files below a path, by partition and offset."""
    found: dict[Where, bytes | None] = {}
    for file in data_files(files, path):
        columns = read_table(files, file).to_pydict()
        for partition, offset, value in zip(columns["partition"], columns["offset"], columns["value"], strict=True):
            assert (partition, offset) not in found, f"{partition} {offset} is there twice"
            found[partition, offset] = value
    return found


def check_files(files: Files, load_path: str, document: Offsets) -> None:
    """Check that a load's files are those that its document names."""
    rows: Counter[int] = Counter()
    assert {f"{load_path}/{file.path}" for file in document.files} == set(data_files(files, load_path))
    for file in document.files:
        data = files.read(f"{load_path}/{file.path}")
        assert (len(data), f"{crc32c(data):08x}") == (file.bytes, file.crc32c)
        table = pq.read_table(io.BytesIO(data))
        offsets = table["offset"].to_pylist()
        assert offsets == sorted(set(offsets))
        assert (len(offsets), offsets[0], offsets[-1]) == (file.rows, file.first_offset, file.last_offset)
        named = parse_file_name(file.path.rpartition("/")[2])
        assert named == (document.topic[:LONGEST_TOPIC], file.partition, offsets[0], offsets[-1] + 1)
        part = document.partitions[file.partition]
        assert part.start <= offsets[0]
        assert offsets[-1] < part.end
        rows[file.partition] += len(offsets)
    assert {number: part.rows for number, part in document.partitions.items()} == {
        number: rows[number] for number in document.partitions
    }
    assert document.rows == json.loads(document.to_json())["rows"] == rows.total()


def expected(sent: list[Any]) -> dict[Where, bytes | None]:
    """Return the records that `Topics.produce` has stored."""
    return {(each.partition, each.offset): each.value for each in sent}
