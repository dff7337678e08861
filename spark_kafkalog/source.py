"""The data source ``kafkalog`` and its batch reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkalog.client.types import TopicPartition

from . import offsets
from .options import SourceOptions
from .schema import columns_of, source_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from .stream import KafkalogStreamReader


@dataclass
class RangePartition(InputPartition):
    """One task: offsets [start, end) of a partition, of the topic with this mark (``offsets.topic_mark``)."""

    topic: str
    partition: int
    start: int
    end: int
    topic_mark: int | None = None


def tasks(
    ranges: Sequence[offsets.OffsetRange], topics: Mapping[str, int], options: SourceOptions
) -> list[RangePartition]:
    """Ranges cut as ``minPartitions`` and ``maxRecordsPerPartition`` ask for; ``topics`` has the topics' marks."""
    cut = offsets.split(ranges, options.min_partitions, options.max_records_per_partition)
    return [
        RangePartition(each.tp.topic, each.tp.partition, each.start, each.end, topics.get(each.tp.topic))
        for each in cut
    ]


def read_task(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Record batches of a task, on an executor."""
    if not isinstance(partition, RangePartition):
        # What PySpark makes of an empty list of partitions.
        return iter(())
    from .reader import read_range

    return read_range(
        TopicPartition(partition.topic, partition.partition),
        partition.start,
        partition.end,
        options,
        columns_of(schema),
        topic=partition.topic_mark,
    )


class KafkalogDataSource(DataSource):
    """``spark.read.format("kafkalog")`` and ``spark.readStream.format("kafkalog")``.

    The options are those of Spark's Kafka source (``spark_kafkalog.options``). PySpark makes one of these for every
    query it plans, so options are checked here, where an error reaches the user as it is.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "kafkalog"

    def schema(self) -> StructType:
        return source_schema(self._parsed.include_headers)

    def reader(self, schema: StructType) -> KafkalogBatchReader:
        return KafkalogBatchReader(self._parsed, schema)

    def streamReader(self, schema: StructType) -> KafkalogStreamReader:  # noqa: N802
        from .stream import KafkalogStreamReader

        return KafkalogStreamReader(self._parsed, schema)


class KafkalogBatchReader(DataSourceReader):
    """A batch query: its offsets are fixed when it is planned, so that all actions on a DataFrame see the same rows."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        columns_of(schema)
        self._starting, self._ending = options.batch_limits()

    def partitions(self) -> Sequence[InputPartition]:
        from .discovery import Discovery

        discovery = Discovery(self._options)
        try:
            assigned, topics = discovery.assigned()
            starts = offsets.resolve(self._starting, assigned, discovery.lookup, starting=True)
            ends = offsets.resolve(self._ending, assigned, discovery.lookup, starting=False)
        finally:
            discovery.close()
        return tasks(offsets.batch_ranges(starts, ends), topics, self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(partition, self._options, self._schema)
