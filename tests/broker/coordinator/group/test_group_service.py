"""Tests of the coordinator over its logs, in this process: loading, slow replicas, expiry, new leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.coordinator.group import pace
from broker.coordinator.group import partition_groups as partition_groups_module
from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.requests import JoinResult, Leaver, SyncRequest, SyncResult
from broker.coordinator.group.coordinator_parts import Group, LoadState
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership
from broker.coordinator.group.kip848.context import Outcome
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.membership import CommitRequest, Moment
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.state_log import StateRecord
from broker.metadata.model import PartitionState
from broker.replica.partition import Partition
from kafkalog.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidCommitOffsetSizeError,
    KafkaError,
    NotCoordinatorError,
)
from kafkalog.storage.topics import CONSUMER_OFFSETS
from tests.broker.coordinator.group.running import ANYBODY, IN_TRANSACTION, PRODUCER, T0, Running, Start, at
from tests.broker.coordinator.support import begin_epoch, raise_epoch, refuse_appends
from tests.support.in_process.registry import having

DAY_MS = 86_400_000
ELSEWHERE = PartitionState((0, 9), (9,), 9, 1)


def test_groups_and_offsets_are_loaded(start: Start) -> None:
    first = start()
    first.ready()
    first.commit("simple", 5)
    joined = first.run(first.member("g"))
    first.groups.stop()
    first.parts.close()
    second = start()
    second.ready()
    assert second.committed("simple") == 5
    assert second.classic.heartbeat("g", joined.member_id, None, 1) is ErrorCode.NONE
    assert [group.kind for group in second.groups.list_groups()[1]] == ["classic", "classic"]
    second.groups.stop()


def test_nobody_is_told_anything_before_it_is_loaded(start: Start) -> None:
    first = start(offsets_topic_num_partitions="1")
    first.ready()
    first.commit("g", 5)
    first.parts.close()
    second = start()

    async def ask() -> None:
        second.groups.start()
        with pytest.raises(CoordinatorLoadInProgressError):
            second.groups.offsets_of("g")
        # These two are for clients that do not know the error there.
        assert second.classic.heartbeat("g", "m", None, 1) is ErrorCode.NONE
        synced = await second.classic.sync("g", SyncRequest("m", None, 1, None, None))
        assert synced.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert second.groups.list_groups()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    second.run(ask())
    second.ready()
    assert second.committed("g") == 5
    second.groups.stop()


def test_groups_that_cannot_be_read_are_not_taken_for_empty(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.parts.run(running.groups.log.ensure())
    running.parts.append(running.groups.log, 0, [StateRecord(b"\x00\x01broken", b"")])
    running.ready()
    with pytest.raises(NotCoordinatorError):
        running.groups.offsets_of("g")
    running.groups.stop()


def test_a_commit_counts_once_it_is_replicated(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 1)

    async def slow() -> None:
        release = running.hold_replication()
        commit = asyncio.ensure_future(running.groups.commit("g", ANYBODY, {T0: at(2)}))
        await asyncio.sleep(0)
        assert running.committed("g") == 1
        assert running.groups.offsets_of("g", require_stable=True)[T0] == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        release()
        await commit

    running.run(slow())
    assert running.committed("g") == 2
    running.groups.stop()


def test_a_commit_that_fails_leaves_what_was(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 1)
    partition = running.groups.log.leads(0)
    assert partition is not None
    partition.log.config = running.parts.config.log_config({"max.message.bytes": 100})
    with pytest.raises(InvalidCommitOffsetSizeError):
        running.commit("g", 2)
    refuse_appends(partition)
    with pytest.raises(KafkaError) as raised:
        running.commit("g", 2)
    assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert running.committed("g") == 1
    running.groups.stop()


def test_who_leads_no_more_answers_nothing(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    joined = running.run(running.member("g"))
    running.run(running.member("h"))
    rejoins: dict[str, Any] = {"member_id": joined.member_id, "protocols": (("range", b"other"),)}

    async def waits() -> list[JoinResult | SyncResult]:
        second = asyncio.ensure_future(running.joined("g"))
        await asyncio.sleep(0)
        generation = (await running.joined("g", **rejoins)).generation
        request = SyncRequest((await second).member_id, None, generation, None, None)
        syncing = asyncio.ensure_future(running.classic.sync("g", request))
        joining = asyncio.ensure_future(running.joined("h"))
        await asyncio.sleep(0)
        groups = running.groups.groups()
        assert all(group.timer is not None for group in groups)
        timers = [group.timer for group in groups if group.timer is not None]
        # Nobody asks about the groups after that.
        running.parts.assign(CONSUMER_OFFSETS, 0, ELSEWHERE)
        assert all(timer.cancelled() for timer in timers)
        return [await syncing, await joining]

    assert [result.error for result in running.run(waits())] == [ErrorCode.NOT_COORDINATOR] * 2
    with pytest.raises(NotCoordinatorError):
        running.classic.heartbeat("g", joined.member_id, None, 1)
    running.parts.assign(CONSUMER_OFFSETS, 0, PartitionState((0,), (0,), 0, 2))
    running.ready()
    assert running.classic.heartbeat("h", "", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    running.groups.stop()


def test_a_failed_directory_answers_who_waits(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.run(running.member("g"))
    partition = running.groups.log.leads(0)
    assert partition is not None

    async def waits() -> JoinResult:
        joining = asyncio.ensure_future(running.joined("g"))
        await asyncio.sleep(0)
        partition.log.offline = "the disk fails"
        running.parts.replicas.directory_failed(partition.log.dir.parent)
        return await joining

    assert running.run(waits()).error is ErrorCode.NOT_COORDINATOR
    running.groups.stop()


def test_a_new_leader_loads_before_it_is_asked(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 5)

    async def work() -> None:
        running.parts.assign(CONSUMER_OFFSETS, 0, ELSEWHERE)
        running.groups.start()
        assert not running.groups.groups()
        running.parts.assign(CONSUMER_OFFSETS, 0, PartitionState((0,), (0,), 0, 2))
        while not running.groups.counters.loads:
            await asyncio.sleep(0.001)

    running.run(work())
    assert [group.id for group in running.groups.groups()] == ["g"]
    running.groups.stop()


def test_sessions_end_by_the_clock_of_the_loop(start: Start) -> None:
    running = start(group_min_session_timeout_ms="1")

    async def work() -> None:
        await running.groups.ready()
        joined = await running.joined("g", session_timeout_ms=20, rebalance_timeout_ms=20)
        while running.groups.describe("g").state != "Empty":
            await asyncio.sleep(0.005)
        assert running.classic.heartbeat("g", joined.member_id, None, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    running.run(work())
    running.groups.stop()


def test_a_group_whose_timer_fails_gets_another(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_groups_module, "WAKE_AGAIN_S", 0.01)
    running = start(group_min_session_timeout_ms="1")
    failures: list[Moment] = []
    wake = ClassicGroup.wake

    def fails_first(group: ClassicGroup, now: Moment) -> None:
        if not failures:
            failures.append(now)
            raise ZeroDivisionError
        wake(group, now)

    monkeypatch.setattr(ClassicGroup, "wake", fails_first)

    async def work() -> None:
        await running.groups.ready()
        await running.joined("g", session_timeout_ms=20, rebalance_timeout_ms=20)
        while running.groups.describe("g").state != "Empty":
            await asyncio.sleep(0.005)

    running.run(work())
    assert failures
    running.groups.stop()


# -- expiry


def test_offsets_expire_and_groups_with_them_and_stay_away(start: Start) -> None:
    running = start(offsets_retention_minutes="1440", offsets_topic_num_partitions="1")
    running.ready()
    running.commit("old", 1, running.parts.now)
    joined = running.run(running.member("left"))
    member = CommitRequest(joined.member_id, None, 1, 8)
    running.run(running.groups.commit("left", member, {T0: at(3, running.parts.now)}))
    stays = running.run(running.member("stays"))
    member = CommitRequest(stays.member_id, None, 1, 8)
    running.run(running.groups.commit("stays", member, {T0: at(4, running.parts.now)}))
    running.parts.now += DAY_MS - 1

    running.run(running.classic.leave("left", [Leaver(joined.member_id)]))
    running.commit("new", 2, running.parts.now)
    assert running.run(running.groups.expire_offsets()) == 0
    running.parts.now += 1
    assert running.run(running.groups.expire_offsets()) == 1
    assert {group.group_id for group in running.groups.list_groups()[1]} == {"left", "new", "stays"}
    running.parts.now += DAY_MS
    # The subscription of its member cannot be read: it may be to this topic.
    assert running.run(running.groups.expire_offsets()) == 2
    assert running.committed("stays") == 4
    running.groups.stop()
    running.parts.close()
    again = start()
    again.ready()
    assert {group.group_id for group in again.groups.list_groups()[1]} == {"stays"}
    again.groups.stop()


def test_deleted_groups_and_topics_stay_away(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("deleted", 1)
    running.commit("topic", 2)
    assert running.run(running.groups.delete_group("deleted")) is ErrorCode.NONE
    assert running.run(running.groups.delete_group("deleted")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert running.run(running.groups.all_partition_groups()[0].removal.forget_topics(frozenset({"t"}))) == 1
    assert not list(running.groups.list_groups()[1])
    running.groups.stop()
    running.parts.close()
    again = start()
    again.ready()
    assert not list(again.groups.list_groups()[1])
    again.groups.stop()


def test_a_topic_is_not_forgotten_for_groups_that_were_read_anew(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "UNITS_AT_ONCE", 1)
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    names = [f"g{number}" for number in range(4)]
    for name in names:
        running.commit(name, 1)
    [partition_groups] = running.groups.all_partition_groups()

    async def work() -> None:
        forgetting = asyncio.ensure_future(partition_groups.removal.forget_topics(frozenset({"t"})))
        await asyncio.sleep(0)
        begin_epoch(partition_groups.partition)
        [again] = running.groups.all_partition_groups()
        assert again is not partition_groups
        assert await forgetting < len(names)
        while again.state is LoadState.LOADING:
            await asyncio.sleep(0.001)

    running.run(work())
    running.commit(names[-1], 2)
    running.groups.stop()
    running.parts.close()
    later = start()
    later.ready()
    assert later.committed(names[-1]) == 2
    # What was there when the partition was unloaded is.
    assert [later.committed(name) for name in names[1:-1]] == [1, 1]
    later.groups.stop()


def test_a_topic_that_is_deleted_while_groups_are_loaded_is_forgotten(start: Start) -> None:
    first = start(offsets_topic_num_partitions="1")
    first.ready()
    first.commit("g", 1)
    first.run(first.groups.commit("h", ANYBODY, {("u", 0): at(2), T0: at(3)}))
    first.run(first.groups.commit("i", IN_TRANSACTION, {T0: at(4)}, PRODUCER))
    first.parts.close()
    second = start()

    async def work() -> None:
        second.groups.start()
        [loading] = second.groups.all_partition_groups()
        assert loading.state is LoadState.LOADING
        for listener in [*second.parts.topics.on_deleting, *second.parts.topics.on_deleted]:
            listener(frozenset({"t"}))
        while loading.state is LoadState.LOADING:
            await asyncio.sleep(0)
        assert second.groups.offsets_of("h").partitions() == [("u", 0)]
        await second.mark(0, True)

    second.run(work())
    assert [group.group_id for group in second.groups.list_groups()[1]] == ["h"]
    second.groups.stop()
    second.parts.close()
    third = start()
    third.ready()
    assert [group.group_id for group in third.groups.list_groups()[1]] == ["h"]
    assert third.groups.offsets_of("h").partitions() == [("u", 0)]
    third.groups.stop()


def test_groups_stay_loaded_while_their_partition_stays_led(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 1)
    [loaded] = running.groups.all_partition_groups()
    raise_epoch(loaded.partition)
    assert running.groups.all_partition_groups() == [loaded]
    running.commit("g", 2)
    begin_epoch(loaded.partition)
    assert running.groups.all_partition_groups() != [loaded]
    running.ready()
    running.groups.stop()


@pytest.mark.parametrize("ends", ["deleted", "classic"])
def test_who_waits_for_a_group_that_is_replaced_is_answered(start: Callable[..., Running], ends: str) -> None:
    running = start()
    running.ready()
    partition_groups = running.groups.partition_groups_for("g")
    partition_groups.partition.log.config = running.parts.config.log_config({"flush.messages": 1})

    async def work() -> object:
        context: Any = None
        membership = ConsumerMembership(ConsumerGroup("g"), context)
        group = partition_groups.groups["g"] = Group("g", membership, GroupOffsets())
        token = running.parts.loop.create_future()
        outcome = Outcome("left", [group_records.group_epoch("g", 1)])
        membership.apply(outcome, token, running.groups.now())
        ending: asyncio.Future[Any] | None = None
        # No flush ends meanwhile, however fast the disk is.
        with partition_groups.partition.log.flushes:
            partition_groups.settle(group)
            assert not token.done()
            if ends == "deleted":
                ending = asyncio.ensure_future(partition_groups.removal.delete_group("g"))
                await asyncio.sleep(0)
            else:
                partition_groups.classic("g", create=True)
        if ending is not None:
            await ending
        return await token

    assert isinstance(running.run(work()), NotCoordinatorError)


@pytest.mark.parametrize("fails", ["at once", "later"])
def test_changes_that_the_disk_loses_are_forgotten(start: Start, fails: str) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    partition_groups = running.groups.partition_groups_for("g")
    log = partition_groups.partition.log
    running.hold_replication()

    async def work() -> None:
        context: Any = None
        membership = ConsumerMembership(ConsumerGroup("g"), context)
        group = partition_groups.groups["g"] = Group("g", membership, GroupOffsets())
        tokens = [running.parts.loop.create_future() for _ in range(3)]
        commit = asyncio.ensure_future(running.groups.commit("other", ANYBODY, {T0: at(2)}))
        await asyncio.sleep(0)
        for epoch, token in enumerate(tokens, 1):
            if fails == "at once" and epoch == 3:
                refuse_appends(partition_groups.partition)
            outcome = Outcome("done", [group_records.group_epoch("g", epoch)])
            membership.apply(outcome, token, running.groups.now())
            partition_groups.settle(group)
        await asyncio.sleep(0)
        if fails == "at once":
            # The one that was not appended is undone; the others are under way.
            assert isinstance(await tokens.pop(), CoordinatorNotAvailableError)
            assert membership.group.group_epoch == 2
        assert not any(token.done() for token in tokens)
        log.offline = "the disk fails"
        # As a flush that fails does.
        running.parts.replicas.produce_purgatory.notify(partition_groups.partition.key)
        with pytest.raises(NotCoordinatorError):
            await commit
        assert [type(await token) for token in tokens] == [NotCoordinatorError] * len(tokens)

    running.run(work())
    assert partition_groups.state is LoadState.FAILED
    assert not partition_groups.groups
    with pytest.raises(NotCoordinatorError):
        running.groups.offsets_of("g")
    running.groups.stop()


def test_the_groups_of_a_failed_partition_are_read_anew(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 1)
    [partition_groups] = running.groups.all_partition_groups()
    partition_groups.fail("are unloaded by a test")
    with pytest.raises(NotCoordinatorError):
        running.groups.offsets_of("g")
    monkeypatch.setattr(partition_groups_module, "RETRY_LOAD_MS", 0)
    running.ready()
    assert running.committed("g") == 1
    running.groups.stop()


def test_who_asks_for_a_coordinator_does_not_wait_for_a_look_at_every_partition(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(offsets_topic_num_partitions="3")
    looked: list[int] = []
    leads = running.groups.log.leads

    def look(index: int) -> Partition | None:
        looked.append(index)
        return leads(index)

    monkeypatch.setattr(running.groups.log, "leads", look)
    assert running.run(running.groups.ready()) == 3
    assert looked == [0, 1, 2]
    for _ in range(5):
        running.run(running.groups.ready())
    assert looked == [0, 1, 2]
    # Another leader, say: the registry has another state of the topic.
    topic = running.parts.store.state.topics["__consumer_offsets"]
    changed = replace(topic, config={**topic.config, "segment.bytes": "1048576"})
    running.run(running.parts.store.commit(having(changed)))
    running.run(running.groups.ready())
    assert looked == [0, 1, 2] * 2
    running.groups.stop()
