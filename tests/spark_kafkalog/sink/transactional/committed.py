"""Read as a read_committed consumer; run a micro-batch without Spark: its driver and its tasks, in Spark's order."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from spark_kafkalog.sink.message import TaskWrote
from spark_kafkalog.sink.stream_writer import KafkalogStreamWriter
from tests.spark_kafkalog.sink.support import DEADLINE_S, batch_of, columns
from tests.spark_kafkalog.topics import Topics
from tests.spark_kafkalog.without_spark import copied, make_source

VALUES = columns("value")
_prefixes = itertools.count()


def committed(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[bytes]:
    """Return values by partition and offset, up to the last stable offset."""
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


class Died(BaseException):
    """Stands in for SIGKILL: no `except Exception` catches it."""


class MicroBatch:
    """One micro-batch of a sink: claimed when it is made; tasks that write; committed or aborted.

    `query` is what Spark calls the query, which outlives its restarts.
    """

    def __init__(
        self, bootstrap: str, topic: str | None, prefix: str, batch: int, *, query: str = "query", **options: Any
    ) -> None:
        given = {"kafka.transactional.id": prefix, **({} if topic is None else {"topic": topic}), **options}
        self.bootstrap = bootstrap
        self._source = make_source(bootstrap, given)
        self._batch, self._query = batch, query
        self._schema = VALUES if topic else columns("value", "topic")
        self._handed: KafkalogStreamWriter = copied(self._writer())

    def _writer(self) -> KafkalogStreamWriter:
        writer = self._source.streamWriter(self._schema, False)
        assert isinstance(writer, KafkalogStreamWriter)
        return writer

    def task(self, values: Iterable[bytes], **columns: str) -> TaskWrote:
        """Run one task; return its report."""
        with in_task(self._query, self._batch):
            return self.task_of_unknown_batch(values, **columns)

    def task_of_unknown_batch(self, values: Iterable[bytes], **columns: str) -> TaskWrote:
        """Run one task with what PySpark's worker knows now."""
        rows = [{"value": value, **columns} for value in values]
        message: TaskWrote = copied(self._handed.write(iter([batch_of(self._schema, rows)])))
        return message

    def commit(self, *messages: WriterCommitMessage | None) -> None:
        self._writer().commit([copied(each) for each in messages], self._batch)

    def abort(self, *messages: WriterCommitMessage | None) -> None:
        self._writer().abort([copied(each) for each in messages], self._batch)


class Sink:
    """Micro-batches of one query to one topic."""

    def __init__(self, topics: Topics, topic: str | None, **options: Any) -> None:
        self._bootstrap, self._topic, self._options = topics.bootstrap, topic, options
        self.prefix = f"{topic or 'many'}-{next(_prefixes)}"

    def batch(self, number: int, *, query: str = "query", **options: Any) -> MicroBatch:
        given = {**self._options, **options}
        return MicroBatch(self._bootstrap, self._topic, self.prefix, number, query=query, **given)

    def seen(self) -> list[bytes]:
        """Return the committed values, up to the first transaction that is open."""
        assert self._topic is not None
        return sorted(committed(self._bootstrap, self._topic))

    def sent(self) -> list[bytes]:
        """Return all values in the log, committed or not."""
        assert self._topic is not None
        return sorted(committed(self._bootstrap, self._topic, isolation="read_uncommitted"))


@contextmanager
def in_task(query: str, batch: int) -> Iterator[None]:
    """Set what PySpark's worker knows about its task."""
    with with_properties({"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}):
        yield


@contextmanager
def with_properties(properties: dict[str, str]) -> Iterator[None]:
    """Return a task with these local properties."""
    context: Any = object.__new__(TaskContext)
    context._localProperties = properties
    TaskContext._taskContext = context
    try:
        yield
    finally:
        TaskContext._taskContext = None
