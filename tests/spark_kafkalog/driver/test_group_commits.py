"""Test that commitGroup shows progress to lag tools, and never blocks a query."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import CoordinatorNotAvailableError
from spark_kafkalog.driver import group_commits
from spark_kafkalog.driver.group_commits import PAUSE_S, GroupProgress
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.topics import Topics, numbers
from tests.spark_kafkalog.without_spark import Stream
from tests.support.command import call
from tests.support.waiting import wait_until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Group:
    """In the place of GroupOffsets.commit: notes what it is asked, and fails while it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commits: list[dict[TopicPartition, int]] = []
        self.error: Exception | None = None
        group = self

        def commit(self: GroupOffsets, offsets: Any, **given: Any) -> None:
            group.commits.append(dict(offsets))
            if group.error is not None:
                raise group.error

        monkeypatch.setattr(GroupOffsets, "commit", commit)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(monkeypatch)


def parsed(**more: str) -> SourceOptions:
    return SourceOptions.parse({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", **more})


def test_only_what_is_new_is_committed(group: Group) -> None:
    progress = GroupProgress(parsed(commitGroup="g"))
    for offsets in ({T0: 1}, {T0: 1}, {T0: 1, T1: 0}, {T0: 2, T1: 0}):
        progress.processed(offsets)
    assert group.commits == [{T0: 1}, {T0: 1, T1: 0}, {T0: 2, T1: 0}]
    progress.close()


def test_without_a_group_nothing_is_committed(group: Group) -> None:
    GroupProgress(parsed()).processed({T0: 1})
    assert group.commits == []


def test_a_failure_is_told_once_and_tried_again_later(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    progress = GroupProgress(parsed(commitGroup="g"), clock=lambda: now)
    group.error = CoordinatorNotAvailableError("no coordinator")
    for offset in range(3):
        progress.processed({T0: offset})
    assert len(group.commits) == 1, "it is not tried at every trigger"
    now = PAUSE_S + 1
    progress.processed({T0: 5})
    assert len(group.commits) == 2
    assert len(caplog.records) == 1, "one warning while it goes on"
    assert "not committed to group g" in caplog.text
    assert "no coordinator" in caplog.text
    group.error = None
    now = 2 * PAUSE_S + 2
    progress.processed({T0: 6})
    assert group.commits[-1] == {T0: 6}
    assert "committed to group g again" in caplog.text
    progress.close()


def test_every_batch_of_a_run_is_committed_and_the_last_one_too(group: Group, topics: Topics) -> None:
    topic = topics.create("group")
    topics.produce(topic, numbers(5))
    tp = TopicPartition(topic, 0)
    query = Stream(
        topics.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, commitGroup="g"
    )
    query.drain()
    assert group.commits == [{tp: 2}, {tp: 4}, {tp: 5}]


def test_what_a_killed_query_had_read_is_committed_at_the_next_start(group: Group, topics: Topics) -> None:
    topic = topics.create("killed")
    topics.produce(topic, numbers(5))
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", commitGroup="g")
    query.start()
    query.trigger()
    query.crash()
    assert group.commits == []
    query.start()
    query.trigger()
    assert group.commits == [{TopicPartition(topic, 0): 5}]
    query.stop()


def test_a_start_at_the_latest_offsets_is_no_progress(group: Group, topics: Topics) -> None:
    topic = topics.create("at-latest")
    topics.produce(topic, numbers(5))
    query = Stream(topics.bootstrap, subscribe=topic, commitGroup="g")
    query.start()
    query.trigger()
    assert group.commits == []
    query.stop()


# Against the broker's own coordinator


@pytest.fixture
def name() -> str:
    """A group that no other test uses."""
    return f"spark-{uuid.uuid4().hex[:10]}"


def test_lag_tools_see_how_far_a_query_is(topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for patience in ("PATIENCE_S", "FIRST_PATIENCE_S"):
        monkeypatch.setattr(group_commits, patience, 60.0)
    topic = topics.create("lag", 2)
    topics.produce(topic, numbers(5), partition=0)
    topics.produce(topic, numbers(3), partition=1)
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", commitGroup=name)
    query.drain()
    topics.produce(topic, numbers(4), partition=1)
    done = call("groups", "describe", "--bootstrap-server", topics.bootstrap, "--group", name)
    assert done.err == f"kafkalog: Consumer group '{name}' has no active members.\n"
    assert [line.split()[1:6] for line in done.out[1:3]] == [[topic, "0", "5", "5", "0"], [topic, "1", "3", "7", "4"]]
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": name})
    wanted = [ConfluentPartition(topic, number) for number in range(2)]
    assert [each.offset for each in consumer.committed(wanted, timeout=60)] == [5, 3]
    consumer.close()
    query.drain()
    done = call("groups", "describe", "--bootstrap-server", topics.bootstrap, "--group", name)
    assert [line.split()[5] for line in done.out[1:3]] == ["0", "0"]


def test_a_group_that_has_members_is_left_to_them(topics: Topics, name: str, caplog: pytest.LogCaptureFixture) -> None:
    topic = topics.create("members")
    topics.produce(topic, numbers(50))
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": name, "enable.auto.commit": False})
    consumer.subscribe([topic])

    def assigned() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    wait_until(assigned, "the consumer has its partition")
    query = Stream(
        topics.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=9, commitGroup=name
    )
    query.drain()
    assert query.values() == numbers(50)
    assert len([record for record in caplog.records if name in record.getMessage()]) == 1
    (committed,) = consumer.committed([ConfluentPartition(topic, 0)], timeout=60)
    assert committed.offset < 0
    consumer.close()
