"""Test the planner of a streaming query with a map as the cluster, driven as by Spark, in any order of events.

No broker and no JVM: thousands of steps a second. What is real is the stream reader with its planning; what stands in
for brokers answers `assigned`, `lookup` and `latest` from a model that knows which record was ever written.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
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

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets
from spark_kafkalog.columns import source_schema
from spark_kafkalog.data_loss import Condition
from spark_kafkalog.driver import stream_reader
from spark_kafkalog.driver.discovery import Assigned
from spark_kafkalog.driver.stream_reader import KafkalogStreamReader
from spark_kafkalog.executor.tasks import RangePartition
from spark_kafkalog.offsets import Offsets, Position
from spark_kafkalog.options.limits import EARLIEST, LATEST
from spark_kafkalog.options.source_options import SourceOptions
from tests.support.amount import examples

Record = tuple[str, str, int, int]
"""Topic, its mark, partition, offset: what no other record has."""

Lost = tuple[str, int, int, int]
"""Topic, partition and the offsets [start, end) that a task could not read."""
REPORTS: list[tuple[Condition, str]] = []
"""The losses that planning has reported."""


@dataclass
class Log:
    """A partition: offsets [start, end), some of which compaction has emptied."""

    start: int = 0
    end: int = 0
    holes: set[int] = field(default_factory=set)


@dataclass
class Topic:
    mark: str
    logs: list[Log]


class Brokers:
    """A cluster's topics, and everything that was ever written to them."""

    def __init__(self, has_ids: bool = True) -> None:
        self.topics: dict[str, Topic] = {}
        self.written: set[Record] = set()
        self.gone: set[Record] = set()
        """Compacted, trimmed away or deleted with their topic."""
        self.compacted: set[Record] = set()
        self.has_ids = has_ids
        self._marks = 0

    def create(self, name: str, partitions: int) -> None:
        self._marks += 1
        self.topics[name] = Topic(f"id{self._marks}", [Log() for _ in range(partitions)])

    def produce(self, name: str, partition: int, count: int) -> None:
        topic = self.topics[name]
        log = topic.logs[partition % len(topic.logs)]
        index = partition % len(topic.logs)
        self.written |= {(name, topic.mark, index, offset) for offset in range(log.end, log.end + count)}
        log.end += count

    def lose(self, name: str, partition: int, kept: set[int]) -> None:
        mark = self.topics[name].mark
        self.gone |= {each for each in self.written if each[:3] == (name, mark, partition) and each[3] not in kept}

    def trim(self, name: str, partition: int, count: int) -> None:
        log = self.topics[name].logs[partition]
        log.start = min(log.start + count, log.end)
        self.lose(name, partition, set(range(log.start, log.end)) - log.holes)

    def compact(self, name: str, partition: int, offset: int, count: int) -> None:
        log = self.topics[name].logs[partition]
        log.holes |= set(range(log.start + offset, min(log.start + offset + count, log.end)))
        self.compacted |= {(name, self.topics[name].mark, partition, offset) for offset in log.holes}
        self.lose(name, partition, set(range(log.start, log.end)) - log.holes)

    def delete(self, name: str) -> None:
        for partition in range(len(self.topics[name].logs)):
            self.lose(name, partition, set())
        del self.topics[name]

    # What the planner asks

    def assigned(self, may_be_gone: Container[str] = ()) -> Assigned:
        marks = {name: topic.mark for name, topic in self.topics.items()} if self.has_ids else {}
        found = {
            TopicPartition(name, number) for name, topic in self.topics.items() for number in range(len(topic.logs))
        }
        return Assigned(frozenset(found), marks)

    def lookup(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        found = {}
        for (name, partition), time in timestamps.items():
            assert time in (EARLIEST, LATEST)
            if name in self.topics and partition < len(self.topics[name].logs):
                log = self.topics[name].logs[partition]
                found[TopicPartition(name, partition)] = log.start if time == EARLIEST else log.end
        return found

    def latest(self, known: Position, may_be_gone: Container[str] = ()) -> Position:
        partitions, marks = self.assigned()
        return Position(self.lookup(dict.fromkeys(partitions, LATEST)), marks)

    def densities(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Every record has as many bytes as its topic's name has letters, a hundred times."""
        return {tp: 100.0 * len(tp.topic) for tp in at if tp.topic in self.topics}

    def close(self) -> None:
        """Nothing to close."""

    # What a task does

    def read(self, task: RangePartition, losses: list[Lost]) -> set[Record]:
        """The records of a range; what is lost of it is reported as the executor does."""
        topic = self.topics.get(task.topic)
        if topic is None or task.partition >= len(topic.logs) or task.topic_mark not in (None, topic.mark):
            losses.append((task.topic, task.partition, task.start, task.end))
            return set()
        log = topic.logs[task.partition]
        start, end = max(task.start, log.start), min(task.end, log.end)
        if start > task.start:
            losses.append((task.topic, task.partition, task.start, min(start, task.end)))
        return {
            (task.topic, topic.mark, task.partition, offset) for offset in range(start, end) if offset not in log.holes
        }


def make_reader(brokers: Brokers, **options: str) -> KafkalogStreamReader:
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribePattern": "t", "failOnDataLoss": "false"}
    given |= {"smallBatchBytes": "0"} | options
    return KafkalogStreamReader(SourceOptions.parse(given), source_schema(False), brokers)  # type: ignore[arg-type]


class Query:
    """Spark's part: the offset log and the commit log, as texts, and a planner that is made anew at each start."""

    def __init__(self, brokers: Brokers, **options: str) -> None:
        self.brokers = brokers
        self.options = options
        self.log: list[str] = []
        self.committed = 0
        self.read: list[Record] = []
        self.losses: list[Lost] = []
        self.reader: KafkalogStreamReader | None = None

    def start(self, available_now: bool = False) -> None:
        self.reader = make_reader(self.brokers, **self.options)
        if self.committed < len(self.log):
            self.run()
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def begin(self) -> str:
        assert self.reader is not None
        return self.log[self.committed - 1] if self.committed else json.dumps(self.reader.initialOffset())

    def plan(self) -> bool:
        """Log the end of the next batch; False where there is none."""
        assert self.reader is not None
        start = self.begin()
        end = json.dumps(self.reader.latestOffset(json.loads(start), self.reader.getDefaultReadLimit()))
        if end == (self.log[-1] if self.log else start):
            return False
        self.log.append(end)
        return True

    def run(self) -> list[RangePartition]:
        """The batch that was logged last."""
        assert self.reader is not None
        start, end = self.begin(), self.log[-1]
        tasks: list[Any] = list(self.reader.partitions(json.loads(start), json.loads(end)))
        for task in tasks:
            self.read += self.brokers.read(task, self.losses)
        self.committed = len(self.log)
        if self.committed > 1:
            self.reader.commit(json.loads(self.log[-2]))
        return tasks


NAMES = ["t", "t2"]


class Planning(RuleBasedStateMachine):
    """Every record that was there when a query had come to it is read once; what was not is reported."""

    @initialize(
        start=st.sampled_from(["earliest", "latest"]),
        most=st.none() | st.integers(1, 12),
        least=st.none() | st.integers(1, 5),
        delay=st.sampled_from(["0s", "1h"]),
        split=st.none() | st.integers(1, 7),
        size=st.none() | st.integers(50, 2000),
        ids=st.booleans(),
    )
    def begin(
        self,
        start: str,
        most: int | None,
        least: int | None,
        delay: str,
        split: int | None,
        size: int | None,
        ids: bool,
    ) -> None:
        REPORTS.clear()
        self.brokers = Brokers(ids)
        self.brokers.create("t", 1)
        given: dict[str, Any] = {"startingOffsets": start, "maxTriggerDelay": delay}
        if most is not None:
            given["maxOffsetsPerTrigger"] = most
        if least is not None and (most is None or least <= most):
            given["minOffsetsPerTrigger"] = least
        if split is not None:
            given |= {"minPartitions": split, "maxRecordsPerPartition": split}
        if size is not None:
            given["maxBytesPerTrigger"] = size
            given |= {} if split is None else {"maxBytesPerPartition": size // 2 + 1}
        self.most = most
        self.most_bytes = size
        self.query = Query(self.brokers, **{name: str(value) for name, value in given.items()})
        self.from_beginning = start == "earliest"
        self.due: set[Record] | None = None
        """The records to be read, once a start is logged: those that were there, and all later ones. None before."""

    # The cluster

    @rule(name=st.sampled_from(NAMES), partition=st.integers(0, 3), count=st.integers(1, 9))
    def produce(self, name: str, partition: int, count: int) -> None:
        if name in self.brokers.topics:
            before = set(self.brokers.written)
            self.brokers.produce(name, partition, count)
            if self.due is not None:
                self.due |= self.brokers.written - before

    @rule(name=st.sampled_from(NAMES), partition=st.integers(0, 3), offset=st.integers(0, 8), count=st.integers(1, 9))
    def compact(self, name: str, partition: int, offset: int, count: int) -> None:
        if name in self.brokers.topics and partition < len(self.brokers.topics[name].logs):
            self.brokers.compact(name, partition, offset, count)

    @rule(name=st.sampled_from(NAMES), partition=st.integers(0, 3), count=st.integers(1, 12))
    def trim(self, name: str, partition: int, count: int) -> None:
        if name in self.brokers.topics and partition < len(self.brokers.topics[name].logs):
            self.brokers.trim(name, partition, count)

    @rule(name=st.sampled_from(NAMES))
    def add_partition(self, name: str) -> None:
        if name in self.brokers.topics and len(self.brokers.topics[name].logs) < 4:
            self.brokers.topics[name].logs.append(Log())

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 3))
    def create(self, name: str, partitions: int) -> None:
        if name not in self.brokers.topics:
            self.brokers.create(name, partitions)

    @precondition(lambda self: self.brokers.has_ids)
    @rule(name=st.sampled_from(NAMES), again=st.none() | st.integers(1, 3))
    def delete(self, name: str, again: int | None) -> None:
        if name in self.brokers.topics:
            self.brokers.delete(name)
            if again is not None:
                self.brokers.create(name, again)

    # The query

    @rule(crash=st.sampled_from(["", "", "", "before the batch", "before the plan"]))
    def trigger(self, crash: str) -> None:
        if self.query.reader is None:
            self.query.start()
        start = self.query.begin()
        if crash == "before the plan":
            self.query.reader = None
            return
        begins = offsets.position_of(json.loads(start))
        first = not self.query.log
        if not self.query.plan():
            return
        if first:
            # From here on the start is the query's, whatever happens.
            there = self.brokers.written - self.brokers.gone
            self.due = {each for each in there if self.from_beginning or self.is_after(each, begins)}
        if crash:
            self.query.reader = None
        else:
            self.check_cap(self.query.run())

    @precondition(lambda self: self.brokers.has_ids)
    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 2), count=st.integers(1, 9))
    def replace_under_a_planned_batch(self, name: str, partitions: int, count: int) -> None:
        """Plan a batch, and replace the topic before tasks read it."""
        if name in self.brokers.topics:
            self.produce(name, 0, count)
            self.trigger("before the batch")
            self.delete(name, partitions)
            self.produce(name, 0, count)

    @staticmethod
    def is_after(record: Record, begins: Position) -> bool:
        topic, _, partition, offset = record
        return offset >= begins.offsets.get(TopicPartition(topic, partition), 0)

    @rule()
    def restart(self) -> None:
        self.query.reader = None

    @precondition(lambda self: self.due is not None)
    @rule(more=st.integers(0, 5))
    def drain(self, more: int) -> None:
        """Trigger.AvailableNow: all that is there when it plans first, and nothing later."""
        self.query.start(available_now=True)
        target: Offsets = {}
        batches = 0
        while self.query.plan():
            batches += 1
            assert batches < 1000, "it does not end"
            target = target or self.brokers.latest(Position({})).offsets
            self.check_cap(self.query.run())
            for name in self.brokers.topics if more and batches < 4 else ():
                self.produce(name, 0, more)
        self.query.reader = None
        end = offsets.from_json(json.loads(self.query.log[-1]))
        assert all(end[tp] == offset for tp, offset in target.items())
        if not more:
            missing = self.still_there() - set(self.query.read)
            assert not missing, f"not read: {sorted(missing)}"
            self.check_losses()

    def check_losses(self) -> None:
        """Whatever is gone of a partition that the query knew was read before, compacted away, or reported."""
        assert all(condition is not Condition.OFFSET_CHANGED for condition, _ in REPORTS)
        known = {
            (tp.topic, position.topics.get(tp.topic), tp.partition)
            for position in (offsets.position_of(json.loads(text)) for text in self.query.log)
            for tp in position.offsets
        }
        said = {detail.split()[1] for condition, detail in REPORTS if condition is Condition.TOPIC_RECREATED}
        said |= {name for condition, detail in REPORTS for name in NAMES if f"{name}-0" in detail and "gone" in detail}
        for topic, mark, partition, offset in (self.due or set()) - set(self.query.read) - self.brokers.compacted:
            if (topic, mark if self.brokers.has_ids else None, partition) not in known:
                continue
            in_task = any(each[:2] == (topic, partition) and each[2] <= offset < each[3] for each in self.query.losses)
            before = any(f"of {topic}-{partition} are lost" in detail for _, detail in REPORTS)
            assert in_task or before or topic in said, f"not reported: {(topic, mark, partition, offset)}"

    def check_cap(self, tasks: list[RangePartition]) -> None:
        if self.most is not None:
            assert sum(task.end - task.start for task in tasks) <= self.most
        if self.most_bytes is not None:
            counts = [(task.end - task.start) * len(task.topic) * 100 for task in tasks]
            assert sum(counts) <= self.most_bytes or sum(task.end - task.start for task in tasks) == 1

    def still_there(self) -> set[Record]:
        return (self.due or set()) - self.brokers.gone

    @invariant()
    def nothing_twice(self) -> None:
        read = self.query.read
        assert len(read) == len(set(read))
        if self.due is not None:
            assert set(read) <= self.due | self.brokers.gone

    def teardown(self) -> None:
        if hasattr(self, "query") and self.due is not None:
            self.drain(0)


def test_any_order_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        stream_reader, "reporter", lambda fail: lambda condition, detail: REPORTS.append((condition, detail))
    )
    checks = list(HealthCheck)
    limits = settings(max_examples=examples(300), stateful_step_count=40, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(Planning, settings=limits)


@pytest.mark.parametrize("again", [None, 1])
def test_available_now_ends_after_it_has_read_all_whatever_becomes_of_topics(again: int | None) -> None:
    brokers = Brokers(True)
    for name in NAMES:
        brokers.create(name, 1)
        brokers.produce(name, 0, 5)
    query = Query(brokers, startingOffsets="earliest")
    query.start(available_now=True)
    assert query.plan()
    query.run()
    brokers.delete("t2")
    if again is not None:
        brokers.create("t2", again)
    assert not query.plan()
    assert len(query.read) == 10


def test_available_now_fails_where_a_topic_goes_that_it_has_not_read() -> None:
    brokers = Brokers(True)
    for name in NAMES:
        brokers.create(name, 1)
        brokers.produce(name, 0, 5)
    query = Query(brokers, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    query.start(available_now=True)
    assert query.plan()
    query.run()
    brokers.delete("t2")
    with pytest.raises(RuntimeError, match="LOST_TOPIC_PARTITIONS_IN_END_OFFSET"):
        query.plan()
