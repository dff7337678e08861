"""Test that large requests about groups let other requests run, and get correct responses."""

from __future__ import annotations

import asyncio

import pytest

from broker.api import large
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.broker.coordinator.group.large_requests import LARGE, commit_request, fetch_group, fetch_groups, join_request
from tests.broker.coordinator.group.running import DEADLINE_S
from tests.broker.coordinator.group.serving import HANDLERS, MANY, PARTITIONS, TURNS, Serving
from tests.support.in_process.asking import Client, request_of


@pytest.mark.parametrize("name", LARGE)
def test_others_have_their_turn(serving: Serving, name: str) -> None:
    async def work() -> None:
        await serving.commit(1)
        await serving.ask(*LARGE[name])
        assert serving.turns >= TURNS

    serving.run(work())


@pytest.mark.parametrize("name", ["DescribeGroups", "ConsumerGroupDescribe", "DeleteGroups"])
def test_names_are_made_distinct_in_turns(serving: Serving, name: str) -> None:
    """Once to look for names that come again, and once to serve them."""
    message, version = LARGE[name]
    request = request_of(serving.broker, message, version, Client())
    pending = HANDLERS[type(message)](request)
    assert pending is not None
    serving.run(pending)
    assert request.turn is not None
    assert request.turn.ended == 2 * MANY


def test_small_requests_take_one_turn(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "TURN_SECONDS", DEADLINE_S)

    async def work() -> None:
        await serving.commit(1)
        await serving.ask(fetch_groups(fetch_group(MANY)), 8)
        assert serving.turns == 0

    serving.run(work())


def test_a_commit_of_many_partitions_is_one_batch(serving: Serving) -> None:
    async def work() -> None:
        response = await serving.ask(commit_request(MANY), 8)
        codes = [partition.error_code for partition in response.topics[0].partitions]
        assert codes[:PARTITIONS] == [ErrorCode.NONE] * PARTITIONS
        assert codes[PARTITIONS:] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (MANY - PARTITIONS)
        log = serving.broker.groups.log
        pieces = [piece async for piece in log.replay(log.partition_for("g"), list)]
        assert [len(batch.records) for piece in pieces for batch in piece] == [PARTITIONS]
        assert serving.offsets() == {2}

    serving.run(work())


def test_a_group_that_changes_while_a_commit_is_prepared(serving: Serving) -> None:
    async def work() -> None:
        await serving.commit(1, [0])
        committing = asyncio.ensure_future(serving.ask(commit_request(PARTITIONS), 8))
        while serving.turns < 2:
            await asyncio.sleep(0)
        # Whoever is no member may commit to an empty group only.
        joining = asyncio.ensure_future(serving.ask(*join_request()))
        response = await committing
        codes = {partition.error_code for partition in response.topics[0].partitions}
        assert codes == {ErrorCode.UNKNOWN_MEMBER_ID}
        assert serving.offsets() == {1}
        serving.broker.groups.stop()
        await joining

    serving.run(work())


@pytest.mark.parametrize("partitions", [PARTITIONS, None])
def test_offsets_are_answered_as_they_were_at_one_moment(serving: Serving, partitions: int | None) -> None:
    async def work() -> None:
        await serving.commit(1)
        fetching = asyncio.ensure_future(serving.ask(fetch_groups(fetch_group(partitions)), 8))
        while serving.turns < 2:
            await asyncio.sleep(0)
        # Those that have not been looked at yet.
        await serving.commit(5, range(PARTITIONS - 5, PARTITIONS))
        assert not fetching.done()
        response = await fetching
        [topic] = response.groups[0].topics
        assert [partition.partition_index for partition in topic.partitions] == list(range(PARTITIONS))
        assert {partition.committed_offset for partition in topic.partitions} == {1}
        assert serving.offsets() == {1, 5}

    serving.run(work())


def test_all_offsets_of_a_group_are_answered_once(serving: Serving) -> None:
    async def work() -> None:
        await serving.commit(1)
        response = await serving.ask(fetch_groups(*(fetch_group(None) for _ in range(20)), fetch_group(1)), 8)
        assert [len(group.topics[0].partitions) for group in response.groups] == [PARTITIONS, 1]
        described = await serving.ask(ConsumerGroupDescribeRequest(group_ids=["g"] * 3), 0)
        assert [group.group_id for group in described.groups] == ["g"]

    serving.run(work())
