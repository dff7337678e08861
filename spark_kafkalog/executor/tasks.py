"""Tasks: the partitions that the driver plans and PySpark sends to executors, and how an executor reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

    from kafkalog.client.admin.security.delegation_tokens import DelegationToken


@dataclass
class RangePartition(InputPartition):
    """One task: offsets [start, end) of a partition, of the topic with this mark (`offsets.topic_mark`)."""

    topic: str
    partition: int
    start: int
    end: int
    topic_mark: str | None = None
    token: DelegationToken | None = field(default=None, repr=False)
    """The token to log in by. It goes with each task, for that of a later micro-batch may be another one."""


@dataclass
class SmallBatch(InputPartition):
    """One task for all ranges of a micro-batch that the planner has read (`driver.small_batches`)."""

    ranges: list[RangePartition]


def tasks(
    ranges: Sequence[offsets.OffsetRange],
    topics: Mapping[str, str],
    options: SourceOptions,
    measure: Measure | None = None,
) -> list[RangePartition]:
    """Cut ranges into tasks as `minPartitions` and `max…PerPartition` say; `topics` has the topics' marks."""
    cut = split(
        ranges, options.min_partitions, options.max_records_per_partition, options.max_bytes_per_partition, measure
    )
    token = options.token()
    return [
        RangePartition(each.tp.topic, each.tp.partition, each.start, each.end, topics.get(each.tp.topic), token)
        for each in cut
    ]


def read_task(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Read the record batches of a task, on an executor."""
    if isinstance(partition, SmallBatch):
        return (batch for each in partition.ranges for batch in read_task(each, options, schema))
    if not isinstance(partition, RangePartition):
        # PySpark makes such a partition of an empty list.
        return iter(())
    from spark_kafkalog.executor.range_reader import read_range

    return read_range(
        TopicPartition(partition.topic, partition.partition),
        partition.start,
        partition.end,
        options.with_token(partition.token),
        columns_of(schema),
        topic=partition.topic_mark,
    )
