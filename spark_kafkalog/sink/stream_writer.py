"""The streaming writer: `df.writeStream.format("kafkalog").start()`."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_kafkalog.brief import brief
from spark_kafkalog.sink.message import tell
from spark_kafkalog.sink.query_writer import QueryWriter
from spark_kafkalog.sink.sink_columns import SinkColumns
from spark_kafkalog.sink.sink_options import SinkOptions


class KafkalogStreamWriter(QueryWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch. PySpark makes one to write it and another to commit it. Checks as `KafkalogWriter`.

    With the output mode `complete` Spark hands over the whole result each time, and asks to replace what is there. All
    rows are added to the topic, as by Spark's own sink (`KafkaTable` takes a truncation for nothing).
    """

    _streaming = True

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions.parse(options)
        self._columns = SinkColumns.of(schema, self._options.topic)

    @brief
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the tasks' transactions. Without the transactional mode, rows are in their topics already."""
        self._commit(messages, batchId, f"batch {batchId}")

    @brief
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort the tasks' transactions. Without the transactional mode, rows stay, and the batch writes them again."""
        if not self._abort(messages):
            tell(logging.WARNING, f"batch {batchId} failed, but finished tasks have written %s", messages)
