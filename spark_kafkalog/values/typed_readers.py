"""Readers that decode what other readers return."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_kafkalog.compat.filters import takes_filters
from spark_kafkalog.compat.prefetched import RowsInPlanner

from .typed import Typed

_log = logging.getLogger(__name__)


def typed_batch_reader(
    make: Callable[[StructType], DataSourceReader], typed: Typed, schema: StructType
) -> DataSourceReader:
    """A reader of ``schema`` over one of binary values that ``make`` makes. OptionsError where they do not fit."""
    chosen = typed.chosen(schema)
    reader = make(chosen.binary_schema(schema))
    return (FilteringTypedBatchReader if takes_filters(reader) else TypedBatchReader)(reader, chosen, schema)


def typed_stream_reader(
    make: Callable[[StructType], DataSourceStreamReader], typed: Typed, schema: StructType
) -> DataSourceStreamReader:
    """The same for a stream."""
    chosen = typed.chosen(schema)
    return TypedStreamReader(make(chosen.binary_schema(schema)), chosen, schema)


class TypedBatchReader(DataSourceReader):
    """``reader`` reads ``typed.binary_schema(schema)``; this one returns ``schema``."""

    def __init__(self, reader: DataSourceReader, typed: Typed, schema: StructType) -> None:
        self._reader = reader
        self._typed = typed
        self._names = tuple(schema.names)

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return decoded(self._reader.read(partition), self._typed, self._names)


class FilteringTypedBatchReader(TypedBatchReader):
    """Hands filters on; those on values come back, for the reader below has no such columns."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        return self._reader.pushFilters(filters)


class TypedStreamReader(RowsInPlanner, SupportsTriggerAvailableNow):
    """The same for a stream; all but the records passes through."""

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
            except Exception as error:  # whatever a decoder raises: here it would end the query without a second try
                _log.info("a small batch is left to a task: %s", error)
                self.rows = None
        return partitions

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return decoded(self._reader.read(partition), self._typed, self._names)


def decoded(batches: Iterator[Any], typed: Typed, names: tuple[str, ...]) -> Iterator[Any]:
    """Record batches, their values decoded."""
    return (typed.batch(batch, names) for batch in batches)
