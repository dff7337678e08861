"""The batch writer: ``df.write.format("kafkalog").mode("append").save()``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_kafkalog.options import OptionsError

from .message import tell
from .options import SinkOptions
from .schema import SinkColumns

if TYPE_CHECKING:
    import pyarrow as pa


class KafkalogWriter(DataSourceArrowWriter):
    """A batch query's. Options and columns are checked here, while Spark plans the query; OptionsError."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionsError(
                "Save mode Overwrite not allowed for kafkalog: rows are only ever added to a topic. "
                "The allowed save mode is Append."
            )
        self._options = SinkOptions.parse(options)
        self._columns = SinkColumns.of(schema, self._options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from .task import write_rows

        return write_rows(iterator, self._options, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing but a word in the log: rows are in their topics as soon as a task has written them."""
        tell(logging.INFO, "wrote %s", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was written stays: a log has no way to take it back."""
        tell(logging.WARNING, "the query failed, but finished tasks have written %s", messages)
