"""Tasks: what the driver plans, as the partitions that PySpark takes to the executors, and their reading there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets
from spark_kafkalog.columns import columns_of
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.plan.splitting import Measure, split

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangePartition(InputPartition):
    """One task: offsets [start, end) of a partition, of the topic with this mark (``offsets.topic_mark``)."""

    topic: str
    partition: int
    start: int
    end: int
    topic_mark: str | None = None


@dataclass
class SmallBatch(InputPartition):
    """One task for all ranges of a micro-batch whose rows the planner has read (``driver.small_batches``)."""

    ranges: list[RangePartition]


def tasks(
    ranges: Sequence[offsets.OffsetRange],
    topics: Mapping[str, str],
    options: SourceOptions,
    measure: Measure | None = None,
) -> list[RangePartition]:
    """Ranges cut as ``minPartitions`` and ``max…PerPartition`` ask for; ``topics`` has the topics' marks."""
    cut = split(
        ranges, options.min_partitions, options.max_records_per_partition, options.max_bytes_per_partition, measure
    )
    return [
        RangePartition(each.tp.topic, each.tp.partition, each.start, each.end, topics.get(each.tp.topic))
        for each in cut
    ]


def read_task(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Record batches of a task, on an executor."""
    if isinstance(partition, SmallBatch):
        return (batch for each in partition.ranges for batch in read_task(each, options, schema))
    if not isinstance(partition, RangePartition):
        # What PySpark makes of an empty list of partitions.
        return iter(())
    from .range_reader import read_range

    return read_range(
        TopicPartition(partition.topic, partition.partition),
        partition.start,
        partition.end,
        options,
        columns_of(schema),
        topic=partition.topic_mark,
    )
