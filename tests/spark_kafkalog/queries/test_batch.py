"""Tests of batch queries in Spark; test_reading has more detail of what they read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.topics import T0_MS, Topics, numbers, values_of


def test_every_column(reads: Reads, topics: Topics) -> None:
    topic = topics.create("spark-columns", 2)
    records = [
        {"key": b"k", "value": b"v", "timestamp": T0_MS + 1, "headers": [("a", b"1"), ("b", None)]},
        {"key": None, "value": None, "timestamp": T0_MS + 2},
    ]
    topics.produce(topic, records, partition=1)
    first, second = reads.batch(subscribe=topic, includeHeaders=True).orderBy("offset").collect()
    assert first.asDict(recursive=True) == {
        "key": bytearray(b"k"),
        "value": bytearray(b"v"),
        "topic": topic,
        "partition": 1,
        "offset": 0,
        # PySpark gives local times.
        "timestamp": datetime.fromtimestamp((T0_MS + 1) / 1000),
        "timestampType": 0,
        "headers": [{"key": "a", "value": bytearray(b"1")}, {"key": "b", "value": None}],
    }
    assert (second.key, second.value, second.headers) == (None, None, None)
    late = {"startingTimestamp": T0_MS + 2, "startingOffsetsByTimestampStrategy": "latest"}
    (row,) = reads.batch(subscribe=topic, **late).selectExpr("date_format(timestamp, 'yyyy SSS')").collect()
    assert row[0] == f"{datetime.fromtimestamp(T0_MS / 1000, UTC).year} 002"


def test_an_empty_topic(reads: Reads, topics: Topics) -> None:
    frame = reads.batch(subscribe=topics.create("empty"))
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert frame.collect() == []


def test_only_chosen_columns(reads: Reads, topics: Topics) -> None:
    topic = topics.create("spark-pruned")
    topics.produce(topic, [{"value": b"x", "headers": [("h", b"1")]}])
    schema = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, value BINARY, offset BIGINT"
    assert [row.asDict(recursive=True) for row in reads.batch(schema, subscribe=topic).collect()] == [
        {"headers": [{"key": "h", "value": bytearray(b"1")}], "value": bytearray(b"x"), "offset": 0}
    ]
    with pytest.raises(PySparkException, match="column 'value' is BINARY, not STRING"):
        reads.batch("value STRING", subscribe=topic).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "'auto.offset.reset' is not supported"),
    ],
)
def test_wrong_options_reach_the_user_at_load(reads: Reads, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        reads.batch(**options)


def test_offsets_are_fixed_by_the_first_action(reads: Reads, topics: Topics) -> None:
    topic = topics.create("fixed")
    topics.produce(topic, numbers(3))
    frame = reads.batch(subscribe=topic)
    assert values_of(frame.collect()) == numbers(3)
    topics.produce(topic, numbers(4))
    assert frame.count() == 3
    assert reads.batch(subscribe=topic).count() == 7


def test_tasks(reads: Reads, topics: Topics) -> None:
    topic = topics.create("spark-tasks", 2)
    topics.produce(topic, numbers(100), partition=0)
    topics.produce(topic, numbers(20, 100), partition=1)
    frame = reads.batch(subscribe=topic, minPartitions=5)
    by_task = frame.groupBy(F.spark_partition_id().alias("task")).agg(F.collect_list("value").alias("values")).collect()
    assert sorted(len(each["values"]) for each in by_task) == [20, 25, 25, 25, 25]
    assert sorted(bytes(value) for each in by_task for value in each["values"]) == sorted(numbers(120))


def test_a_limit_ends_the_reader(reads: Reads, topics: Topics) -> None:
    topic = topics.create("spark-limit")
    topics.produce(topic, [b"x" * 1000] * 20_000)
    assert len(reads.batch(subscribe=topic).limit(3).collect()) == 3
    assert reads.batch(subscribe=topic).count() == 20_000
