"""Tests of micro-batches whose rows come with the plan: when they are used, and when tasks read instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.types import TopicPartition
from spark_kafkalog.compat.streams.prefetched import WRAPPER, RowsInPlanner
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.driver.pace import BATCHES, REST
from spark_kafkalog.driver.small_batches import ROWS, TRY_AFTER, SmallBatches
from spark_kafkalog.offsets import OffsetRange
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.queries.streaming import wait_for
from tests.spark_kafkalog.topics import CODECS, Topics, numbers
from tests.spark_kafkalog.without_spark import Stream


@pytest.fixture
def stream(broker_address: str) -> Iterator[Any]:
    made: list[Stream] = []

    def make(**options: Any) -> Stream:
        made.append(Stream(broker_address, startingOffsets="earliest", **options))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def small(broker_address: str) -> Iterator[Any]:
    """Makes readers of small batches."""
    made: list[Discovery] = []

    def make(topic: str, **options: str) -> SmallBatches:
        given = {"kafka.bootstrap.servers": broker_address, "subscribe": topic, **options}
        parsed = SourceOptions.parse(given)
        made.append(Discovery(parsed))
        return SmallBatches(parsed, ("value",), made[-1])

    yield make
    for each in made:
        each.close()


def whole(topic: str, end: int, start: int = 0) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(topic, 0), start, end)]


def marks(small: SmallBatches) -> dict[str, str]:
    return small._discovery.assigned().topics


@pytest.mark.parametrize("codec", CODECS)
def test_rows_of_all_partitions_come_with_the_plan(stream: Any, topics: Topics, codec: str) -> None:
    topic = topics.create("small", 5)
    topics.produce(topic, numbers(500), config={"compression.type": codec})
    query = stream(subscribe=topic)
    assert query.trigger()
    topics.produce(topic, numbers(20, 500), config={"compression.type": codec})
    assert query.trigger()
    assert sorted(query.values()) == sorted(numbers(520))
    assert query.batches_in_planner == 2


def test_a_topic_of_which_nothing_is_read_does_not_matter(stream: Any, topics: Topics) -> None:
    topic, other = topics.create("small-assigned"), topics.create("small-other")
    topics.produce(topic, numbers(10))
    query = stream(assign=json.dumps({topic: [0], other: [7]}))
    assert query.trigger()
    assert query.values() == numbers(10)
    assert query.batches_in_planner == 1


def test_values_decoded_in_the_planner(stream: Any, topics: Topics) -> None:
    topic = topics.create("small-typed", 2)
    topics.produce(topic, [b'{"n": 1}', b"no json", b'{"n": 3}'])
    query = stream(subscribe=topic, valueFormat="json", valueSchema="n INT")
    assert query.trigger()
    assert sorted(str(row["value"] and row["value"]["n"]) for row in query.rows) == ["1", "3", "None"]
    assert query.batches_in_planner == 1


def test_a_batch_is_read_from_within_a_record_batch_to_within_one(small: Any, topics: Topics) -> None:
    topic = topics.create("small-cut")
    topics.produce(topic, numbers(100))
    reader = small(topic)
    found = reader.read(whole(topic, 60, 7), marks(reader))
    assert [value for batch in found for value in batch["value"].to_pylist()] == numbers(53, 7)


@pytest.mark.parametrize(
    "options", [{"smallBatchBytes": "0"}, {"minPartitions": "3"}, {"maxRecordsPerPartition": "50"}], ids=str
)
def test_what_turns_it_off(stream: Any, topics: Topics, options: dict[str, str]) -> None:
    topic = topics.create("not-small")
    topics.produce(topic, numbers(100))
    query = stream(subscribe=topic, **options)
    assert query.trigger()
    assert query.values() == numbers(100)
    assert query.batches_in_planner == 0


def test_many_records_are_not_asked_for(small: Any, topics: Topics) -> None:
    reader = small(topics.create("many"))
    assert reader.is_small(whole("t", ROWS))
    assert not reader.is_small(whole("t", ROWS + 1))
    assert not reader.is_small([])


def test_large_records_are_left_to_tasks_the_second_time_unasked(small: Any, topics: Topics) -> None:
    topic = topics.create("large")
    topics.produce(topic, [bytes(2000)] * 10)
    reader = small(topic, smallBatchBytes="10k")
    assert reader.read(whole(topic, 10), marks(reader)) is None
    assert not reader.is_small(whole(topic, 10))
    assert reader.is_small(whole(topic, 2)), "fewer of them would do"
    assert len(reader.read(whole(topic, 2), marks(reader))) == 1


def test_batches_as_large_as_no_response_can_be(small: Any, topics: Topics) -> None:
    topic = topics.create("no-limit")
    topics.produce(topic, numbers(10))
    reader = small(topic, smallBatchBytes="4g")
    (rows,) = reader.read(whole(topic, 10), marks(reader))
    assert rows["value"].to_pylist() == numbers(10)


def test_a_large_record_does_not_end_small_batches(small: Any, topics: Topics) -> None:
    topic = topics.create("once-large")
    topics.produce(topic, [bytes(2000)] * 2 + numbers(10))
    reader = small(topic, smallBatchBytes="1k")
    known = marks(reader)
    large, small_ones = whole(topic, 2), whole(topic, 12, 2)

    def read(ranges: list[OffsetRange], count: int) -> list[bool]:
        return [reader.read(ranges, known) is not None for _ in range(count)]

    for _ in range(2):
        assert read(large, 1) == [False]
        assert read(small_ones, TRY_AFTER + 2) == [False] * TRY_AFTER + [True] * 2
    assert read(large, 1 + TRY_AFTER + 1) == [False] * (TRY_AFTER + 2)
    assert read(small_ones, 2 * TRY_AFTER + 1) == [False] * (2 * TRY_AFTER) + [True], "after a try in vain"


def test_no_more_is_decompressed_than_may_be_sent(small: Any, topics: Topics) -> None:
    topic = topics.create("expanding")
    topics.produce(topic, [bytes(900_000)] * 4, config={"compression.type": "lz4"})
    reader = small(topic)
    (wanted,) = whole(topic, 4)
    chunk = reader._discovery.records({wanted.tp: 0}, 1 << 20)[wanted.tp]
    assert reader._decode(wanted, chunk.records, chunk.aborted, 4 << 20)[1] == 4
    batches, behind = reader._decode(wanted, chunk.records, chunk.aborted, 1 << 20)
    assert behind < 4
    assert sum(batch.num_rows for batch in batches) == behind
    assert reader.read([wanted], marks(reader)) is None


def test_a_record_batch_that_expands_too_far_is_left_to_tasks_the_second_time_unasked(
    small: Any, topics: Topics
) -> None:
    topic = topics.create("expanding-alone")
    topics.produce(topic, [bytes(3 << 20)], config={"compression.type": "lz4", "message.max.bytes": 4 << 20})
    topics.produce(topic, numbers(10))
    reader = small(topic)
    known = marks(reader)
    assert reader.read(whole(topic, 1), known) is None
    assert not reader.is_small(whole(topic, 1))
    assert [reader.read(whole(topic, 11, 1), known) is not None for _ in range(TRY_AFTER + 2)] == [
        *[False] * TRY_AFTER,
        *[True] * 2,
    ]


def test_a_loss_is_for_tasks_to_report(small: Any, stream: Any, topics: Topics) -> None:
    topic = topics.create("small-lost")
    topics.produce(topic, numbers(100))
    reader = small(topic)
    topics.delete_records(topic, 0, 40)
    assert reader.read(whole(topic, 100), marks(reader)) is None
    assert reader.read(whole(topic, 100, 30), marks(reader)) is None
    assert reader.read(whole(topic, 200, 90), marks(reader)) is None, "not there"
    assert reader.read(whole(topic, 100, 40), marks(reader)) is not None


def test_a_topic_that_was_created_again(small: Any, topics: Topics) -> None:
    topic = topics.create("small-again")
    topics.produce(topic, numbers(10))
    reader = small(topic)
    before = marks(reader)
    topics.delete(topic)
    topics.create_named(topic)
    topics.produce(topic, numbers(10, 100))
    assert reader.read(whole(topic, 10), before) is None


def test_no_broker(small: Any) -> None:
    reader = small("t", **{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "50"})
    assert reader.read(whole("t", 10), {}) is None


@pytest.mark.parametrize("by_rows", [True, False], ids=["rows", "trigger"])
def test_batches_that_take_long_are_left_to_tasks_if_these_are_quicker(
    small: Any, topics: Topics, monkeypatch: pytest.MonkeyPatch, by_rows: bool
) -> None:
    topic = topics.create("small-slow")
    topics.produce(topic, numbers(100))
    reader, now = small(topic), 0.0
    monkeypatch.setattr("spark_kafkalog.driver.small_batches.time.monotonic", lambda: now)

    def run() -> bool:
        nonlocal now
        by_planner = reader.read(whole(topic, 10), known) is not None
        now += 5 if by_planner or not by_rows else 1
        reader.asked()
        return by_planner

    known = marks(reader)
    assert [run() for _ in range(2 * BATCHES)] == [True] * BATCHES + [False] * BATCHES
    assert run() is not by_rows
    assert reader.read(whole(topic, ROWS + 1), known) is None
    now += 100
    reader.asked()
    assert [run() for _ in range(REST // 10)] == [not by_rows] * (REST // 10)


def test_a_reader_has_pysparks_class_while_it_has_rows() -> None:
    assert WRAPPER is not None, "PySpark has changed: small batches are read by tasks now"

    class Reader(RowsInPlanner):
        def read(self, partition: Any) -> Iterator[Any]:
            return iter([partition])

    reader = Reader()
    assert not isinstance(reader, WRAPPER)
    assert reader.getCache({}, {}) is None
    reader.rows = [1]
    assert isinstance(reader, WRAPPER)
    assert list(reader.getCache({}, {}) or []) == [1]
    assert not isinstance(reader, WRAPPER)
    assert isinstance(reader, RowsInPlanner)


@pytest.mark.spark
def test_in_spark(reads: Reads, topics: Topics, tmp_path: Path) -> None:
    """Small batches have one partition and no Python; a large one in between has a task a partition."""
    topic = topics.create("small-spark", 3)
    seen: dict[int, tuple[int, list[bytes]]] = {}

    def note(frame: Any, batch: int) -> None:
        seen[batch] = frame.rdd.getNumPartitions(), [row.value for row in frame.collect()]

    def start() -> Any:
        frame = reads.stream(subscribe=topic, startingOffsets="earliest")
        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(processingTime="50 milliseconds").start()

    def run(query: Any, total: int) -> None:
        wait_for(lambda: sum(len(rows) for _, rows in list(seen.values())) >= total, f"{total} rows", query)
        # Stopped before the commit, Spark would run the batch again at the next start, and tell no lag for it.
        commit = tmp_path / "checkpoint" / "commits" / str(max(seen))
        wait_for(commit.exists, f"the commit of batch {max(seen)}", query)

    topics.produce(topic, numbers(30))
    query = start()
    try:
        run(query, 30)
        query.stop()
        # All at once: nobody reads meanwhile. Into every partition, which librdkafka's choice does not promise.
        topics.produce(topic, [{"value": row, "partition": at % 3} for at, row in enumerate(numbers(ROWS + 3, 30))])
        query = start()
        run(query, ROWS + 33)
        topics.produce(topic, numbers(30, ROWS + 33))
        run(query, ROWS + 63)
    finally:
        query.stop()
    assert sorted(value for _, values in seen.values() for value in values) == sorted(numbers(ROWS + 63))
    assert {parts for parts, values in seen.values() if 0 < len(values) <= 30} == {1}
    assert {parts for parts, values in seen.values() if len(values) > 30} == {3}
    progress = [json.loads(each.json) for each in query.recentProgress]
    latest = [each["sources"][0]["latestOffset"] for each in progress]
    assert all(latest), "lag is told while rows come with the plan, too"
