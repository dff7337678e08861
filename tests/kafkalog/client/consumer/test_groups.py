"""Tests of members of groups: shared partitions, commits, rebalances, and a killed member."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import confluent_kafka
import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import (
    CommitFailedError,
    Consumer,
    NoOffsetForPartitionError,
    OffsetAndMetadata,
    Whitelist,
)
from kafkalog.client.types import TopicPartition
from tests.kafkalog.client.consumer.conftest import APACHE, OURS
from tests.kafkalog.client.consumer.support import (
    DEADLINE_S,
    MEMBER,
    SESSION_MS,
    Live,
    Noting,
    numbers,
    poll_until,
    take,
    values,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

mostly_ours = pytest.mark.parametrize("live", [OURS, pytest.param(APACHE, marks=pytest.mark.peer)], indirect=True)
"""For what takes long, or is the client's own business."""


def test_commit_and_resume(live: Live) -> None:
    topic, group = live.topic(2), live.group()
    live.produce(topic, 0, values(10))
    live.produce(topic, 1, values(10))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with live.consumer(group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        take(consumer, 20)
        consumer.commit({first: OffsetAndMetadata(4, metadata="a note"), second: 7})
        found = consumer.committed([first, second])
        assert {tp: (each.offset, each.metadata) for tp, each in found.items()} == {
            first: (4, "a note"),
            second: (7, ""),
        }
    with live.consumer(group) as consumer:
        consumer.subscribe([topic])
        assert Counter(record.partition for record in take(consumer, 9)) == {0: 6, 1: 3}
        consumer.seek(second, 9)
        take(consumer, 1)
    # What was read is committed when the consumer is closed.
    with live.consumer(group) as consumer:
        assert {tp: each.offset for tp, each in consumer.committed([first, second]).items()} == {first: 10, second: 10}
        consumer.assign([first])
        assert consumer.position(first) == 10
        consumer.commit({first: 3})
        with pytest.raises(ValueError, match="negative"):
            consumer.commit({first: -1})


def test_arrow_batches_are_committed_as_records_are(live: Live) -> None:
    topic, group = live.topic(), live.group()
    tp = TopicPartition(topic, 0)
    for part in range(3):
        live.produce(topic, 0, values(10, f"{part}."))
    with live.consumer(group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        count = 0
        for batch in consumer.read_arrow(("offset",), timeout=DEADLINE_S):
            count += batch.num_rows
            consumer.commit()
            assert consumer.committed([tp])[tp].offset == batch["offset"][-1].as_py() + 1
            if count == 30:
                break
    with live.consumer(group) as consumer:
        assert consumer.committed([tp])[tp].offset == 30


@mostly_ours
def test_commits_without_waiting(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.produce(topic, 0, values(5))
    tp = TopicPartition(topic, 0)
    done: list[tuple[Any, Any]] = []
    with live.consumer(group, auto_commit_interval_ms=50) as consumer:
        consumer.subscribe([topic])
        take(consumer, 5)
        poll_until([consumer], lambda: tp in consumer.committed([tp]), "a commit by itself")
        consumer.commit_async({tp: 2}, lambda offsets, error: done.append((offsets, error)))
        consumer.commit_async({tp: 3}, lambda offsets, error: done.append((offsets, error)))
        poll_until([consumer], lambda: len(done) == 2, "callbacks")
    assert done == [({tp: OffsetAndMetadata(2)}, None), ({tp: OffsetAndMetadata(3)}, None)]


def test_two_members_share_and_one_leaves(live: Live) -> None:
    topic, group = live.topic(4), live.group()
    notes = [Noting(), Noting()]
    with live.consumer(group) as first:
        first.subscribe([topic], listener=notes[0])
        poll_until([first], lambda: numbers(first) == [0, 1, 2, 3], "all partitions")
        with live.consumer(group) as second:
            second.subscribe([topic], listener=notes[1])
            poll_until(
                [first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, "two partitions for each"
            )
            assert sorted(numbers(first) + numbers(second)) == [0, 1, 2, 3]
            for partition in range(4):
                live.produce(topic, partition, values(5))
            taken = poll_until([first, second], lambda: first.metrics()["records-consumed-total"] >= 10, "records")
            taken += poll_until([first, second], lambda: second.metrics()["records-consumed-total"] >= 10, "records")
            assert len(taken) == len(set(taken)) == 20
            assert first.group_metadata().generation_id == second.group_metadata().generation_id
            kept = numbers(second)
        poll_until([first], lambda: len(numbers(first)) == 4, "what the other had")
        # The one that left had committed what it read.
        assert first.poll(0.3) == []
    given = numbers_of(notes[0].calls)
    assert notes[0].calls[:3] == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3]), ("assigned", given[2])]
    assert notes[0].calls[-1] == ("revoked", [0, 1, 2, 3])
    assert notes[1].calls == [("assigned", kept), ("revoked", kept)]


def numbers_of(calls: list[tuple[str, list[int]]]) -> list[list[int]]:
    return [partitions for _, partitions in calls]


def test_a_cooperative_rebalance_takes_only_what_moves(live: Live) -> None:
    topic, group = live.topic(4), live.group()
    notes = [Noting(), Noting()]
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    with live.consumer(group, **strategy) as first, live.consumer(group, **strategy) as second:
        first.subscribe([topic], listener=notes[0])
        poll_until([first], lambda: len(numbers(first)) == 4, "all partitions")
        second.subscribe([topic], listener=notes[1])
        poll_until([first, second], lambda: len(numbers(second)) == 2, "its share")
        kept, moved = numbers(first), numbers(second)
        assert sorted(kept + moved) == [0, 1, 2, 3]
        first_calls = [call for call in notes[0].calls if call[1]]
        assert first_calls == [("assigned", [0, 1, 2, 3]), ("revoked", moved)]
        assert [call for call in notes[1].calls if call[1]] == [("assigned", moved)]
        second.unsubscribe()
        assert notes[1].calls[-1] == ("revoked", moved)
        poll_until([first], lambda: len(numbers(first)) == 4, "all partitions again")
        assert [call for call in notes[0].calls if call[1]][2:] == [("assigned", moved)]


def test_a_static_member_comes_back_to_what_it_had(live: Live) -> None:
    topic, group = live.topic(4), live.group()
    with live.consumer(group, group_instance_id="one") as first:
        first.subscribe([topic])
        second = Consumer(live.properties(group, group_instance_id="two"))
        second.subscribe([topic])
        poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, "two for each")
        had, generation = numbers(second), second.group_metadata().generation_id
        second.close()
        with live.consumer(group, group_instance_id="two") as second:
            second.subscribe([topic])
            poll_until([first, second], lambda: numbers(second) == had, "what it had")
            assert second.group_metadata().generation_id == generation
            assert first.group_metadata().generation_id == generation
            assert first.group_metadata().group_instance_id == "one"


@pytest.mark.usefixtures("processes")
@mostly_ours
def test_the_partitions_of_a_killed_member_go_to_the_others(live: Live) -> None:
    topic, group = live.topic(3), live.group()
    arguments = [json.dumps(live.properties(group)), topic]
    with live.consumer(group) as consumer:
        consumer.subscribe([topic])
        poll_until([consumer], lambda: len(numbers(consumer)) == 3, "all partitions")
        member = subprocess.Popen([sys.executable, "-c", MEMBER, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            poll_until([consumer], lambda: 0 < len(numbers(consumer)) < 3, "a second member")
            shared = numbers(consumer)
            assert member.stdout is not None
            others = [number for number in range(3) if number not in shared]
            assert any(json.loads(line) == others for line in member.stdout), "the member got its share"
            member.send_signal(signal.SIGKILL)
            member.wait(DEADLINE_S)
            killed = time.monotonic()
            poll_until([consumer], lambda: len(numbers(consumer)) == 3, "what the killed one had")
            # It was not given up at once: it might have come back.
            assert time.monotonic() - killed > SESSION_MS / 1000 / 2
        finally:
            member.kill()
            member.wait()
            if member.stdout is not None:
                member.stdout.close()


def test_a_pattern_finds_topics_that_come_later(live: Live) -> None:
    prefix = live.topic(1, prefix="pattern")
    with live.consumer(live.group(), metadata_max_age_ms=300) as consumer:
        consumer.subscribe(pattern=Whitelist(f"{prefix}, {prefix}-more.*"))
        poll_until([consumer], lambda: consumer.subscription() == {prefix}, "the topic")
        more = live.topic(2, prefix=f"{prefix}-more")
        live.topic(1, prefix=f"other-{prefix}")
        poll_until([consumer], lambda: len(consumer.assignment()) == 3, "the later topic")
        assert consumer.subscription() == {prefix, more}
        live.produce(more, 1, values(1))
        assert take(consumer, 1)[0].topic == more


@mostly_ours
def test_a_member_that_does_not_poll_is_replaced(live: Live) -> None:
    topic, group = live.topic(2), live.group()
    live.produce(topic, 0, values(1))
    notes = Noting()
    with live.consumer(group, max_poll_interval_ms=SESSION_MS) as lazy:
        lazy.subscribe([topic], listener=notes)
        take(lazy, 1)
        with live.consumer(group) as eager:
            eager.subscribe([topic])
            poll_until([eager], lambda: len(numbers(eager)) == 2, "the lazy one's partitions")
            with pytest.raises(CommitFailedError):
                lazy.commit()
            poll_until([lazy, eager], lambda: len(numbers(lazy)) == len(numbers(eager)) == 1, "one for each")
    assert notes.calls[:2] == [("assigned", [0, 1]), ("lost", [0, 1])]


@mostly_ours
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_of_librdkafka(live: Live, strategy: str) -> None:
    topic, group = live.topic(4), live.group()
    other = confluent_kafka.Consumer(
        {
            "bootstrap.servers": live.address,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "partition.assignment.strategy": strategy,
            "log_level": 0,
        }
    )

    def theirs() -> list[int]:
        other.poll(0.05)
        return sorted(tp.partition for tp in other.assignment())

    try:
        with live.consumer(group, partition_assignment_strategy=strategy) as ours:
            ours.subscribe([topic])
            poll_until([ours], lambda: len(numbers(ours)) == 4, "all partitions")
            other.subscribe([topic])
            poll_until([ours], lambda: len(theirs()) == len(numbers(ours)) == 2, "two for each")
            assert sorted(theirs() + numbers(ours)) == [0, 1, 2, 3]
        # Ours led the group; now the other leads itself.
        wait_until(lambda: len(theirs()) == 4, "all partitions for the other", DEADLINE_S)
    finally:
        other.close()


@mostly_ours
def test_no_committed_offset_and_no_reset(live: Live) -> None:
    topic = live.topic()
    with live.consumer(live.group(), auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(NoOffsetForPartitionError):
            consumer.poll(DEADLINE_S)
        consumer.seek(TopicPartition(topic, 0), 0)
        assert consumer.poll(0.2) == []


@mostly_ours
def test_more_partitions_are_shared_out(live: Live) -> None:
    topic = live.topic(1)
    with live.consumer(live.group(), metadata_max_age_ms=300) as consumer:
        consumer.subscribe([topic])
        poll_until([consumer], lambda: numbers(consumer) == [0], "the partition")
        with Admin(ClientConfig.from_dict({"bootstrap.servers": live.address})) as admin:
            admin.create_partitions({topic: 3})
        poll_until([consumer], lambda: numbers(consumer) == [0, 1, 2], "the new partitions")


@mostly_ours
def test_what_subscribing_excludes(live: Live) -> None:
    topic = live.topic()
    with live.consumer(live.group()) as consumer:
        with pytest.raises(TypeError, match="one string"):
            consumer.subscribe("topic")
        with pytest.raises(ValueError, match="either"):
            consumer.subscribe([topic], pattern="t.*")
        consumer.subscribe([topic])
        with pytest.raises(ValueError, match="unsubscribe first"):
            consumer.assign([(topic, 0)])
        consumer.subscribe([])
        consumer.assign([(topic, 0)])
        assert consumer.assignment() == {TopicPartition(topic, 0)}
