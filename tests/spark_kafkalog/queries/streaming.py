"""A sink of streaming queries, and waiting for what they do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafkalog.columns import source_schema
from tests.spark_kafkalog.topics import values_of

DEADLINE_S = 240


def wait_for(condition: Callable[[], bool], what: str, query: StreamingQuery | None = None) -> None:
    """Wait for a condition; the exception of a query that ended is raised instead."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if query is not None and (error := query.exception()) is not None:
            raise error
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.05)


class Sink:
    """A Parquet directory and a checkpoint, which queries that follow each other share."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self.output = directory / "out"
        self.checkpoint = directory / "checkpoint"

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start(str(self.output))

    def drain(self, frame: DataFrame) -> list[dict[str, Any]]:
        """Run with Trigger.AvailableNow to its end; the progress of its batches."""
        query = self.start(frame, availableNow=True)
        try:
            assert query.awaitTermination(DEADLINE_S)
            return [json.loads(each.json) for each in query.recentProgress]
        finally:
            query.stop()

    def values(self) -> list[bytes | None]:
        if not (self.output / "_spark_metadata").exists():
            return []
        # A sink that has committed empty batches only has no file to take a schema from.
        frame = self._spark.read.schema(source_schema(False)).parquet(str(self.output))
        return values_of(frame.select("partition", "offset", "value").collect())

    def offsets(self) -> list[dict[str, Any]]:
        """Offsets of the source in Spark's offset log, a batch each."""
        files = sorted(
            (int(file.name), file) for file in (self.checkpoint / "offsets").iterdir() if file.name.isdigit()
        )
        return [json.loads(file.read_text().splitlines()[2]) for _, file in files]
