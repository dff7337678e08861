"""Tests of members of the consumer protocol (KIP-848) with real brokers, and together with members of librdkafka."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import (
    CommitFailedError,
    Consumer,
    OffsetAndMetadata,
    SubscriptionPattern,
)
from kafkalog.client.consumer.group.group_requests import OutdatedMemberError
from kafkalog.client.consumer.kip848.coordinator import Kip848Coordinator
from kafkalog.client.consumer.kip848.member import State
from kafkalog.client.errors import ConfigError
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    InvalidRegularExpressionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from tests.kafkalog.client.consumer.conftest import APACHE, GROUPS, OURS
from tests.kafkalog.client.consumer.support import (
    DEADLINE_S,
    MEMBER,
    Kip848Live,
    Live,
    Noting,
    numbers,
    poll_until,
    take,
    values,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300)]

ours = pytest.mark.parametrize("kip848", [OURS], indirect=True)
mostly_ours = pytest.mark.parametrize("kip848", [OURS, pytest.param(APACHE, marks=pytest.mark.peer)], indirect=True)


def member_of(consumer: Consumer) -> Kip848Coordinator:
    assert isinstance(consumer._coordinator, Kip848Coordinator)
    return consumer._coordinator


def test_two_members_share_and_one_leaves(kip848: Live) -> None:
    topic, group = kip848.topic(4), kip848.group()
    notes = [Noting(), Noting()]
    for partition in range(4):
        kip848.produce(topic, partition, values(5))
    with kip848.consumer(group) as first:
        first.subscribe([topic], listener=notes[0])
        assert len(take(first, 20)) == 20
        with kip848.consumer(group) as second:
            second.subscribe([topic], listener=notes[1])
            poll_until(
                [first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, "two partitions for each"
            )
            kept, moved = numbers(first), numbers(second)
            assert sorted(kept + moved) == [0, 1, 2, 3]
            # What moved was committed first, and what stayed went on: nothing comes twice.
            for partition in range(4):
                kip848.produce(topic, partition, values(5, "later"))
            taken = poll_until([first, second], lambda: first.metrics()["records-consumed-total"] == 30, "records")
            taken += poll_until([first, second], lambda: second.metrics()["records-consumed-total"] == 10, "records")
            assert len(set(taken)) == len(taken) == 20
            assert {record.offset for record in taken} == set(range(5, 10))
            poll_until([first, second], lambda: member_of(first).member.state is State.STABLE, "all is settled")
        poll_until([first], lambda: len(numbers(first)) == 4, "what the other had")
        assert first.poll(0.3) == [], "the one that left had committed what it read"
    calls = [[call for call in note.calls if call[1]] for note in notes]
    assert calls[0] == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", moved),
        ("assigned", moved),
        ("revoked", [0, 1, 2, 3]),
    ]
    assert calls[1] == [("assigned", moved), ("revoked", moved)]


def test_commits_positions_and_transactions(kip848: Live) -> None:
    topic, group = kip848.topic(2), kip848.group()
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for partition in range(2):
        kip848.produce(topic, partition, values(10))
    with kip848.consumer(group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        rows = 0
        for found in consumer.read_arrow(("partition", "offset"), timeout=DEADLINE_S):
            rows += found.num_rows
            if rows == 20:
                break
        consumer.commit({tps[0]: OffsetAndMetadata(4, metadata="a note"), tps[1]: 7})
        assert consumer.committed(tps)[tps[0]].metadata == "a note"
        consumer.pause(tps[1])
        consumer.seek(tps[0], 8)
        assert [(record.partition, record.offset) for record in take(consumer, 2)] == [(0, 8), (0, 9)]
        consumer.resume(tps[1])
        consumer.seek(tps[1], 9)
        take(consumer, 1)
        assert [consumer.lag(tp) for tp in tps] == [0, 0]
        metadata = consumer.group_metadata()
        assert metadata.generation_id > 0
        with Producer({"bootstrap.servers": kip848.address, "transactional.id": group}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction({tps[0]: 9}, metadata)
            producer.commit_transaction()
        assert {tp: each.offset for tp, each in consumer.committed(tps).items()} == {tps[0]: 9, tps[1]: 7}
    with kip848.consumer(group) as consumer:
        consumer.subscribe([topic])
        assert sorted((record.partition, record.offset) for record in take(consumer, 4)) == [
            (0, 9),
            (1, 7),
            (1, 8),
            (1, 9),
        ]
    # What was read is committed when the consumer is closed.
    with kip848.consumer(group) as consumer:
        assert {each.offset for each in consumer.committed(tps).values()} == {10}
        consumer.assign(tps)
        assert consumer.position(tps[0]) == 10
        consumer.commit({tps[0]: 3})


@mostly_ours
def test_a_static_member_comes_back_to_what_it_had(kip848: Live) -> None:
    topic, group = kip848.topic(4), kip848.group()
    with kip848.consumer(group, group_instance_id="one") as first:
        first.subscribe([topic])
        second = Consumer(kip848.properties(group, group_instance_id="two"))
        second.subscribe([topic])
        poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, "two for each")
        had = numbers(second)
        with kip848.consumer(group, group_instance_id="two") as impatient:
            impatient.subscribe([topic])
            for _ in range(2):
                with pytest.raises(UnreleasedInstanceIdError, match=group):
                    poll_until([impatient], lambda: False, "the error")
            second.close()
            impatient.unsubscribe()
            # Now the id is free.
            impatient.subscribe([topic])
            poll_until([impatient], lambda: numbers(impatient) == had, "what it had")
        assert numbers(first) == [number for number in range(4) if number not in had], "nobody has noticed"


@ours
def test_a_fenced_member_loses_what_it_had_and_joins_again(kip848: Live) -> None:
    topic, group = kip848.topic(2), kip848.group()
    kip848.produce(topic, 0, values(5))
    noting = Noting()
    with kip848.consumer(group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], listener=noting)
        take(consumer, 5)
        member = member_of(consumer).member
        wait_until(lambda: member.state is State.STABLE, "its assignment is acknowledged")
        before = member.generation
        # As if it came from a past that the coordinator has forgotten.
        answer = member_of(consumer).requests.group_heartbeat(member_of(consumer).member._leaving(), DEADLINE_S)
        assert answer.error_code == 0
        with pytest.raises(CommitFailedError):
            consumer.commit()
        poll_until([consumer], lambda: len(noting.calls) >= 3, "a new assignment")
        assert noting.calls == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
        assert member.generation.incarnation > before.incarnation
        assert [record.offset for record in take(consumer, 5)] == list(range(5)), "from what is committed"
        consumer.commit()


@ours
def test_a_commit_under_an_epoch_that_is_over_is_sent_again(kip848: Live) -> None:
    topic, group = kip848.topic(1), kip848.group()
    tp = TopicPartition(topic, 0)
    kip848.produce(topic, 0, values(5))
    with kip848.consumer(group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        take(consumer, 5)
        coordinator = member_of(consumer)
        wait_until(lambda: coordinator.member.state is State.STABLE, "its assignment is acknowledged")
        with kip848.consumer(group) as another:
            another.subscribe([topic])
            poll_until([another], lambda: coordinator.member.epoch > 1, "another epoch")
        epoch = 3
        wait_until(lambda: coordinator.member.epoch == epoch, "the epoch after the other has left")

        def begin(offset: int, deadline: float | None) -> Any:
            """A commit before the answer with the present epoch has come."""
            with consumer._monitor.lock:
                coordinator.member.epoch -= 1
                coordinator.member._told = None
                return coordinator.commits.begin({tp: OffsetAndMetadata(offset)}, deadline)

        with pytest.raises(OutdatedMemberError, match="epoch"):
            begin(1, None).result(DEADLINE_S)
        wait_until(lambda: coordinator.member.epoch == epoch, "the next heartbeat")
        begin(2, time.monotonic() + DEADLINE_S).result(DEADLINE_S)
        assert consumer.committed([tp])[tp].offset == 2
        assert consumer.assignment() == {tp}
        # Who reads what is committed says who it is, too.
        mine = coordinator.generation
        members = iter([mine._replace(id=mine.id - 1), mine])
        found = coordinator.requests.committed([tp], time.monotonic() + DEADLINE_S, lambda: next(members))
        assert (found[tp].offset, next(members, None)) == (2, None)


@mostly_ours
def test_regular_expressions_here_and_there(kip848: Live) -> None:
    prefix = kip848.topic(1, prefix="pattern")
    with (
        kip848.consumer(kip848.group(), metadata_max_age_ms=300) as mine,
        kip848.consumer(kip848.group()) as theirs,
    ):
        mine.subscribe(pattern=f"{prefix}.*")
        theirs.subscribe(pattern=SubscriptionPattern(f"{prefix}.*"))
        both = [mine, theirs]
        poll_until(both, lambda: mine.subscription() == theirs.subscription() == {prefix}, "the topic")
        more = kip848.topic(2, prefix=f"{prefix}-more")
        poll_until([mine], lambda: len(mine.assignment()) == 3, "the later topic")
        assert mine.subscription() == {prefix, more}
        # A new expression is matched at once.
        theirs.subscribe(pattern=SubscriptionPattern(f"{prefix}-more.*"))
        poll_until([theirs], lambda: theirs.subscription() == {more}, "the later topic")
        kip848.produce(more, 1, values(1))
        assert take(theirs, 1)[0].topic == more
        noting = Noting()
        mine.subscribe([prefix, more], listener=noting)
        poll_until([mine], lambda: member_of(mine).member.due(time.monotonic()) > 0, "it is told")
        mine.subscribe(pattern=f"{prefix}.*", listener=noting)
        poll_until([mine], lambda: mine.subscription() == {prefix, more}, "they are found again")
        assert noting.calls == [], "nothing is given up in between"
        theirs.subscribe([prefix])
        poll_until([theirs], lambda: theirs.subscription() == {prefix} == topics_of(theirs), "a topic by its name")
        theirs.subscribe(pattern=SubscriptionPattern("("))
        with pytest.raises(InvalidRegularExpressionError):
            poll_until([theirs], lambda: False, "the error")


def topics_of(consumer: Consumer) -> set[str]:
    return {tp.topic for tp in consumer.assignment()}


@pytest.mark.exhaustive
def test_the_coordinator_finds_topics_that_come_later(kip848: Live) -> None:
    prefix = kip848.topic(1, prefix="pattern")
    with kip848.consumer(kip848.group()) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(f"{prefix}.*"))
        poll_until([consumer], lambda: len(consumer.assignment()) == 1, "the topic")
        kip848.topic(2, prefix=f"{prefix}-more")
        # It looks every ten seconds at most.
        poll_until([consumer], lambda: len(consumer.assignment()) == 3, "the later topic")


@ours
def test_what_the_consumer_protocol_refuses(kip848: Live, group_broker: str) -> None:
    topic = kip848.topic()
    with kip848.consumer(kip848.group(), group_remote_assignor="best") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(UnsupportedAssignorError, match="best"):
            poll_until([consumer], lambda: False, "the error")
        consumer.enforce_rebalance()
        assert consumer.assignment() == frozenset()
    with Live(group_broker).consumer(kip848.group()) as classic, pytest.raises(ConfigError, match="consumer"):
        classic.subscribe(pattern=SubscriptionPattern(".*"))


@pytest.mark.usefixtures("processes")
def test_a_broker_without_the_protocol(tmp_path: Path) -> None:
    with KafkalogBroker(tmp_path, {"group.coordinator.rebalance.protocols": "classic"}) as running:
        live = Kip848Live(running.bootstrap)
        topic = live.topic()
        with live.consumer(live.group()) as consumer:
            consumer.subscribe([topic])
            for _ in range(2):
                with pytest.raises(UnsupportedVersionError, match=r"set group\.protocol=classic"):
                    poll_until([consumer], lambda: False, "the error")


@contextmanager
def process(live: Live, group: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """Another process with a consumer that polls."""
    arguments = [json.dumps(live.properties(group)), topic]
    member = subprocess.Popen([sys.executable, "-c", MEMBER, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield member
    finally:
        member.kill()
        member.wait()
        if member.stdout is not None:
            member.stdout.close()


@pytest.mark.usefixtures("processes")
@ours
def test_the_partitions_of_a_killed_member_go_to_the_others(kip848: Live) -> None:
    topic, group = kip848.topic(3), kip848.group()
    with kip848.consumer(group) as consumer:
        consumer.subscribe([topic])
        poll_until([consumer], lambda: len(numbers(consumer)) == 3, "all partitions")
        with process(kip848, group, topic) as member:
            poll_until([consumer], lambda: 0 < len(numbers(consumer)) < 3, "a second member")
            others = [number for number in range(3) if number not in numbers(consumer)]
            assert member.stdout is not None
            assert any(json.loads(line) == others for line in member.stdout), "the member got its share"
            member.send_signal(signal.SIGKILL)
            member.wait(DEADLINE_S)
            poll_until([consumer], lambda: len(numbers(consumer)) == 3, "what the killed one had")


@ours
def test_a_member_that_does_not_poll_is_replaced(kip848: Live) -> None:
    topic, group = kip848.topic(2), kip848.group()
    kip848.produce(topic, 0, values(1))
    notes = Noting()
    with kip848.consumer(group, max_poll_interval_ms=3000) as lazy, kip848.consumer(group) as eager:
        lazy.subscribe([topic], listener=notes)
        take(lazy, 1)
        eager.subscribe([topic])
        poll_until([eager], lambda: len(numbers(eager)) == 2, "the lazy one's partitions")
        with pytest.raises(CommitFailedError):
            lazy.commit()
        poll_until([lazy, eager], lambda: len(numbers(lazy)) == len(numbers(eager)) == 1, "one for each")
    assert [call for call in notes.calls if call[1]][:2] == [("assigned", [0, 1]), ("lost", [0, 1])]


@pytest.mark.usefixtures("processes")
def test_a_broker_that_is_killed_finds_its_members_again(tmp_path: Path) -> None:
    with KafkalogBroker(tmp_path, GROUPS) as running:
        live = Kip848Live(running.bootstrap)
        topic, group = live.topic(4), live.group()
        notes = Noting()
        with live.consumer(group, auto_commit_interval_ms=100) as first, live.consumer(group) as second:
            both = [first, second]
            first.subscribe([topic], listener=notes)
            second.subscribe([topic])
            poll_until(both, lambda: len(numbers(first)) == len(numbers(second)) == 2, "two for each")
            poll_until(both, lambda: all(member_of(each).member.state is State.STABLE for each in both), "settled")
            before = [numbers(each) for each in both], member_of(first).member.incarnation, len(notes.calls)
            running.kill()
            first.poll(0.5)
            running.start()
            for partition in range(4):
                live.produce(topic, partition, values(3))
            taken = poll_until(
                both, lambda: sum(each.metrics()["records-consumed-total"] for each in both) >= 12, "all records"
            )
            assert len(set(taken)) == len(taken) == 12
            first.commit()
            assert ([numbers(each) for each in both], member_of(first).member.incarnation, len(notes.calls)) == before


def test_members_of_librdkafka(kip848: Live) -> None:
    beside_librdkafka(kip848, {"group.protocol": "consumer"})


@mostly_ours
def test_members_of_librdkafka_that_speak_the_classic_protocol(kip848: Live) -> None:
    beside_librdkafka(kip848, {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 200})


def beside_librdkafka(kip848: Live, theirs: dict[str, Any]) -> None:
    """A consumer of ours shares a group with one of these properties."""
    topic, group = kip848.topic(4), kip848.group()
    other = confluent_kafka.Consumer({"bootstrap.servers": kip848.address, "group.id": group, "log_level": 0, **theirs})

    def has() -> list[int]:
        other.poll(0.05)
        return sorted(tp.partition for tp in other.assignment())

    try:
        with kip848.consumer(group) as consumer:
            consumer.subscribe([topic])
            poll_until([consumer], lambda: len(numbers(consumer)) == 4, "all partitions")
            other.subscribe([topic])
            poll_until([consumer], lambda: len(has()) == len(numbers(consumer)) == 2, "two for each")
            assert sorted(has() + numbers(consumer)) == [0, 1, 2, 3]
            with GroupAdmin(ClientConfig.from_dict({"bootstrap.servers": kip848.address})) as admin:
                described = admin.describe_groups([group])[group]
                assert len(described.members) == 2
        wait_until(lambda: len(has()) == 4, "all partitions for the other", DEADLINE_S)
    finally:
        other.close()
