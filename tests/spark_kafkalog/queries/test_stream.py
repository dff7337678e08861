"""Tests of streaming queries in Spark; test_streaming has more, without a JVM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.queries.streaming import DEADLINE_S, Sink, wait_for
from tests.spark_kafkalog.topics import Topics, numbers


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Iterator[Sink]:
    yield Sink(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()


def test_available_now_reads_what_is_there_and_no_more_than_once(reads: Reads, topics: Topics, sink: Sink) -> None:
    topic = topics.create("now", 3)
    topics.produce(topic, numbers(100))
    frame = reads.stream(subscribe=topic, startingOffsets="earliest")
    sink.drain(frame)
    assert sorted(sink.values()) == sorted(numbers(100))  # type: ignore[type-var]
    topics.produce(topic, numbers(50, 100))
    sink.drain(frame)
    assert sorted(sink.values()) == sorted(numbers(150))  # type: ignore[type-var]
    batches = len(sink.offsets())
    assert all(each["numInputRows"] == 0 for each in sink.drain(frame))
    assert len(sink.offsets()) == batches, "nothing new makes no batch"


def test_available_now_keeps_the_rate_limit(reads: Reads, topics: Topics, sink: Sink) -> None:
    topic = topics.create("limited", 2)
    topics.produce(topic, numbers(80), partition=0)
    topics.produce(topic, numbers(20, 80), partition=1)
    progress = sink.drain(reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=25))
    assert sink.values() == numbers(100)
    assert [each["numInputRows"] for each in progress] == [25, 25, 25, 25]
    assert progress[0]["sources"][0]["endOffset"][topic] == {"0": 20, "1": 5}
    assert progress[-1]["sources"][0]["latestOffset"] == {topic: {"0": 80, "1": 20}}


def test_restart_from_a_checkpoint(reads: Reads, topics: Topics, sink: Sink) -> None:
    """startingOffsets counts only once; what came while no query ran is read by the next."""
    topic = topics.create("restart", 2)
    topics.produce(topic, numbers(10), partition=0)
    frame = reads.stream(subscribe=topic, startingOffsets="latest")
    query = sink.start(frame, processingTime="50 milliseconds")
    wait_for(lambda: query.lastProgress is not None, "the first batch", query)
    topics.produce(topic, numbers(10, 10), partition=0)
    wait_for(lambda: sink.values() == numbers(10, 10), "reading what came after the start", query)
    query.stop()
    topics.produce(topic, numbers(10, 20), partition=0)
    topics.produce(topic, numbers(10, 30), partition=1)
    query = sink.start(frame, processingTime="50 milliseconds")
    wait_for(lambda: len(sink.values()) == 30, "reading what came in between", query)
    query.stop()
    assert sink.values() == numbers(30, 10)


def test_only_chosen_columns(reads: Reads, topics: Topics, spark: SparkSession) -> None:
    """A schema chooses what a stream's tasks build, as in batch queries."""
    topic = topics.create("chosen")
    topics.produce(topic, [{"key": b"k", "value": value} for value in numbers(5)])
    frame = reads.stream("offset BIGINT, value BINARY", subscribe=topic, startingOffsets="earliest")
    assert frame.columns == ["offset", "value"]
    query = frame.writeStream.format("memory").queryName("chosen").trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_S)
    rows = spark.table("chosen").orderBy("offset").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == list(enumerate(numbers(5)))


def test_a_deleted_topic_is_a_loss(reads: Reads, topics: Topics, sink: Sink) -> None:
    stem = topics.name("deleted")
    for name in "ab":
        topics.create_named(f"{stem}-{name}")
        topics.produce(f"{stem}-{name}", numbers(3))
    options = {"subscribePattern": f"{stem}.*", "startingOffsets": "earliest"}
    sink.drain(reads.stream(**options))
    topics.delete(f"{stem}-a")
    topics.produce(f"{stem}-b", numbers(2, 3))
    with pytest.raises(StreamingQueryException, match=r"KAFKA_DATA_LOSS\.PARTITIONS_DELETED"):
        sink.drain(reads.stream(**options))
    sink.drain(reads.stream(**options, failOnDataLoss=False))
    assert len(sink.values()) == 8


def test_a_broker_that_dies_and_comes_back(spark: SparkSession, start_broker: Any, sink: Sink) -> None:
    """Neither the planner nor the tasks fail while the broker is away: that is waited out."""
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create("back", 2)
    topics.produce(topic, numbers(100), partition=0)
    frame = Reads(spark, broker.bootstrap).stream(subscribe=topic, startingOffsets="earliest")
    query = sink.start(frame, processingTime="50 milliseconds")
    wait_for(lambda: len(sink.values()) == 100, "reading", query)
    broker.kill()
    time.sleep(0.5)
    assert query.isActive
    broker.start()
    topics.produce(topic, numbers(100, 100), partition=1)
    wait_for(lambda: len(sink.values()) == 200, "reading on", query)
    query.stop()
    assert sink.values() == numbers(200)
