"""The streaming writer: ``df.writeStream.format("kafkalog").start()``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_kafkalog.options import OptionsError

from .message import tell
from .options import SinkOptions
from .schema import SinkColumns

if TYPE_CHECKING:
    import pyarrow as pa


class KafkalogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch's: PySpark makes another for each, and yet another to commit it. Checks as `KafkalogWriter`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionsError(
                "kafkalog does not support Complete mode: each micro-batch would have to replace what is in the topic. "
                "Use outputMode('append')."
            )
        self._options = SinkOptions.parse(options)
        self._columns = SinkColumns.of(schema, self._options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from .task import write_rows

        return write_rows(iterator, self._options, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing but a word in the log: rows are in their topics as soon as a task has written them."""
        tell(logging.INFO, f"batch {batchId} wrote %s", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was written stays, and is written again when Spark repeats the batch."""
        tell(logging.WARNING, f"batch {batchId} failed, but finished tasks have written %s", messages)
