"""A streaming query that is run to the end of what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tests.spark_kafkalog.sink.conftest import Writes

DEADLINE_S = 240


class Query:
    """A streaming query from a topic, run to the end of what is there, time after time."""

    def __init__(self, writes: Writes, checkpoint: Path, **options: Any) -> None:
        self._writes = writes
        self._options = {"checkpointLocation": str(checkpoint), **options}

    def drain(self, frame: DataFrame, mode: str = "append") -> None:
        """Run with Trigger.AvailableNow. Raises what it ended with."""
        writer = frame.writeStream.format("kafkalog").outputMode(mode).trigger(availableNow=True)
        writer = writer.option("kafka.bootstrap.servers", self._writes.bootstrap).options(**self._options)
        query = writer.start()
        try:
            assert query.awaitTermination(DEADLINE_S)
        finally:
            query.stop()
