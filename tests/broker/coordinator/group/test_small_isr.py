"""Test groups while the ISR is smaller than `min.insync.replicas`.

They stay loaded if it shrinks while a change is being stored: the high watermark passes the change all the same, so
that it is in the log for good.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.coordinator.group.classic.requests import Leaver, SyncRequest
from broker.coordinator.group.coordinator_parts import Group, LoadState
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership
from broker.coordinator.group.kip848.context import Outcome
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.partition_groups import PartitionGroups
from kafkalog.protocol.errors import CoordinatorNotAvailableError, ErrorCode
from tests.broker.coordinator.group.running import ANYBODY, T0, Running, Start, at
from tests.broker.coordinator.support import begin_epoch, refuse_appends


@pytest.fixture
def running(start: Start) -> Running:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    return running


async def stored_with_too_few_replicas(running: Running, change: Any) -> Any:
    """Return the result of a change that is appended before the ISR shrinks, and is replicated after that."""
    [partition_groups] = running.groups.all_partition_groups()
    release = running.hold_replication()
    waiting = asyncio.ensure_future(change)
    await asyncio.sleep(0)
    refuse_appends(partition_groups.partition)
    assert not waiting.done()
    release()
    results = await asyncio.gather(waiting, return_exceptions=True)
    refuse_appends(partition_groups.partition, False)
    return results[0]


def check_loaded(running: Running, before: PartitionGroups) -> None:
    assert before.state is LoadState.ACTIVE
    assert running.groups.all_partition_groups() == [before]


def test_a_commit_is_in_force(running: Running) -> None:
    [before] = running.groups.all_partition_groups()
    joined = running.run(running.member("g"))
    commit = running.groups.commit("simple", ANYBODY, {T0: at(2)})
    assert isinstance(running.run(stored_with_too_few_replicas(running, commit)), CoordinatorNotAvailableError)
    check_loaded(running, before)
    assert running.committed("simple") == 2
    assert running.classic.heartbeat("g", joined.member_id, None, joined.generation) is ErrorCode.NONE
    running.groups.stop()


def test_a_classic_group_assigns_anew(running: Running) -> None:
    [before] = running.groups.all_partition_groups()
    joined = running.run(running.joined("g"))
    request = SyncRequest(joined.member_id, None, joined.generation, None, None, {joined.member_id: b"all"})
    synced = running.run(stored_with_too_few_replicas(running, running.classic.sync("g", request)))
    assert synced.error is ErrorCode.REBALANCE_IN_PROGRESS
    check_loaded(running, before)
    again = running.run(running.joined("g", member_id=joined.member_id))
    assert (again.error, again.generation) == (ErrorCode.NONE, joined.generation + 1)
    assert running.run(running.classic.leave("g", [Leaver(joined.member_id)])) == [ErrorCode.NONE]
    running.groups.stop()


def test_a_change_of_a_consumer_group_stays(running: Running) -> None:
    [before] = running.groups.all_partition_groups()
    context: Any = None
    membership = ConsumerMembership(ConsumerGroup("g"), context)

    async def change() -> Any:
        group = before.groups["g"] = Group("g", membership, GroupOffsets())
        token = running.parts.loop.create_future()
        membership.apply(Outcome("done", [group_records.group_epoch("g", 7)]), token, running.groups.now())
        before.settle(group)
        return await token

    assert isinstance(running.run(stored_with_too_few_replicas(running, change())), CoordinatorNotAvailableError)
    check_loaded(running, before)
    assert membership.group.group_epoch == 7
    running.groups.stop()


@pytest.mark.parametrize("why", ["expired", "topic deleted"])
def test_offsets_are_removed_although_too_few_replicas_are_in_sync(running: Running, why: str) -> None:
    """Nothing removes those of a deleted topic later, and a new topic of its name would have them."""
    [partition_groups] = running.groups.all_partition_groups()
    running.commit("g", 5, running.parts.now)
    refuse_appends(partition_groups.partition)
    removal = partition_groups.removal
    removed = removal.expire(0) if why == "expired" else removal.forget_topics(frozenset({"t"}))
    assert running.run(removed) == 1
    assert running.committed("g") is None
    refuse_appends(partition_groups.partition, False)
    begin_epoch(partition_groups.partition)
    running.ready()
    assert running.committed("g") is None
    assert not running.groups.groups()
    running.groups.stop()
