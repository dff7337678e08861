"""What a read_committed consumer sees, and a sink's processes without Spark: driver and tasks, in the order of Spark's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql.datasource import WriterCommitMessage

from spark_kafkalog.sink.message import TaskWrote
from spark_kafkalog.sink.stream import KafkalogStreamWriter
from tests.spark.sink.support import DEADLINE_S, batch_of, columns
from tests.spark.without_spark import copied, make_source

VALUES = columns("value")


def committed(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[bytes]:
    """Values by partition and offset, up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        left = set(known)
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        found = []
        deadline = time.monotonic() + DEADLINE_S
        while left:
            assert time.monotonic() < deadline, f"{topic}: the end of {left} does not come"
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(partition)
                else:
                    assert value is not None
                    found.append((partition, offset, value))
    finally:
        consumer.close()
    return [value for *_, value in sorted(found, key=lambda each: each[:2])]


class MicroBatch:
    """One micro-batch of a sink: claimed when it is made; tasks that write; committed or aborted."""

    def __init__(self, bootstrap: str, topic: str, prefix: str, **options: Any) -> None:
        given = {"topic": topic, "kafka.transactional.id": prefix, **options}
        self._source = make_source(bootstrap, given)
        self._handed: KafkalogStreamWriter = copied(self._writer())

    def _writer(self) -> KafkalogStreamWriter:
        writer = self._source.streamWriter(VALUES, False)
        assert isinstance(writer, KafkalogStreamWriter)
        return writer

    def task(self, values: Iterable[bytes]) -> TaskWrote:
        """Run one task; what it reports."""
        batch: pa.RecordBatch = batch_of(VALUES, [{"value": value} for value in values])
        message: TaskWrote = copied(self._handed.write(iter([batch])))
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        self._writer().commit(list(messages), batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        self._writer().abort(list(messages), batch)
