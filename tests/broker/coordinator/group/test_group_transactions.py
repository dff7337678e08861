"""Test that offsets committed in transactions take effect when they are replicated, as the log says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.coordinator.group.coordinator_parts import LoadState
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidCommitOffsetSizeError,
    NotCoordinatorError,
    RequestTimedOutError,
)
from tests.broker.coordinator.group.running import ANYBODY, IN_TRANSACTION, PRODUCER, T0, Running, Start, at
from tests.broker.coordinator.support import refuse_appends


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("restart", ["never", "before the marker", "after the marker"])
def test_offsets_of_a_transaction_hold_when_it_commits(start: Start, committed: bool, restart: str) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 1)
    running.run(running.groups.commit("g", IN_TRANSACTION, {T0: at(2)}, PRODUCER))
    assert running.groups.offsets_of("g", require_stable=True)[T0] == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert running.committed("g") == 1

    def again() -> Running:
        running.groups.stop()
        running.parts.close()
        other = start()
        other.ready()
        return other

    if restart == "before the marker":
        running = again()
        assert running.committed("g") == 1
    running.run(running.mark(0, committed))
    if restart == "after the marker":
        running = again()
    assert running.committed("g") == (2 if committed else 1)
    assert running.groups.offsets_of("g", require_stable=True)[T0][1] is ErrorCode.NONE
    running.groups.stop()


def test_a_marker_that_comes_while_groups_are_loaded_is_not_lost(start: Start) -> None:
    first = start(offsets_topic_num_partitions="1")
    first.ready()
    first.run(first.groups.commit("g", IN_TRANSACTION, {T0: at(2)}, PRODUCER))
    first.parts.close()
    second = start()

    async def work() -> None:
        second.groups.start()
        await second.mark(0, True)
        assert second.groups.all_partition_groups()[0].state is LoadState.LOADING

    second.run(work())
    second.ready()
    assert second.committed("g") == 2
    second.groups.stop()


@pytest.mark.parametrize("producer", [PRODUCER, None], ids=["transactional", "plain"])
@pytest.mark.parametrize("waits", [True, False], ids=["in time", "timed out"])
def test_what_is_in_the_log_is_in_force_once_it_is_replicated(
    start: Start, producer: tuple[int, int] | None, waits: bool
) -> None:
    running = start(offsets_topic_num_partitions="1", offsets_commit_timeout_ms="60000" if waits else "1")
    running.ready()
    release = running.hold_replication()
    request = IN_TRANSACTION if producer else ANYBODY

    async def work() -> None:
        # One after the other, so that the first one's replicas may be heard of after the last one's.
        commits = [
            asyncio.ensure_future(
                running.groups.commit(group, request, {T0: at(offset), ("u", 0): at(offset)}, producer)
            )
            for group in ("g", "h")
            for offset in (1, 2)
        ]
        await asyncio.sleep(0)
        if not waits:
            results = await asyncio.gather(*commits, return_exceptions=True)
            assert all(isinstance(result, RequestTimedOutError) for result in results)
        if producer is not None:
            await running.mark(0, True)
        assert (running.committed("g"), running.committed("h")) == (None, None)
        release()
        if waits:
            await asyncio.gather(*commits)
        while running.groups.offsets_of("h", require_stable=True)[T0][1] is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            await asyncio.sleep(0.001)

    running.run(work())
    offsets = {group.id: (group.offsets.committed, group.offsets.transactions) for group in running.groups.groups()}
    assert (running.committed("g"), running.committed("h")) == (2, 2)
    running.groups.stop()
    running.parts.close()
    again = start()
    again.ready()
    assert {
        group.id: (group.offsets.committed, group.offsets.transactions) for group in again.groups.groups()
    } == offsets
    again.groups.stop()


def test_a_commit_that_cannot_be_appended_leaves_what_its_transaction_committed_before(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.run(running.groups.commit("g", IN_TRANSACTION, {T0: at(1)}, PRODUCER))
    partition = running.groups.log.leads(0)
    assert partition is not None
    whole = partition.log.config
    partition.log.config = running.parts.config.log_config({"max.message.bytes": 100})
    with pytest.raises(InvalidCommitOffsetSizeError):
        running.run(running.groups.commit("g", IN_TRANSACTION, {T0: at(2)}, PRODUCER))
    partition.log.config = whole
    running.run(running.mark(0, True))
    assert running.committed("g") == 1
    running.groups.stop()
    running.parts.close()
    again = start()
    again.ready()
    assert again.committed("g") == 1
    again.groups.stop()


def test_what_cannot_be_removed_from_the_log_stays(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.commit("g", 1)
    running.run(running.member_that_leaves("h"))
    partition = running.groups.log.leads(0)
    assert partition is not None
    refuse_appends(partition)
    assert running.run(running.groups.delete_group("g")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert running.run(running.groups.delete_group("h")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(CoordinatorNotAvailableError):
        running.run(running.groups.delete_offsets("g", [T0]))
    removal = running.groups.all_partition_groups()[0].removal
    with monkeypatch.context() as broken:

        def fail(*args: object, **options: object) -> None:
            raise NotCoordinatorError

        # Too few replicas in sync are enough for these.
        broken.setattr(running.groups.log, "write", fail)
        assert running.run(removal.forget_topics(frozenset({"t"}))) == 0
    assert running.committed("g") == 1
    assert {group.id for group in running.groups.groups()} == {"g", "h"}
    refuse_appends(partition, False)
    assert running.run(removal.forget_topics(frozenset({"t"}))) == 1
    assert running.run(running.groups.delete_group("h")) is ErrorCode.NONE
    assert running.groups.groups() == []
    running.groups.stop()


@pytest.mark.parametrize("producer", [PRODUCER, None], ids=["transactional", "plain"])
@pytest.mark.parametrize("had_old", [True, False])
def test_what_is_pending_for_a_new_topic_of_a_deleted_topics_name_stays(
    start: Start, producer: tuple[int, int] | None, had_old: bool
) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    running.run(running.groups.commit("g", ANYBODY, {T0 if had_old else ("other", 0): at(1)}))
    [partition_groups] = running.groups.all_partition_groups()
    end = partition_groups.partition.log.log_end_offset
    release = running.hold_replication()

    async def work() -> None:
        request = ANYBODY if producer is None else IN_TRANSACTION
        commit = asyncio.ensure_future(running.groups.commit("g", request, {T0: at(2)}, producer))
        await asyncio.sleep(0)
        assert await partition_groups.removal.forget_topics(frozenset({"t"}), end) == 0
        release()
        await commit
        if producer is not None:
            await running.mark(0, True)
        while running.groups.offsets_of("g", require_stable=True)[T0][1] is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            await asyncio.sleep(0.001)

    running.run(work())
    assert running.committed("g") == 2
    running.groups.stop()
    running.parts.close()
    again = start()
    again.ready()
    assert again.committed("g") == 2
    again.groups.stop()


def test_an_append_that_no_transaction_covers_is_refused(start: Start) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()

    def refuse(partition: Any) -> None:
        assert partition.topic == "__consumer_offsets"
        raise NotCoordinatorError

    with pytest.raises(NotCoordinatorError):
        running.run(running.groups.commit("g", IN_TRANSACTION, {T0: at(2)}, PRODUCER, refuse))
    assert not list(running.groups.list_groups()[1])
    running.groups.stop()
