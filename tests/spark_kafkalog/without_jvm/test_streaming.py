"""Tests of streaming queries without a JVM, driven as by Spark: limits, restarts, changing topics."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql.streaming.datasource import ReadMaxRows

from kafkalog.protocol.errors import UnknownTopicOrPartitionError
from spark_kafkalog import offsets
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.driver import discovery, stream_reader
from tests.spark_kafkalog.topics import Topics, numbers
from tests.spark_kafkalog.without_spark import Stream, everything
from tests.support.amount import examples


@pytest.fixture
def stream(broker_address: str) -> Any:
    """Makes streams that are stopped when the test ends."""
    made: list[Stream] = []

    def make(**options: Any) -> Stream:
        made.append(Stream(broker_address, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_available_now(stream: Any, topics: Topics) -> None:
    topic = topics.create("now", 3)
    topics.produce(topic, numbers(100))
    query = stream(subscribe=topic, startingOffsets="earliest")
    assert query.drain() == 1
    topics.produce(topic, numbers(50, 100))
    assert query.drain() == 1
    assert sorted(query.values()) == sorted(numbers(150))
    assert query.drain() == 0, "nothing new makes no batch"


def test_available_now_ends_where_the_log_ended_at_its_start(stream: Any, topics: Topics) -> None:
    topic = topics.create("target")
    topics.produce(topic, numbers(10))
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4)
    query.start(available_now=True)
    batches = 0
    while query.trigger():
        batches += 1
        topics.produce(topic, numbers(10, 10 * batches))
    assert batches == 3
    assert query.values() == numbers(10)


def test_rate_limit(stream: Any, topics: Topics) -> None:
    topic = topics.create("limited", 2)
    topics.produce(topic, numbers(80), partition=0)
    topics.produce(topic, numbers(20, 80), partition=1)
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=25)
    query.start()
    query.trigger()
    assert offsets.from_json(json.loads(query.offset_log[0])) == {(topic, 0): 20, (topic, 1): 5}
    # Trigger.Once overrides what the options say.
    query.trigger(everything())
    assert query.values() == numbers(100)


def test_a_minimum_holds_back_until_the_delay(stream: Any, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: now))
    topic = topics.create("minimum")
    query = stream(
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger=100,
        maxOffsetsPerTrigger=102,
        maxTriggerDelay="2s",
    )
    query.start()
    query.trigger()
    topics.produce(topic, numbers(5))
    for _ in range(4):
        now += 0.4
        assert not query.trigger(), "neither the minimum nor the delay is reached"
    now += 0.5
    assert query.trigger(), "the delay is reached"
    topics.produce(topic, numbers(120, 5))
    assert query.trigger(), "the minimum is reached"
    assert query.values() == numbers(107)
    assert not query.trigger()


def test_a_minimum_does_not_hold_back_the_rest_of_available_now(stream: Any, topics: Topics) -> None:
    topic = topics.create("minimum-now")
    topics.produce(topic, numbers(7))
    query = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=4, maxOffsetsPerTrigger=5)
    assert query.drain() == 2
    assert query.values() == numbers(7)


def test_the_start_by_time(stream: Any, topics: Topics) -> None:
    topic = topics.create("since")
    topics.produce(topic, [{"value": value, "timestamp": 1000 + at} for at, value in enumerate(numbers(10))])
    query = stream(subscribe=topic, startingTimestamp=1004)
    query.drain()
    assert query.values() == numbers(6, 4)


def test_new_partitions_and_topics(stream: Any, topics: Topics) -> None:
    """They are read from their beginning, also where the query began at the latest offsets."""
    stem = topics.name("grows")
    query = stream(subscribePattern=f"{stem}.*", startingOffsets="latest", maxOffsetsPerTrigger=1000)
    query.start()
    query.trigger()
    topics.create_named(f"{stem}-a")
    topics.produce(f"{stem}-a", numbers(3), partition=0)
    query.trigger()
    topics.add_partitions(f"{stem}-a", 2)
    topics.produce(f"{stem}-a", numbers(3, 3), partition=1)
    query.trigger()
    assert query.values() == numbers(6)


def test_a_new_partition_that_has_lost_its_beginning(stream: Any, topics: Topics) -> None:
    topic = topics.create("late", 1)
    for fail in (True, False):
        query = stream(subscribePattern=f"{topic}.*", startingOffsets="latest", failOnDataLoss=fail)
        query.start()
        query.trigger()
        other = f"{topic}-{fail}"
        topics.create_named(other)
        topics.produce(other, numbers(5))
        topics.delete_records(other, 0, 2)
        if fail:
            with pytest.raises(DataLossError, match="ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"):
                query.trigger()
        else:
            query.trigger()
            assert query.values() == numbers(3, 2)


def test_a_deleted_topic(stream: Any, topics: Topics) -> None:
    stem = topics.name("deleted")
    for name in "ab":
        topics.create_named(f"{stem}-{name}")
        topics.produce(f"{stem}-{name}", numbers(3))
    options = {"subscribePattern": f"{stem}.*", "startingOffsets": "earliest"}
    strict, lenient = stream(**options), stream(**options, failOnDataLoss=False)
    for query in (strict, lenient):
        query.start()
        query.trigger()
    topics.delete(f"{stem}-a")
    topics.produce(f"{stem}-b", numbers(2, 3))
    with pytest.raises(DataLossError, match=r"KAFKA_DATA_LOSS\.PARTITIONS_DELETED"):
        strict.trigger()
    lenient.trigger()
    assert len(lenient.rows) == 8


@pytest.mark.parametrize("option", ["subscribe", "assign"])
def test_a_deleted_topic_among_those_that_are_named(
    stream: Any, topics: Topics, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A deleted topic is not waited for long. Records of the other one may take as long as they do.
    monkeypatch.setattr(discovery, "GONE_AFTER_S", 0.5)
    stays, goes = topics.create("stays"), topics.create("goes")
    for name in (stays, goes):
        topics.produce(name, numbers(3))
    named = f"{stays},{goes}" if option == "subscribe" else json.dumps({stays: [0], goes: [0]})
    options = {option: named, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": 1}
    strict, lenient = stream(**options), stream(**options, failOnDataLoss=False)
    for query in (strict, lenient):
        query.start()
        query.trigger()
    topics.delete(goes)
    topics.produce(stays, numbers(2, 3))
    with pytest.raises(DataLossError, match=rf"KAFKA_DATA_LOSS\.PARTITIONS_DELETED.*{goes}-0"):
        strict.trigger()
    assert lenient.trigger()
    assert not lenient.trigger()
    # Started again, the query still names the topic; it is read if it is there again.
    lenient.start()
    topics.produce(stays, numbers(2, 5))
    assert lenient.trigger()
    assert len(lenient.rows) == 3 + 3 + 2 + 2
    topics.create_named(goes)
    topics.produce(goes, numbers(4))
    assert lenient.trigger()
    assert len(lenient.rows) == 3 + 3 + 2 + 2 + 4


def test_a_topic_that_never_was_there_is_an_error(stream: Any, topics: Topics) -> None:
    """A misspelt name is no loss of data."""
    topic = topics.create("there")
    for fail in (True, False):
        query = stream(subscribe=f"{topic},{topic}x", startingOffsets="earliest", failOnDataLoss=fail)
        query.start()
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}x"):
            query.trigger()


def test_partitions_that_assign_names_and_that_are_not_there_are_told(
    stream: Any, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """As with Spark's source they are not read, but that is said, once."""
    topic = topics.create("assigned")
    topics.produce(topic, numbers(3))
    query = stream(assign=json.dumps({topic: [0, 7]}), startingOffsets="earliest")
    query.start()
    query.trigger()
    topics.produce(topic, numbers(3, 3))
    query.trigger()
    assert query.values() == numbers(6)
    assert [each.message for each in caplog.records if "assign" in each.message] == [
        f"assign: Set({topic}-7) do not exist and are not read"
    ]


@pytest.mark.parametrize("count", [2, 5, 7])
def test_a_topic_created_again(stream: Any, topics: Topics, count: int) -> None:
    """It is noticed by its id, however many records the new topic has."""
    topic = topics.create("again")
    topics.produce(topic, numbers(5))
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": 1}
    strict, lenient = stream(**options), stream(**options, failOnDataLoss=False, maxOffsetsPerTrigger=100)
    for query in (strict, lenient):
        query.start()
        query.trigger()
    topics.delete(topic)
    topics.create_named(topic)
    topics.produce(topic, numbers(count, 100))
    with pytest.raises(DataLossError, match=r"KAFKA_DATA_LOSS\.TOPIC_RECREATED") as caught:
        strict.trigger()
    assert f"The deleted one was read up to ({topic}-0: 5)" in str(caught.value)
    # It is a loss for a query that is started again, too: the checkpoint says which topic its offsets are of.
    lenient.start()
    assert lenient.trigger()
    assert [row["value"] for row in lenient.rows] == numbers(5) + numbers(count, 100)
    assert not lenient.trigger()
    topics.produce(topic, numbers(2, 200))
    assert lenient.trigger()
    assert [row["value"] for row in lenient.rows[-2:]] == numbers(2, 200)


def test_a_topic_created_again_while_a_batch_is_planned(stream: Any, topics: Topics) -> None:
    """Tasks do not read a new topic at the offsets of an old one."""
    topic = topics.create("planned")
    topics.produce(topic, numbers(5))
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": 1}
    strict, lenient = stream(**options), stream(**options, failOnDataLoss=False)
    for query in (strict, lenient):
        query.start()
        query.trigger(crash=True)
    topics.delete(topic)
    topics.create_named(topic)
    topics.produce(topic, numbers(9, 100))
    with pytest.raises(
        DataLossError, match=rf"Could not read 5 offsets \[0, 5\) of {topic}-0: topic {topic} was deleted"
    ):
        strict.start()
    lenient.start()
    assert lenient.rows == []
    lenient.trigger()
    assert lenient.values() == numbers(9, 100)


def test_a_topic_created_again_that_a_worker_knows_from_before(stream: Any, topics: Topics) -> None:
    """The process remembers facts about the deleted topic. The query must read the new one all the same."""
    topic = topics.create("known")
    topics.produce(topic, numbers(5))
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": 1}
    query = stream(**options, failOnDataLoss=False)
    query.start()
    query.trigger()
    topics.produce(topic, numbers(5, 5))
    query.trigger(crash=True)
    topics.delete(topic)
    topics.create_named(topic)
    topics.produce(topic, numbers(20, 100))
    query.start()
    assert query.values() == numbers(5), "offsets 5 to 9 are other records now"
    query.trigger()
    assert sorted(query.values()) == sorted(numbers(5) + numbers(20, 100))


def test_a_checkpoint_without_topic_ids_goes_on(stream: Any, topics: Topics) -> None:
    """Of a broker before 2.8, of Spark's own source, or of an earlier version."""
    topic = topics.create("plain", 2)
    topics.produce(topic, numbers(5), partition=0)
    query = stream(subscribe=topic, startingOffsets="earliest")
    query.start()
    query.trigger()
    query.stop()
    query.offset_log[-1] = json.dumps({topic: {"0": 5, "1": 0}})
    query.start()
    assert not query.trigger(), "nothing new is the same text"
    topics.produce(topic, numbers(3, 5), partition=1)
    assert query.trigger()
    assert offsets.position_of(json.loads(query.offset_log[-1])).topics.keys() == {topic}
    assert query.values() == numbers(8)


def test_available_now_that_starts_at_the_end(stream: Any, topics: Topics) -> None:
    """The target is never before the start, even where records are written between two questions."""
    topic = topics.create("now-latest")
    topics.produce(topic, numbers(5))
    query = stream(subscribe=topic, startingOffsets="latest")
    query.start(available_now=True)
    topics.produce(topic, numbers(5, 5))
    assert query.trigger()
    assert query.values() == []
    topics.produce(topic, numbers(5, 10))
    assert query.drain() == 1
    assert query.values() == numbers(5, 10)


class Streaming(RuleBasedStateMachine):
    """Whatever happens between them, the batches of a query hold every record once."""

    topics: Topics

    @initialize(start=st.sampled_from(["latest", "earliest"]), most=st.none() | st.integers(1, 30))
    def begin(self, start: str, most: int | None) -> None:
        self.partitions = 1
        self.topic = self.topics.create("machine", 1)
        self.count = 0
        self.due: list[bytes] = []
        options = {} if most is None else {"maxOffsetsPerTrigger": most}
        self.query = Stream(self.topics.bootstrap, subscribe=self.topic, startingOffsets=start, **options)
        self.running = False
        self.started = start == "earliest"
        """True if all that is written from now on is to be read."""

    @rule(count=st.integers(1, 20), partition=st.integers(0, 3))
    def produce(self, count: int, partition: int) -> None:
        values = numbers(count, self.count)
        self.topics.produce(self.topic, values, partition % self.partitions)
        self.count += count
        if self.started:
            self.due += values

    @precondition(lambda self: self.partitions < 4 and self.query.offset_log)
    @rule()
    def add_partition(self) -> None:
        self.partitions += 1
        self.topics.add_partitions(self.topic, self.partitions)

    @rule(crash=st.booleans(), most=st.none() | st.integers(1, 10), meanwhile=st.none() | st.integers(1, 9))
    def trigger(self, crash: bool, most: int | None, meanwhile: int | None) -> None:
        if not self.running:
            self.query.start()

        def write() -> None:
            self.started = True
            if meanwhile is not None:
                self.produce(meanwhile, 0)

        made = self.query.trigger(None if most is None else ReadMaxRows(most), crash=crash, meanwhile=write)
        self.running = not (crash and made)

    @precondition(lambda self: self.running)
    @rule(crash=st.booleans())
    def end(self, crash: bool) -> None:
        self.query.crash() if crash else self.query.stop()
        self.running = False

    @precondition(lambda self: self.query.offset_log)
    @rule()
    def drain(self) -> None:
        self.query.drain()
        self.running = False
        assert sorted(self.read()) == sorted(self.due)

    @invariant()
    def nothing_twice(self) -> None:
        if hasattr(self, "query"):
            read = self.read()
            assert len(read) == len(set(read))
            assert set(read) <= set(self.due)

    def read(self) -> list[bytes]:
        return [row["value"] for row in self.query.rows]

    def teardown(self) -> None:
        if hasattr(self, "query"):
            if self.query.offset_log:
                self.drain()
            self.query.stop()


def test_any_order_of_events(topics: Topics) -> None:
    Streaming.topics = topics
    checks = list(HealthCheck)
    limits = settings(max_examples=examples(40), stateful_step_count=20, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(Streaming, settings=limits)
