"""The batch writer: `df.write.format("kafkalog").mode("append").save()`."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_kafkalog.brief import brief
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.sink.message import tell
from spark_kafkalog.sink.query_writer import QueryWriter
from spark_kafkalog.sink.sink_columns import SinkColumns
from spark_kafkalog.sink.sink_options import SinkOptions


class KafkalogWriter(QueryWriter, DataSourceArrowWriter):
    """Writes a batch query.

    Raises:
        OptionsError: An option or a column is wrong. This is found while Spark plans the query.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionsError(
                "Save mode Overwrite not allowed for kafkalog: rows are only ever added to a topic. "
                "The allowed save mode is Append."
            )
        self._options = SinkOptions.parse(options)
        self._columns = SinkColumns.of(schema, self._options.topic)

    @brief
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the tasks' transactions. Without the transactional mode, rows are in their topics already."""
        self._commit(messages, self._options.batch_id, "the query")

    @brief
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the tasks' transactions. Without the transactional mode, rows stay: a log cannot take them back."""
        if not self._abort(messages):
            tell(logging.WARNING, "the query failed, but finished tasks have written %s", messages)
