"""Test that offsets and groups are removed in turns, and what others ask or commit meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from broker.coordinator.group import removal
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.partition_groups import PartitionGroups
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic
from kafkalog.protocol.errors import CoordinatorNotAvailableError, ErrorCode
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.coordinator.group.large_requests import LARGE, commit_request, fetch_group, fetch_groups, join_request
from tests.broker.coordinator.group.serving import NAMES, PARTITIONS, Serving


def test_offsets_of_a_group_that_goes_while_they_are_deleted(serving: Serving) -> None:
    async def work() -> None:
        await serving.commit(1)
        deleting = asyncio.ensure_future(serving.ask(*LARGE["OffsetDelete"]))
        while serving.offsets() and len(serving.broker.groups.offsets_of("g").partitions()) == PARTITIONS:
            await asyncio.sleep(0)
        assert await serving.broker.groups.delete_group("g") is ErrorCode.NONE
        response = await deleting
        codes = [partition.error_code for partition in response.topics[0].partitions]
        assert codes[:PARTITIONS] == [ErrorCode.NONE] * PARTITIONS
        assert serving.offsets() == set()

    serving.run(work())


def tombstones_in_turns(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The turn of each batch that is written from now on; offsets are removed one at a time."""
    monkeypatch.setattr(removal, "TOMBSTONES_AT_ONCE", 1)
    turns = []
    write = serving.broker.groups.log.write

    def note(*args: Any, **options: Any) -> Any:
        turns.append(serving.turns)
        return write(*args, **options)

    monkeypatch.setattr(serving.broker.groups.log, "write", note)
    return turns


def test_nothing_is_asked_of_a_group_while_it_is_deleted(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has so many offsets that others have their turn: no member is to find a part of them."""

    async def work() -> None:
        await serving.commit(1)
        turns = tombstones_in_turns(serving, monkeypatch)
        deleting = asyncio.ensure_future(serving.ask(DeleteGroupsRequest(groups_names=["g"]), 2))
        while not turns:
            await asyncio.sleep(0)
        joined, fetched, committed = await asyncio.gather(
            serving.ask(*join_request()),
            serving.ask(fetch_groups(fetch_group(None)), 8),
            serving.ask(commit_request(1), 8),
        )
        assert not deleting.done()
        assert joined.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert fetched.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert committed.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        [result] = (await deleting).results
        assert result.error_code == ErrorCode.NONE
        assert len(turns) >= PARTITIONS, "more than one offset was removed at a time"
        assert serving.offsets() == set()
        assert not serving.broker.groups.groups()
        await serving.commit(7, [0])
        assert serving.offsets() == {7}

    serving.run(work())


def test_a_group_that_could_not_be_deleted_is_there(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        await serving.commit(1)
        with monkeypatch.context() as patch:

            def fail(*args: Any, **options: Any) -> Any:
                raise CoordinatorNotAvailableError

            patch.setattr(serving.broker.groups.log, "write", fail)
            assert await serving.broker.groups.delete_group("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert serving.offsets() == {1}
        await serving.commit(2, [0])
        assert await serving.broker.groups.delete_group("g") is ErrorCode.NONE

    serving.run(work())


def test_offsets_of_topics_deleted_together_go_in_one_walk_over_the_groups(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk for each of them would hold up the others for seconds where there are many."""
    one = (PartitionState((0,), (0,), 0, 0),)
    topics = [TopicState(name, UUID(int=number), one, {}) for number, name in enumerate(NAMES, 2)]
    walks = []
    in_turns = PartitionGroups.in_turns

    def note(self: PartitionGroups) -> Any:
        walks.append(self.index)
        return in_turns(self)

    monkeypatch.setattr(PartitionGroups, "in_turns", note)

    async def work() -> None:
        broker = serving.broker
        await serving.parts.store.commit(lambda state: [CreateTopic(topic) for topic in topics])
        offsets = {(name, 0): Committed(1, -1, "", serving.parts.now) for name in ["t", *NAMES]}
        assert await broker.groups.commit("g", CommitRequest("", None, -1, 8), offsets) == {}
        assert set((await broker.topics.delete(NAMES)).values()) == {None}
        while len(broker.groups.offsets_of("g").partitions()) > 1:
            await asyncio.sleep(0)
        assert broker.groups.offsets_of("g").partitions() == [("t", 0)]
        assert sorted(walks) == [each.index for each in broker.groups.all_partition_groups()]

    serving.run(work())


@pytest.mark.parametrize("why", ["expired", "topic deleted"])
def test_what_is_committed_while_offsets_are_removed_stays(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    async def work() -> None:
        await serving.commit(1)
        [owner] = [each for each in serving.broker.groups.all_partition_groups() if "g" in each.groups]
        offsets = owner.groups["g"].offsets
        # The one that is removed last; the order of a set is another one in each process.
        _, last = list(offsets.committed if why == "expired" else offsets.known())[-1]
        if why == "expired":
            serving.parts.now += 100 * 24 * 3600 * 1000
        turns = tombstones_in_turns(serving, monkeypatch)
        removing = asyncio.ensure_future(
            serving.broker.groups.expire_offsets() if why == "expired" else owner.removal.forget_topics(frozenset("t"))
        )
        while not turns:
            await asyncio.sleep(0)
        await serving.commit(5, [last])
        assert await removing == PARTITIONS - 1
        assert len(turns) >= PARTITIONS, "more than one offset was removed at a time"
        assert serving.broker.groups.offsets_of("g").partitions() == [("t", last)]
        assert serving.offsets() == {5}

    serving.run(work())


def test_what_no_log_takes_is_not_made_a_record_of(serving: Serving) -> None:
    """The error is the one that storing it would come to."""
    message, version = join_request()
    message.protocols[0].metadata = bytes((16 << 20) + 1)
    assignments = [SyncGroupRequestAssignment(member_id=name, assignment=bytes(9 << 20)) for name in "ab"]
    syncing = SyncGroupRequest(
        group_id="g", member_id="a", protocol_type="consumer", protocol_name="range", assignments=assignments
    )

    async def work() -> None:
        for request in ((message, version), (syncing, 5)):
            assert (await serving.ask(*request)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not serving.broker.groups.groups()

    serving.run(work())


def test_tombstones_of_a_group_with_a_long_id_are_in_batches_that_the_log_takes(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "g" * 32_000
    groups = serving.broker.groups
    monkeypatch.setattr(groups.log, "most_bytes", lambda index: 200_000)

    async def work() -> None:
        for index in range(PARTITIONS):
            offsets = {("t", index): Committed(3, -1, "", serving.parts.now)}
            assert await groups.commit(group, CommitRequest("", None, -1, 8), offsets) == {}
        assert serving.offsets(group) == {3}
        assert await groups.delete_group(group) is ErrorCode.NONE
        assert serving.offsets(group) == set()

    serving.run(work())
