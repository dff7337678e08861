"""The data source `kafkalog`: makes the reader or writer of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from spark_kafkalog.columns import source_schema
from spark_kafkalog.offline.offline_options import OfflineOptions, is_offline, refuse_stream
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.values.option_names import are_given
from spark_kafkalog.values.registry_error import SchemaRegistryError

if TYPE_CHECKING:
    from spark_kafkalog.values.typed import Typed

_SOURCE_ONLY = ("subscribe", "subscribepattern", "assign")
"""Options that only sources have. Every source has one of them."""


def names_a_source(options: Mapping[str, str]) -> bool:
    """Return whether options name topics to read, and so belong to a source rather than a sink."""
    return any(name.lower() in _SOURCE_ONLY for name in options)


class KafkalogDataSource(DataSource):
    """The format `kafkalog` of `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`.

    The options are those of Spark's Kafka source (`spark_kafkalog.options`) and sink (`spark_kafkalog.sink`).
    PySpark makes one of these for every query it plans. The constructor checks a source's options, because there an
    error reaches the user unchanged. If no option says what to read, this may be a sink: then the options are checked
    on first use.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        reads_brokers = names_a_source(options) and not is_offline(options)
        self._parsed = SourceOptions.parse(options) if reads_brokers else None
        self._values: Typed | None = None

    @property
    def _source_options(self) -> SourceOptions:
        """The options of a source.

        Raises:
            OptionsError: They are not valid ones.
        """
        if self._parsed is None:
            self._parsed = SourceOptions.parse(self.options)
        return self._parsed

    @classmethod
    def name(cls) -> str:
        return "kafkalog"

    def _typed(self) -> Typed | None:
        """Return how values are decoded (`valueFormat`); None if they stay binary. Asks a schema registry once."""
        if self._values is None and are_given(self.options):
            from spark_kafkalog.values.value_types import typed_values

            self._values = typed_values(self.options, self._any_options.strategy)
        return self._values

    @property
    def _any_options(self) -> SourceOptions:
        return OfflineOptions.parse(self.options).source if is_offline(self.options) else self._source_options

    def schema(self) -> StructType:
        binary = source_schema(self._any_options.include_headers)
        typed = self._typed()
        return binary if typed is None else typed.schema(binary)

    def reader(self, schema: StructType) -> DataSourceReader:
        typed = self._typed()
        if typed is None:
            return self._binary_reader(schema)
        from spark_kafkalog.values.typed_readers import typed_batch_reader

        return typed_batch_reader(self._binary_reader, typed, schema)

    def _binary_reader(self, schema: StructType) -> DataSourceReader:
        if is_offline(self.options):
            from spark_kafkalog.offline.offline_reader import OfflineBatchReader

            return OfflineBatchReader(OfflineOptions.parse(self.options), schema)
        from spark_kafkalog.driver.batch_reader import FilteringBatchReader, KafkalogBatchReader

        make = FilteringBatchReader if self._source_options.filter_pushdown else KafkalogBatchReader
        return make(self._source_options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from spark_kafkalog.driver.stream_reader import KafkalogStreamReader

        try:
            refuse_stream(self.options)
            options = self._source_options
            typed = self._typed()
            if typed is None:
                return KafkalogStreamReader(options, schema)
            from spark_kafkalog.values.typed_readers import typed_stream_reader

            return typed_stream_reader(lambda binary: KafkalogStreamReader(options, binary), typed, schema)
        except (OptionsError, SchemaRegistryError) as error:
            # The planner's clean-up would hide an error that is raised here.
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_kafkalog.sink.batch_writer import KafkalogWriter

        return KafkalogWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from spark_kafkalog.sink.stream_writer import KafkalogStreamWriter

        return KafkalogStreamWriter(self.options, schema, overwrite)


class RefusedStreamReader(DataSourceStreamReader):
    """Stands in for a reader whose options are wrong: each call raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error
