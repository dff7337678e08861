"""The data source `kafkalog`: makes the reader or writer of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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

from spark_kafkalog import catalog_table, redaction
from spark_kafkalog.brief import brief
from spark_kafkalog.columns import has_metadata, source_schema
from spark_kafkalog.delegation.clusters import PREFIX
from spark_kafkalog.executor import jvm_socket
from spark_kafkalog.offline.offline_options import OfflineOptions, is_offline, refuse_stream
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.options.subscription import names_a_source
from spark_kafkalog.values.option_names import are_given
from spark_kafkalog.values.registry.registry_error import SchemaRegistryError

if TYPE_CHECKING:
    from spark_kafkalog.values.typed import Typed


class KafkalogDataSource(DataSource):
    """The format `kafkalog` of `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`.

    The options are those of Spark's Kafka source (`spark_kafkalog.options`) and sink (`spark_kafkalog.sink`).
    PySpark makes one of these for every query it plans. The constructor checks a source's options, because there an
    error reaches the user unchanged. If no option says what to read, this may be a sink: then the options are checked
    on first use. The options of a catalog table are checked when it is created (`catalog_table`).
    """

    @brief
    def __init__(self, options: dict[str, str]) -> None:
        created = catalog_table.created_with(options)
        self._is_new_table = created is not None
        options = options if created is None else created
        super().__init__(options)
        # Options of a catalog table are known only with its schema; the query may give some of its own.
        reads_brokers = names_a_source(options) and "kafka.bootstrap.servers" in options and not is_offline(options)
        self._parsed = SourceOptions.parse(options) if reads_brokers else None
        self._values: Typed | None = None
        self._is_planned = False
        """True if this process plans the query: what it pickles goes to executors, with the reader."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the login by which tokens are made. The planner finds it in the options or the application."""
        state = dict(self.__dict__)
        if self._parsed is not None and self._parsed.token_cluster is not None:
            state["_parsed"] = None
        if self._is_planned:
            state["options"] = {name: text for name, text in self.options.items() if not name.startswith(PREFIX)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state over. In a task this is the moment to acknowledge what the JVM has sent."""
        self.__dict__.update(state)
        jvm_socket.hurry()

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

    @brief
    def schema(self) -> StructType:
        if self._is_new_table:
            schema = self._table_schema()
            kept = self.options if self._values is None else self._values.kept(self.options)
            return catalog_table.with_options(schema, kept)
        return self._schema()

    def _schema(self) -> StructType:
        binary = source_schema(self._any_options.include_headers)
        typed = self._typed()
        return binary if typed is None else typed.schema(binary)

    def _table_schema(self) -> StructType:
        if names_a_source(self.options) or is_offline(self.options):
            return self._schema()
        # As with Spark's source, a table to write to need not name topics to read.
        from spark_kafkalog.sink.sink_options import SinkOptions

        SinkOptions.parse(self.options)
        return source_schema(include_headers=True)

    def _begin_to_plan(self, schema: StructType) -> None:
        """Begin to plan: add the options of the catalog table whose schema this is, if it is one."""
        self._is_planned = True
        options = catalog_table.for_reading(schema, self.options)
        if options != self.options:
            self.options, self._parsed, self._values = options, None, None

    @brief
    def reader(self, schema: StructType) -> DataSourceReader:
        self._begin_to_plan(schema)
        typed = self._typed()
        if typed is None:
            return self._binary_reader(schema)
        from spark_kafkalog.values.typed_readers import typed_batch_reader

        return typed_batch_reader(self._binary_reader, typed, schema)

    def _binary_reader(self, schema: StructType) -> DataSourceReader:
        if is_offline(self.options):
            from spark_kafkalog.offline.offline_reader import OfflineBatchReader

            return OfflineBatchReader(OfflineOptions.parse(self.options), schema)
        from spark_kafkalog.driver.batch_reader import batch_reader

        return batch_reader(self._source_options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from spark_kafkalog.driver.stream_reader import KafkalogStreamReader

        try:
            self._begin_to_plan(schema)
            refuse_stream(self.options)
            options = _tasks_only(self._source_options, schema)
            typed = self._typed()
            redaction.warn_about(self.options)
            if typed is None:
                return KafkalogStreamReader(options, schema)
            from spark_kafkalog.values.typed_readers import typed_stream_reader

            return typed_stream_reader(lambda binary: KafkalogStreamReader(options, binary), typed, schema)
        except (OptionsError, SchemaRegistryError) as error:
            # The planner's clean-up would hide an error that is raised here.
            return RefusedStreamReader(error)

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_kafkalog.sink.batch_writer import KafkalogWriter

        return KafkalogWriter(catalog_table.for_writing(schema, self.options), schema, overwrite)

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from spark_kafkalog.sink.stream_writer import KafkalogStreamWriter

        return KafkalogStreamWriter(catalog_table.for_streaming(self.options), schema)


def _tasks_only(options: SourceOptions, schema: StructType) -> SourceOptions:
    """Leave all micro-batches to tasks if a column has metadata, such as a comment or the options of a table.

    Spark refuses rows that come with a plan then: it compares schemas with their metadata, which these rows lack.
    """
    return replace(options, small_batch_bytes=0) if has_metadata(schema) else options


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
