"""Run the sink as Spark would, without a JVM, and read topics back with librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from spark_kafkalog.sink.message import TaskWrote
from tests.spark_kafkalog.without_spark import copied, make_source

DEADLINE_S = 240.0


class Record(NamedTuple):
    """A record as a foreign consumer reads it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


def consume(bootstrap: str, topic: str) -> list[Record]:
    """Read all records of a topic, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-back",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=DEADLINE_S)
            for number in known
        }
        left = {number for number, (low, high) in ends.items() if high > low}
        consumer.assign([TopicPartition(topic, number, ends[number][0]) for number in left])
        found = []
        deadline = time.monotonic() + DEADLINE_S
        while left:
            assert time.monotonic() < deadline, f"{topic}: nothing more comes of {left}"
            for message in consumer.consume(10_000, 0.2):
                assert message.error() is None
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                headers: Any = message.headers() or []
                found.append(
                    Record(partition, offset, message.key(), message.value(), list(headers), message.timestamp()[1])
                )
                if offset + 1 >= ends[partition][1]:
                    left.discard(partition)
    finally:
        consumer.close()
    return sorted(found)


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": HEADERS,
}


def columns(*names: str, **others: DataType) -> StructType:
    """Return a schema of columns with their usual types, or with others."""
    kinds = {name: TYPES[name] for name in names} | others
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


class Tasks:
    """Write rows as Spark's tasks would: the writer is pickled, and rows are Arrow batches."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def writer(self, schema: StructType, **options: Any) -> DataSourceWriter:
        """Return the writer as it arrives on an executor."""
        writer: DataSourceWriter = copied(make_source(self.bootstrap, options).writer(schema, False))
        return writer

    def write(self, schema: StructType, batches: Iterable[pa.RecordBatch], **options: Any) -> TaskWrote:
        """Run one task; return its report."""
        message: WriterCommitMessage = copied(self.writer(schema, **options).write(iter(batches)))
        assert isinstance(message, TaskWrote)
        return message


def batch_of(schema: StructType, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return an Arrow batch of rows, as Spark makes it."""
    return pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema))
