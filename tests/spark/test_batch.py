"""Batch queries: every column, every option, and the words of what is refused."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.conftest import Reads
from tests.spark.topics import Topics, values_of

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
T0_MS = 1_700_000_000_000


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def refusal(frame: DataFrame) -> str:
    """What a query that must fail says."""
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


def test_every_column(reads: Reads, topics: Topics) -> None:
    topic = topics.create("columns", 2)
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "timestamp": T0_MS + 1, "headers": [("a", b"1"), ("b", None), ("a", b"")]},
        {"key": None, "value": b"", "timestamp": T0_MS + 2, "headers": []},
        {"key": b"", "value": None, "timestamp": T0_MS + 3},
        {"key": bytes(range(256)), "value": "größe".encode(), "timestamp": T0_MS + 4},
    ]
    topics.produce(topic, records, partition=1)
    rows = reads.batch(subscribe=topic, includeHeaders=True).orderBy("offset").collect()
    assert [row.asDict(recursive=True) for row in rows] == [
        {
            "key": None if record["key"] is None else bytearray(record["key"]),
            "value": None if record["value"] is None else bytearray(record["value"]),
            "topic": topic,
            "partition": 1,
            "offset": offset,
            "timestamp": datetime.fromtimestamp(record["timestamp"] / 1000, UTC).astimezone().replace(tzinfo=None),
            "timestampType": 0,
            "headers": [
                {"key": name, "value": None if value is None else bytearray(value)}
                for name, value in record.get("headers", [])
            ]
            or None,
        }
        for offset, record in enumerate(records)
    ]


def test_schema_without_headers_is_that_of_sparks_source(reads: Reads, topics: Topics) -> None:
    frame = reads.batch(subscribe=topics.create("schema"))
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert frame.collect() == []


def test_log_append_time(reads: Reads, topics: Topics) -> None:
    topic = topics.create("append-time", config={"message.timestamp.type": "LogAppendTime"})
    before = time.time()
    topics.produce(topic, [{"value": b"v", "timestamp": T0_MS}])
    (row,) = reads.batch(subscribe=topic).collect()
    assert row.timestampType == 1
    assert before - 1 <= row.timestamp.timestamp() <= time.time() + 1


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(reads: Reads, topics: Topics, codec: str) -> None:
    topic = topics.create(codec, 3)
    sent = topics.produce(
        topic,
        [b"%d" % number * 20 for number in range(20_000)],
        config={"compression.type": codec, "batch.size": 65536},
    )
    rows = reads.batch(subscribe=topic).select("partition", "offset", "value").collect()
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in rows) == sorted(
        (each.partition, each.offset, each.value) for each in sent
    )


def test_a_record_larger_than_a_fetch(reads: Reads, topics: Topics) -> None:
    topic = topics.create("large", config={"max.message.bytes": "8000000"})
    values = [b"a" * 10, b"b" * 6_000_000, b"c" * 10]
    topics.produce(topic, values, config={"message.max.bytes": 8_000_000})
    rows = reads.batch(subscribe=topic, **{"kafka.max.partition.fetch.bytes": 1000}).collect()
    assert values_of(rows) == values


# ---------------------------------------------------------------------------------------------- schema


def test_only_chosen_columns(reads: Reads, topics: Topics) -> None:
    topic = topics.create("pruned")
    topics.produce(topic, [{"value": b"x", "headers": [("h", b"1")]}])
    frame = reads.batch("value BINARY, offset BIGINT", subscribe=topic)
    assert [tuple(row) for row in frame.collect()] == [(bytearray(b"x"), 0)]
    frame = reads.batch("headers ARRAY<STRUCT<key: STRING, value: BINARY>>, topic STRING", subscribe=topic)
    assert [row.asDict(recursive=True) for row in frame.collect()] == [
        {"headers": [{"key": "h", "value": bytearray(b"1")}], "topic": topic}
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("value STRING", "column 'value' is BINARY, not STRING"),
        ("payload BINARY", "the source has no column 'payload'"),
        ("Offset BIGINT", "did you mean 'offset'"),
    ],
)
def test_a_schema_that_cannot_be(reads: Reads, topics: Topics, schema: str, message: str) -> None:
    assert message in refusal(reads.batch(schema, subscribe=topics.create("bad-schema")))


# ---------------------------------------------------------------------------------------------- what to read


def test_subscribe_pattern_and_assign(reads: Reads, topics: Topics) -> None:
    stem = topics.name("pattern")
    for name in ("a", "b", "c"):
        topics.create_named(f"{stem}-{name}", 2)
        topics.produce(f"{stem}-{name}", [name.encode()], partition=0)
        topics.produce(f"{stem}-{name}", [name.encode() * 2], partition=1)

    def values(**options: str) -> list[bytes]:
        return sorted(bytes(row.value) for row in reads.batch(**options).collect())

    assert values(subscribePattern=f"{stem}-[ab]") == [b"a", b"aa", b"b", b"bb"]
    assert values(subscribePattern=f"{stem}-") == [], "the whole name must match"
    assert values(subscribe=f"{stem}-a, {stem}-c") == [b"a", b"aa", b"c", b"cc"]
    assert values(assign=json.dumps({f"{stem}-a": [1], f"{stem}-b": [0]})) == [b"aa", b"b"]


def test_a_topic_that_does_not_exist(reads: Reads) -> None:
    assert "no-such-topic" in refusal(reads.batch(subscribe="no-such-topic"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "'auto.offset.reset' is not supported"),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions must be positive"),
    ],
)
def test_wrong_options_reach_the_user_at_load(reads: Reads, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        reads.batch(**options)


def test_a_broker_that_is_not_there(reads: Reads) -> None:
    said = refusal(
        reads.batch(subscribe="t", **{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300"})
    )
    assert "127.0.0.1:1" in said


# ---------------------------------------------------------------------------------------------- from where, to where


def read_values(reads: Reads, topic: str, **options: str) -> list[bytes | None]:
    return values_of(reads.batch(subscribe=topic, **options).collect())


def test_offsets(reads: Reads, topics: Topics) -> None:
    topic = topics.create("offsets", 2)
    topics.produce(topic, numbers(10), partition=0)
    topics.produce(topic, numbers(10, 100), partition=1)

    def limits(start: tuple[int, int], end: tuple[int, int]) -> dict[str, str]:
        return {
            "startingOffsets": json.dumps({topic: {"0": start[0], "1": start[1]}}),
            "endingOffsets": json.dumps({topic: {"0": end[0], "1": end[1]}}),
        }

    assert read_values(reads, topic, **limits((3, -2), (5, 1))) == [b"3", b"4", b"100"]
    assert read_values(reads, topic, **limits((10, 8), (-1, -1))) == [b"108", b"109"]
    assert read_values(reads, topic, startingOffsets="earliest", endingOffsets="latest") == [
        *numbers(10),
        *numbers(10, 100),
    ]
    assert "you must specify all TopicPartitions" in refusal(
        reads.batch(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}}))
    )
    assert "can't be latest for batch queries" in refusal(reads.batch(subscribe=topic, startingOffsets="latest"))
    assert "can't be earliest for batch queries" in refusal(reads.batch(subscribe=topic, endingOffsets="earliest"))


def test_timestamps(reads: Reads, topics: Topics) -> None:
    topic = topics.create("timestamps", 2)
    for partition in (0, 1):
        # Of partition 1 only half as many: the second half of the times has no match there.
        records = [
            {"value": value, "timestamp": T0_MS + 10 * at} for at, value in enumerate(numbers(10 - 5 * partition))
        ]
        topics.produce(topic, records, partition)
    assert read_values(reads, topic, startingTimestamp=str(T0_MS + 35), endingTimestamp=str(T0_MS + 41)) == [b"4", b"4"]
    by_partition = json.dumps({topic: {"0": T0_MS + 80, "1": T0_MS + 40}})
    assert read_values(reads, topic, startingOffsetsByTimestamp=by_partition) == [b"8", b"9", b"4"]
    assert read_values(reads, topic, endingOffsetsByTimestamp=by_partition) == [*numbers(8), *numbers(4)]
    assert read_values(reads, topic, endingTimestamp=str(T0_MS + 70)) == [*numbers(7), *numbers(5)]
    late = str(T0_MS + 70)
    assert "No offset matched from request of topic-partition" in refusal(
        reads.batch(subscribe=topic, startingTimestamp=late)
    )
    assert read_values(reads, topic, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == numbers(
        3, 7
    )


def test_offsets_are_fixed_when_the_query_is_planned(reads: Reads, topics: Topics) -> None:
    topic = topics.create("fixed")
    topics.produce(topic, numbers(3))
    frame = reads.batch(subscribe=topic)
    assert frame.count() == 3
    topics.produce(topic, numbers(4))
    assert frame.count() == 3
    assert reads.batch(subscribe=topic).count() == 7


# ---------------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 2), ({"minPartitions": "5"}, 5), ({"maxRecordsPerPartition": "30"}, 5), ({"minPartitions": "1"}, 2)],
)
def test_tasks(reads: Reads, topics: Topics, options: dict[str, str], tasks: int) -> None:
    topic = topics.create("tasks", 3)
    topics.produce(topic, numbers(100), partition=0)
    topics.produce(topic, numbers(20, 100), partition=1)
    frame = reads.batch(subscribe=topic, **options)
    by_task = frame.groupBy(F.spark_partition_id().alias("task")).agg(F.count("*").alias("rows")).collect()
    assert len(by_task) == tasks
    assert values_of(frame.collect()) == numbers(120)
    if limit := options.get("maxRecordsPerPartition"):
        assert max(row["rows"] for row in by_task) <= int(limit)


def test_arrow_stays_within_what_a_query_needs(reads: Reads, topics: Topics) -> None:
    """A reader that is not read to its end (LIMIT) ends its thread and its connection."""
    topic = topics.create("limit")
    topics.produce(topic, [b"x" * 1000] * 50_000)
    assert len(reads.batch(subscribe=topic).limit(3).collect()) == 3
    assert reads.batch(subscribe=topic).count() == 50_000
