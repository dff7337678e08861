"""A source with nothing behind it: what PySpark lets any data source written in Python reach.

Its tasks hand over one Arrow record batch of the Kafka source's columns again and again, until the rows asked for are
handed over. It reads nothing, decodes nothing, and builds the batch once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
BATCH_BYTES = 2 << 20
"""The bytes that kafkalog's source hands over at a time."""


@dataclass
class Share(InputPartition):
    """The rows of one task."""

    partition: int
    rows: int


def _batch(columns: Sequence[str], size: int) -> pa.RecordBatch:
    rows = max(BATCH_BYTES // (size + 10), 1)
    made = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([b"x" * size] * rows, pa.binary()),
        "topic": pa.array(["ceiling"] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * rows, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_pydict({name: made[name] for name in columns})


class _Reader:
    def __init__(self, options: Mapping[str, str], columns: list[str]) -> None:
        self._records, self._partitions = int(options["records"]), int(options["partitions"])
        self._size = int(options["size"])
        self._columns = columns

    def shares(self) -> list[InputPartition]:
        whole, rest = divmod(self._records, self._partitions)
        return [Share(index, whole + (index < rest)) for index in range(self._partitions)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._columns, self._size)
        left = partition.rows
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


class _BatchReader(_Reader, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return self.shares()


class _StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All rows are there from the start; the offset says whether they were handed over."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return {"rows": self._records}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: no more rows will come."""

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"rows": self._records}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self.shares()

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: there is nothing to keep."""


class Ceiling(DataSource):
    """`format("ceiling")`, with the options records, partitions and size."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _BatchReader(self.options, schema.fieldNames())

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _StreamReader(self.options, schema.fieldNames())
