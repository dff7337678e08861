"""Test that members with many topics, or with large subscriptions, are bounded and delay nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from broker.api import large
from broker.api.groups import groups
from kafkalog.protocol.embedded import consumer
from kafkalog.protocol.embedded.consumer import ConsumerSubscription, encode_subscription
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkalog.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.coordinator.group.large_requests import join_request
from tests.broker.coordinator.group.running import DEADLINE_S
from tests.broker.coordinator.group.serving import HANDLERS, PARTITIONS, Serving
from tests.support.in_process.asking import Client, request_of


def beat(member: str, epoch: int, owned: Iterable[int] | None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    topics = None
    if owned is not None:
        topics = [TopicPartitions(topic_id=UUID(int=1), partitions=[index]) for index in owned]
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, topic_partitions=topics, **fields
    )


def test_so_many_protocols_of_a_member_count(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member supports the first ones that it names."""
    monkeypatch.setattr(groups, "MOST_PROTOCOLS", 3)

    def joining(*names: str) -> tuple[Any, int]:
        message, version = join_request()
        message.protocols = [JoinGroupRequestProtocol(name=name, metadata=b"") for name in names]
        return message, version

    async def work() -> None:
        assert (await serving.ask(*joining("a", "b", "c", "d"))).protocol_name == "a"
        assert (await serving.ask(*joining("d"))).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        joins = asyncio.ensure_future(serving.ask(*joining("c")))
        while serving.broker.groups.describe("g").state != "PreparingRebalance":
            await asyncio.sleep(0)
        serving.broker.groups.stop()
        await joins
        await asyncio.sleep(0)

    serving.run(work())


def test_a_worker_encodes_large_subscriptions(serving: Serving) -> None:
    async def work() -> None:
        for size, turns in ((1000, 0), (2 << 20, 1)):
            message, version = join_request()
            message.group_id = f"g{size}"
            message.protocols[0].metadata = bytes(size)
            request = request_of(serving.broker, message, version, Client())
            pending = HANDLERS[JoinGroupRequest](request)
            assert pending is not None
            await pending
            assert request.response.members[0].metadata == bytes(size)
            assert (request.turn.ended if request.turn is not None else 0) == turns

    serving.run(work())


@pytest.mark.parametrize("large_part", ["subscription", "assignment"])
def test_a_worker_encodes_large_members(serving: Serving, monkeypatch: pytest.MonkeyPatch, large_part: str) -> None:
    """Several groups may have so many bytes; one has fewer than a record batch."""
    monkeypatch.setattr(large, "TURN_SECONDS", DEADLINE_S)
    monkeypatch.setattr(groups, "ENCODED_AT_ONCE", 1500)

    async def work() -> None:
        for size, turns in ((1000, 0), (2000, 1)):
            message, version = join_request()
            message.group_id = f"g{size}"
            sizes = {"subscription": 0, "assignment": 0, large_part: size}
            message.protocols[0].metadata = bytes(sizes["subscription"])
            joined = await serving.ask(message, version)
            assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(sizes["assignment"]))
            syncing = SyncGroupRequest(
                group_id=message.group_id, member_id=joined.member_id, generation_id=joined.generation_id,
                protocol_type="consumer", protocol_name="range", assignments=[assigned],
            )  # fmt: skip
            assert (await serving.ask(syncing, 5)).error_code == ErrorCode.NONE
            request = request_of(serving.broker, DescribeGroupsRequest(groups=[message.group_id]), 5, Client())
            pending = HANDLERS[DescribeGroupsRequest](request)
            assert pending is not None
            await pending
            [member] = request.response.groups[0].members
            assert [len(member.member_metadata), len(member.member_assignment)] == list(sizes.values())
            assert (request.turn.ended if request.turn is not None else 0) == turns

    serving.run(work())


@pytest.mark.parametrize(
    "owned",
    [
        lambda: [TopicPartitions(topic_id=UUID(int=1), partitions=list(range(200_001)))],
        lambda: [TopicPartitions(topic_id=UUID(int=number)) for number in range(200_001)],
    ],
    ids=["partitions", "empty topics"],
)
def test_a_member_owns_so_much(serving: Serving, owned: Callable[[], list[TopicPartitions]]) -> None:
    """More than that would be looked at in one turn."""

    async def work() -> None:
        told: dict[str, Any] = {"subscribed_topic_names": ["t"], "topic_partitions": owned()}
        message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", rebalance_timeout_ms=1000, **told)
        assert (await serving.ask(message, 0)).error_code == ErrorCode.INVALID_REQUEST
        assert not serving.broker.groups.groups()

    serving.run(work())


def test_partitions_are_given_back_in_turns(serving: Serving) -> None:
    """A topic may be named for each of its partitions."""

    async def work() -> None:
        joins = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["t"]}
        first = await serving.ask(beat("a", 0, (), **joins), 0)
        assert first.assignment.topic_partitions[0].partitions == list(range(PARTITIONS))
        await serving.ask(beat("b", 0, (), **joins), 0)
        told = await serving.ask(beat("a", 1, None), 0)
        kept = told.assignment.topic_partitions[0].partitions
        assert (told.member_epoch, len(kept)) == (1, PARTITIONS // 2)
        assert (await serving.ask(beat("a", 1, range(PARTITIONS)), 0)).member_epoch == 1
        assert (await serving.ask(beat("a", 1, kept), 0)).member_epoch == 2
        assert serving.turns >= len(kept)

    serving.run(work())


@pytest.mark.parametrize("distinct", [50_000, 130_000])
def test_a_member_is_subscribed_to_what_a_record_can_hold(serving: Serving, distinct: int) -> None:
    """It may name topics again. More than a record can hold are refused as Apache Kafka refuses them, but in turns."""
    names = [f"topic-{number:06d}" for number in range(distinct)] * 3

    async def work() -> None:
        message = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=names, topic_partitions=[]
        )
        response = await serving.ask(message, 0)
        if distinct * len(names[0]) < 1_000_000:
            assert response.error_code == ErrorCode.NONE
            (member,) = serving.broker.consumer_groups.describe("g").members
            assert member.subscribed_topic_names == names[:distinct]
        else:
            assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert not serving.broker.groups.groups()

    serving.run(work())


def subscribed(topics: int, owned: int = 0) -> bytes:
    partitions = [consumer.TopicPartitions(topic="t", partitions=list(range(owned)))]
    return encode_subscription(ConsumerSubscription(topics=["t"] * topics, owned_partitions=partitions))


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (subscribed(190_000), ErrorCode.NONE),
        (subscribed(300_000), ErrorCode.INVALID_REQUEST),
        (subscribed(100_000, 150_000), ErrorCode.INVALID_REQUEST),
        # No record can hold it, so it is not even read.
        (b"\xff" * (2 << 20), ErrorCode.UNKNOWN_SERVER_ERROR),
        (encode_subscription(ConsumerSubscription(topics=["\ufffd" * 10_000])), ErrorCode.NONE),
        (b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x4e\x20" + b"\xff" * 20_004, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
    ids=["names", "too many names", "too many partitions", "too large", "long name", "too long name"],
)
def test_a_classic_member_of_a_consumer_group_tells_so_much(
    serving: Serving, metadata: bytes, error: ErrorCode
) -> None:
    """All of it is examined in one turn."""

    async def work() -> None:
        joins = beat("a", 0, (), rebalance_timeout_ms=10_000, subscribed_topic_names=["t"])
        assert (await serving.ask(joins, 0)).error_code == ErrorCode.NONE
        message, version = join_request()
        message.protocols[0].metadata = metadata
        assert (await serving.ask(message, version)).error_code == error
        members = serving.broker.consumer_groups.describe("g").members
        assert len(members) == (2 if error is ErrorCode.NONE else 1)
        assert (await serving.ask(beat("a", 1, None), 0)).error_code == ErrorCode.NONE

    serving.run(work())
