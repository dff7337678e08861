"""Readers that decode the values that other readers return."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_kafkalog.brief import brief_rows
from spark_kafkalog.compat.streams.prefetched import RowsInPlanner
from spark_kafkalog.values.typed import Typed

logger = logging.getLogger(__name__)


def typed_batch_reader(
    make: Callable[[StructType], DataSourceReader], typed: Typed, schema: StructType
) -> DataSourceReader:
    """Make a reader of `schema` over the binary reader from `make`.

    Raises:
        OptionsError: They do not fit.
    """
    chosen = typed.chosen(schema)
    reader = make(chosen.binary_schema(schema))
    return (FilteringTypedBatchReader if takes_filters(reader) else TypedBatchReader)(reader, chosen, schema)


def typed_stream_reader(
    make: Callable[[StructType], DataSourceStreamReader], typed: Typed, schema: StructType
) -> DataSourceStreamReader:
    """Make the reader of a stream, as `typed_batch_reader` does for a batch."""
    chosen = typed.chosen(schema)
    return TypedStreamReader(make(chosen.binary_schema(schema)), chosen, schema)


def takes_filters(reader: DataSourceReader) -> bool:
    """Return whether PySpark pushes filters to this reader. It refuses such a reader if the setting is off.

    It pushes them to a reader whose `pushFilters` differs from the base class's.
    """
    return getattr(type(reader), "pushFilters", None) is not getattr(DataSourceReader, "pushFilters", None)


class TypedBatchReader(DataSourceReader):
    """Returns rows of `schema`; `reader` reads `typed.binary_schema(schema)`."""

    def __init__(self, reader: DataSourceReader, typed: Typed, schema: StructType) -> None:
        self._reader = reader
        self._typed = typed
        self._names = tuple(schema.names)

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return brief_rows(decoded(self._reader.read(partition), self._typed, self._names))


class FilteringTypedBatchReader(TypedBatchReader):
    """Passes filters on. Filters on values come back, because the underlying reader has no such columns."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        return self._reader.pushFilters(filters)


class TypedStreamReader(RowsInPlanner, SupportsTriggerAvailableNow):
    """Decodes the values of a stream; everything else passes through."""

    def __init__(self, reader: Any, typed: Typed, schema: StructType) -> None:
        self._reader = reader
        self._typed = typed
        self._names = tuple(schema.names)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit: ReadLimit = self._reader.getDefaultReadLimit()
        return limit

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._reader.prepareForTriggerAvailableNow()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        offset: dict[str, Any] = self._reader.initialOffset()
        return offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        offset: dict[str, Any] = self._reader.latestOffset(start, limit)
        return offset

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        offset: dict[str, Any] | None = self._reader.reportLatestOffset()
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        partitions: Sequence[InputPartition] = self._reader.partitions(start, end)
        self.rows, self._reader.rows = self._reader.rows, None
        if self.rows is not None:
            try:
                self.rows = list(decoded(iter(self.rows), self._typed, self._names))
            except Exception as error:  # any error of a decoder would end the query here, without a retry
                logger.info("a small batch is left to a task: %s", error)
                self.rows = None
        return partitions

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return brief_rows(decoded(self._reader.read(partition), self._typed, self._names))


def decoded(batches: Iterator[Any], typed: Typed, names: tuple[str, ...]) -> Iterator[Any]:
    """Decode the values of the record batches of one task, or of a micro-batch that the planner reads."""
    typed.begin()
    return (typed.batch(batch, names) for batch in batches)
