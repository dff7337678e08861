"""Run the data source as Spark would, without a JVM: the same calls in the same order, pickled in between.

What Spark's own part does is checked here as PySpark checks it: readers, partitions and schemas go through pickle, the
schema of every batch is compared exactly, offsets travel as JSON text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import astuple
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.serializers import CPickleSerializer, SpecialLengths, read_int, write_with_length
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructField, StructType

from spark_kafkalog.columns import COLUMNS
from spark_kafkalog.driver.stream_reader import KafkalogStreamReader
from spark_kafkalog.source import KafkalogDataSource


def make_source(bootstrap: str, options: dict[str, Any]) -> KafkalogDataSource:
    """Return the data source with options as Spark passes them: text, names in lower case."""
    given = CaseInsensitiveDict({"kafka.bootstrap.servers": bootstrap})
    given.update(
        {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    )
    source: KafkalogDataSource = copied(KafkalogDataSource(given))  # type: ignore[arg-type]
    return source


def chosen(*columns: str) -> StructType:
    """Return the schema of some columns."""
    return StructType([StructField(name, COLUMNS[name]) for name in columns])


def copied(value: Any) -> Any:
    """Return a value as it arrives in another process."""
    return cloudpickle.loads(cloudpickle.dumps(value))


def read_partitions(
    reader: DataSourceReader | DataSourceStreamReader, partitions: Iterable[InputPartition], schema: StructType
) -> list[pa.RecordBatch]:
    """Return what executors return for these partitions."""
    expected = to_arrow_schema(schema, timezone="UTC")
    batches = []
    for partition in partitions:
        for batch in copied(reader).read(copied(partition)):
            assert expected.equals(batch.schema), f"{batch.schema} where {expected} is declared"
            batch.validate(full=True)
            batches.append(batch)
    return batches


class Batch:
    """Batch queries against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def batches(self, schema: StructType | None = None, /, **options: Any) -> list[pa.RecordBatch]:
        """Return the record batches of all tasks, in the order of the partitions."""
        source = make_source(self.bootstrap, options)
        wanted = source.schema() if schema is None else schema
        reader = copied(source).reader(wanted)
        return read_partitions(reader, reader.partitions() or [InputPartition(None)], wanted)

    def rows(self, schema: StructType | None = None, /, **options: Any) -> list[dict[str, Any]]:
        """Return the rows of all tasks."""
        return [row for batch in self.batches(schema, **options) for row in batch.to_pylist()]

    def values(self, **options: Any) -> list[bytes | None]:
        """Return the values, partition by partition."""
        return [row["value"] for row in self.rows(chosen("value"), **options)]

    def tasks(self, **options: Any) -> list[tuple[int, int, int]]:
        """Return partition, start and end of every task."""
        source = make_source(self.bootstrap, options)
        return [astuple(task)[1:4] for task in source.reader(source.schema()).partitions()]  # type: ignore[call-overload]


def planned(
    reader: DataSourceStreamReader, source: KafkalogDataSource, start: str, end: str
) -> tuple[list[InputPartition], list[pa.RecordBatch] | None]:
    """Return what PySpark's planner writes: the partitions of a batch, and its rows if the planner sends them."""
    asked, answer = io.BytesIO(), io.BytesIO()
    for text in (start, end):
        write_with_length(text.encode(), asked)
    asked.seek(0)
    runner.partitions_func(reader, source, source.schema(), 10_000, asked, answer)
    answer.seek(0)
    partitions = [CPickleSerializer()._read_with_length(answer) for _ in range(read_int(answer))]
    kind = read_int(answer)
    if kind == runner.NON_EMPTY_PYARROW_RECORD_BATCHES:
        assert read_int(answer) == SpecialLengths.START_ARROW_STREAM
        return partitions, list(ArrowStreamSerializer().load_stream(answer))
    return partitions, [] if kind == runner.EMPTY_PYARROW_RECORD_BATCHES else None


class Stream:
    """A streaming query, with the part of Spark that logs offsets and commits.

    `offset_log` has the text of every planned batch's end, as Spark's checkpoint does; `rows` what committed
    batches have read.
    """

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self.bootstrap = bootstrap
        self.options = options
        self.offset_log: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.batches_in_planner = 0
        """Batches whose rows came with the plan."""
        self._committed = 0
        self._planner: KafkalogStreamReader | None = None

    def start(self, *, available_now: bool = False) -> None:
        """Start the query, or start it again from its offset log; a batch that was planned only is done first."""
        self.stop()
        source = make_source(self.bootstrap, self.options)
        self._planner = copied(source).streamReader(source.schema())
        if self._committed < len(self.offset_log):
            self._run(self._start(), self.offset_log[-1])
        if available_now:
            self._planner.prepareForTriggerAvailableNow()

    def trigger(
        self, limit: ReadLimit | None = None, *, crash: bool = False, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """One trigger; whether it made a batch.

        `crash`: after the offsets were logged, before the batch was done. `meanwhile`: what happens after the query
        has got its start.
        """
        planner = self._planner
        assert planner is not None
        start = self._start()
        meanwhile()
        asked = planner.getDefaultReadLimit() if limit is None else limit
        end = json.dumps(planner.latestOffset(json.loads(start), asked))
        if self.offset_log and end == self.offset_log[-1]:
            return False
        if self.offset_log:
            # Spark tells of a batch's end only when the next one is planned.
            planner.commit(json.loads(self.offset_log[-1]))
        self.offset_log.append(end)
        if crash:
            self.crash()
        else:
            self._run(start, end)
        return True

    def drain(self) -> int:
        """Run Trigger.AvailableNow; return the number of batches."""
        self.start(available_now=True)
        count = 0
        while self.trigger():
            count += 1
        self.stop()
        return count

    def crash(self) -> None:
        """Kill the planner."""
        self._planner = None

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.stop()
            self._planner = None

    def values(self) -> list[bytes | None]:
        """Return the read values, ordered by partition and offset."""
        ordered = sorted(self.rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
        return [row["value"] for row in ordered]

    def _start(self) -> str:
        assert self._planner is not None
        if self._committed:
            return self.offset_log[self._committed - 1]
        return json.dumps(self._planner.initialOffset())

    def _run(self, start: str, end: str) -> None:
        planner = self._planner
        assert planner is not None
        source = make_source(self.bootstrap, self.options)
        partitions, sent = planned(planner, source, start, end)
        executors = copied(source).streamReader(source.schema())
        batches = read_partitions(executors, partitions, source.schema())
        rows = [row for batch in batches for row in batch.to_pylist()]
        if sent is not None:
            self.batches_in_planner += 1
            assert [row for batch in sent for row in batch.to_pylist()] == rows, "the JVM may take either"
        self.rows += rows
        self._committed = len(self.offset_log)


def everything() -> ReadLimit:
    """Return the limit of Trigger.Once."""
    return ReadAllAvailable()
