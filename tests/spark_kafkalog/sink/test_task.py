"""Tests of the sink's tasks without a JVM, with a broker: what is written, where, and the errors."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer.arrow import arrow_rows as rows
from kafkalog.client.producer.arrow.partition_rows import RowError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    InvalidTopicError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
)
from kafkalog.records.errors import InvalidRecordError
from spark_kafkalog.sink import message
from spark_kafkalog.sink.message import TaskWrote, Written, describe, total
from tests.spark_kafkalog.sink.support import Tasks, batch_of, columns, consume
from tests.spark_kafkalog.topics import CODECS, Topics, numbers
from tests.support.kafkalog_broker import KafkalogBroker

ALL = columns("key", "value", "topic", "partition", "headers")
VALUES = columns("value")


def rows_of(values: list[bytes], **more: Any) -> pa.RecordBatch:
    return batch_of(VALUES, [{"value": value, **more} for value in values])


def test_everything_of_a_row(tasks: Tasks, topics: Topics) -> None:
    one, other = topics.create("one", 2), topics.create("other", 3)
    rows: list[dict[str, Any]] = [
        {"topic": one, "partition": 1, "key": b"k", "value": b"v", "headers": [{"key": "h", "value": b"x"}]},
        {"topic": one, "partition": 1, "key": None, "value": None, "headers": None},
        {"topic": other, "partition": 2, "key": b"", "value": b"", "headers": []},
        {
            "topic": one,
            "partition": 1,
            "key": b"k",
            "value": b"w" * 1000,
            "headers": [{"key": "a", "value": None}, {"key": "a", "value": b""}, {"key": "é", "value": b"2"}],
        },
    ]
    before = int(time.time() * 1000)
    said = tasks.write(ALL, [batch_of(ALL, rows)])
    after = int(time.time() * 1000)
    found = consume(tasks.bootstrap, one)
    assert [(each.partition, each.offset) for each in found] == [(1, 0), (1, 1), (1, 2)]
    assert [(each.key, each.value) for each in found] == [(b"k", b"v"), (None, None), (b"k", b"w" * 1000)]
    assert [each.headers for each in found] == [[("h", b"x")], [], [("a", None), ("a", b""), ("é", b"2")]]
    assert all(before <= each.timestamp <= after for each in found)
    (only,) = consume(tasks.bootstrap, other)
    assert (only.partition, only.key, only.value, only.headers) == (2, b"", b"", [])
    assert {tp: (each.rows, each.first_offset, each.last_offset) for tp, each in said.partitions.items()} == {
        TopicPartition(one, 1): (3, 0, 2),
        TopicPartition(other, 2): (1, 0, 0),
    }


@pytest.mark.parametrize("codec", CODECS)
def test_codecs_read_by_kafka_python(tasks: Tasks, topics: Topics, codec: str) -> None:
    topic = topics.create(codec, 2)
    schema = columns("key", "value", "headers")
    rows = [
        {
            "key": b"%d" % n,
            "value": b"value %d" % n * 5,
            "headers": [{"key": "n", "value": b"%d" % n}] if n % 3 else None,
        }
        for n in range(3000)
    ]
    parts = [batch_of(schema, rows[:1000]), batch_of(schema, rows[1000:])]
    said = tasks.write(schema, parts, topic=topic, **{"kafka.compression.type": codec})
    assert sum(each.rows for each in said.partitions.values()) == 3000
    consumer = KafkaConsumer(bootstrap_servers=tasks.bootstrap, enable_auto_commit=False)
    try:
        assigned = [KafkaTopicPartition(topic, number) for number in (0, 1)]
        consumer.assign(assigned)
        consumer.seek_to_beginning()
        found: dict[int, list[Any]] = defaultdict(list)
        deadline = time.monotonic() + 60
        while sum(map(len, found.values())) < 3000:
            assert time.monotonic() < deadline
            for tp, records in consumer.poll(200).items():
                found[tp.partition] += [(record.key, record.value, record.headers) for record in records]
    finally:
        consumer.close()
    expected: dict[int, list[Any]] = defaultdict(list)
    for row, place in zip(rows, places_by_librdkafka(topics, [row["key"] for row in rows], 2), strict=True):
        headers: Any = row["headers"] or []
        expected[place].append((row["key"], row["value"], [(each["key"], each["value"]) for each in headers]))
    read = {place: [(key, value, list(headers)) for key, value, headers in each] for place, each in found.items()}
    assert read == expected


def places_by_librdkafka(topics: Topics, keys: list[Any], partitions: int) -> list[int]:
    """Return the partition that librdkafka's copy of Java's partitioner chooses for each key."""
    topic = topics.create("places", partitions)
    places: dict[bytes, int] = {}

    def deliver(error: Any, message: Any) -> None:
        assert error is None
        places[message.key()] = message.partition()

    producer = Producer({"bootstrap.servers": topics.bootstrap, "partitioner": "murmur2_random"})
    for key in dict.fromkeys(keys):
        producer.produce(topic, b"", key, on_delivery=deliver)
        producer.poll(0)
    assert producer.flush(60) == 0
    return [places[key] for key in keys]


def test_keys_go_where_java_puts_them(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("keys", 13)
    schema = columns("key", "value")
    keys = [b"%d" % (n * 7919) * (n % 5 + 1) for n in range(500)]
    tasks.write(schema, [batch_of(schema, [{"key": key, "value": key} for key in keys])], topic=topic)
    found = {each.key: each.partition for each in consume(tasks.bootstrap, topic)}
    assert [found[key] for key in keys] == places_by_librdkafka(topics, keys, 13)


key_or_none = st.none() | st.binary(max_size=5)


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.tuples(key_or_none, st.none() | st.integers(0, 2)), max_size=40), max_size=6),
    st.sampled_from([400, 3000]),
    st.sampled_from(CODECS),
)
def test_order_in_each_partition(
    tasks: Tasks, topics: Topics, batches: list[list[tuple[bytes | None, int | None]]], size: int, codec: str
) -> None:
    """Whatever rows are like, each is written once, and each partition has its rows in their order."""
    topic = topics.create("order", 3)
    schema = columns("key", "value", "partition")
    number = 0
    given_batches = []
    for batch in batches:
        rows = []
        for key, partition in batch:
            rows.append({"key": key, "value": b"%d" % number, "partition": partition})
            number += 1
        given_batches.append(batch_of(schema, rows))
    options = {"kafka.batch.size": size, "kafka.compression.type": codec}
    said = tasks.write(schema, given_batches, topic=topic, **options)
    found = consume(tasks.bootstrap, topic)
    for place in range(3):
        seen = [int(each.value or b"") for each in found if each.partition == place]
        assert seen == sorted(seen)
    assert sorted(int(each.value or b"") for each in found) == list(range(number))
    counts = Counter(each.partition for each in found)
    assert {tp.partition: each.rows for tp, each in said.partitions.items()} == dict(counts)
    for tp, each in said.partitions.items():
        assert (each.first_offset, each.last_offset) == (0, counts[tp.partition] - 1)


def test_no_rows(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("none")
    assert tasks.write(VALUES, [], topic=topic).partitions == {}
    assert tasks.write(VALUES, [rows_of([])], topic=topic).partitions == {}
    assert consume(tasks.bootstrap, topic) == []


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(tasks: Tasks, topics: Topics, acks: str) -> None:
    topic = topics.create("acks")
    said = tasks.write(VALUES, [rows_of(numbers(100))], topic=topic, **{"kafka.acks": acks})
    written = said.partitions[TopicPartition(topic, 0)]
    assert (written.rows, written.first_offset, written.last_offset) == (
        100,
        *((None, None) if acks == "0" else (0, 99)),
    )
    deadline = time.monotonic() + 60
    while len(found := consume(tasks.bootstrap, topic)) < 100:
        assert time.monotonic() < deadline
    assert [each.value for each in found] == numbers(100)


def test_more_than_the_memory_of_the_producer(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("memory", 2)
    values = [b"%06d" % n + b"x" * 994 for n in range(4000)]
    parts = [rows_of(values[at : at + 500]) for at in range(0, 4000, 500)]
    said = tasks.write(VALUES, parts, topic=topic, **{"kafka.buffer.memory": 100_000, "kafka.batch.size": 10_000})
    assert sum(each.rows for each in said.partitions.values()) == 4000
    assert sorted(each.value or b"" for each in consume(tasks.bootstrap, topic)) == values


def test_batches_larger_than_the_topic_takes_are_split(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("small", config={"max.message.bytes": "3000"})
    values = [b"%04d" % n * 25 for n in range(500)]
    tasks.write(VALUES, [rows_of(values)], topic=topic)
    assert sorted(each.value or b"" for each in consume(tasks.bootstrap, topic)) == values


def test_rows_larger_than_a_batch(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("large", config={"max.message.bytes": "20000000"})
    values = [b"a", b"x" * 900_000, b"b", b"y" * 2_000_000, b"c"]
    tasks.write(VALUES, [rows_of(values)], topic=topic, **{"kafka.max.request.size": 3_000_000})
    assert [each.value for each in consume(tasks.bootstrap, topic)] == values
    with pytest.raises(
        MessageTooLargeError, match=r"2000016 bytes is larger than kafka\.max\.request\.size \(1048576\)"
    ):
        tasks.write(VALUES, [rows_of(values)], topic=topic)


def test_a_row_that_the_broker_does_not_take(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("refuses", config={"max.message.bytes": "1000"})
    with pytest.raises(MessageTooLargeError):
        tasks.write(VALUES, [rows_of([b"x" * 2000])], topic=topic)


def test_rows_that_cannot_be_written(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("rows")
    schema = columns("value", "topic")
    with pytest.raises(RowError, match="null topic present in the data"):
        tasks.write(schema, [batch_of(schema, [{"value": b"x"}])])
    schema = columns("value", "headers")
    rows = [{"value": b"x", "headers": [{"key": None, "value": b""}]}]
    with pytest.raises(InvalidRecordError, match="a header has no key"):
        tasks.write(schema, [batch_of(schema, rows)], topic=topic)
    schema = columns("value", "partition")
    with pytest.raises(RowError, match="Invalid partition: -1"):
        tasks.write(schema, [batch_of(schema, [{"value": b"x", "partition": -1}])], topic=topic)
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topic {topic} has no partition 1, its last is 0"):
        tasks.write(schema, [batch_of(schema, [{"value": b"x", "partition": 1}])], topic=topic)
    with pytest.raises(InvalidTopicError):
        tasks.write(VALUES, [rows_of([b"x"])], topic="no/topic")
    assert consume(tasks.bootstrap, topic) == []


def test_partitions_that_came_later(tasks: Tasks, topics: Topics) -> None:
    topic = topics.create("grows")
    schema = columns("value", "partition")

    def batches() -> Iterator[pa.RecordBatch]:
        # More than a chunk, so that it is written before partitions are added.
        yield batch_of(schema, [{"value": b"x" * 100_000, "partition": 0}] * (rows.CHUNK_BYTES // 100_000 + 1))
        topics.add_partitions(topic, 3)
        yield batch_of(schema, [{"value": b"new", "partition": 2}])

    tasks.write(schema, batches(), topic=topic)
    assert [each.value for each in consume(tasks.bootstrap, topic) if each.partition == 2] == [b"new"]


def test_topics_that_are_not_there(start_broker: Callable[..., KafkalogBroker]) -> None:
    strict = Tasks(start_broker({"auto.create.topics.enable": "false"}).bootstrap)
    with pytest.raises(UnknownTopicOrPartitionError, match="topic missing does not exist"):
        strict.write(VALUES, [rows_of([b"x"])], topic="missing")
    lenient = Tasks(start_broker({"auto.create.topics.enable": "true"}).bootstrap)
    lenient.write(VALUES, [rows_of([b"x"])], topic="made")
    assert [each.value for each in consume(lenient.bootstrap, "made")] == [b"x"]


def test_nobody_listens() -> None:
    nowhere = Tasks("127.0.0.1:1")
    with pytest.raises(ClientTimeoutError, match=r"max\.block\.ms"):
        nowhere.write(VALUES, [rows_of([b"x"])], topic="t", **{"kafka.max.block.ms": 300})


def test_messages_are_added_up(caplog: pytest.LogCaptureFixture) -> None:
    a, b = TopicPartition("a", 0), TopicPartition("b", 1)
    one, other = TaskWrote(), TaskWrote()
    one.add(a, Written(3, 30, 0, 2))
    one.add(b, Written(1, 10))
    other.add(a, Written(2, 20, 7, 8))
    found = total([one, None, other])
    assert found.partitions == {a: Written(5, 50, 0, 8), b: Written(1, 10)}
    with caplog.at_level(logging.INFO):
        message.tell(logging.INFO, "wrote %s", [one, None, other])
    assert [record.getMessage() for record in caplog.records] == [f"wrote {line}" for line in describe(found)]
    assert describe(found) == ["a-0: 5 rows, 50 bytes, offsets 0 to 8", "b-1: 1 rows, 10 bytes"]
