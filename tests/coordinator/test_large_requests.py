"""Large requests about groups: others have their turn in between, and the answers are right all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.api import consumer_groups, coordinators, group_offsets, groups, large
from broker.api.context import Request
from broker.assembly import assemble
from broker.coordinator.group import service
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.shard_parts import ShardState
from broker.counters import RequestCounter
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic
from broker.replica.applier import ReplicaApplier
from kafkalog.protocol.codec import RequestHeader
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.list_groups import ListGroupsRequest
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkalog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkalog.protocol.schema import Response
from tests.coordinator.running import DEADLINE_S
from tests.coordinator.support import Stored

TURNS = 10
MANY = 60
PARTITIONS = 30
AT_ONCE = 10
HANDLERS: dict[Any, Callable[[Request], Awaitable[None] | None]] = {
    **coordinators.HANDLERS,
    **group_offsets.HANDLERS,
    **groups.HANDLERS,
    **consumer_groups.HANDLERS,
}
NAMES = [f"n{number}" for number in range(MANY)]


class Asked(Request):
    """A request whose response is kept, not sent."""

    __slots__ = ("response",)

    response: Any

    def reply(self, response: Response, wait_ms: int | None = None) -> None:
        self.response = response

    async def answer(self, response: Response, *done_with: Any, wait_ms: int | None = None) -> None:
        self.response = response


class Serving:
    """The parts of a broker, without connections, with a topic ``t`` of `PARTITIONS` partitions."""

    def __init__(self, parts: Stored) -> None:
        self.parts = parts
        applier = ReplicaApplier(parts.replicas, parts.cache.topic_config)
        self.broker = assemble(parts.config, 0, parts.store, parts.cache, parts.replicas, applier)
        self.turns = 0

        async def prepare() -> None:
            partitions = tuple(PartitionState((0,), (0,), 0, 0) for _ in range(PARTITIONS))
            topic = TopicState("t", UUID(int=1), partitions, {})
            await parts.store.commit(lambda state: [CreateTopic(topic)])
            await self.broker.groups.ready()
            while any(shard.state is ShardState.LOADING for shard in self.broker.groups.shards()):
                await asyncio.sleep(0.001)

        self.run(prepare())

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, DEADLINE_S)

        return self.parts.loop.run_until_complete(bounded())

    async def ask(self, message: Any, version: int) -> Any:
        """The response to a request; ``turns`` counts the rounds of the loop that it takes."""
        connection: Any = SimpleNamespace(peer="127.0.0.1", endpoint=SimpleNamespace(name="L"), closed=False)
        header = RequestHeader(message.api_key, version, 1, "c")
        request = Asked(self.broker, connection, header, message, RequestCounter("Any", 0), perf_counter(), 1, None)
        counting = asyncio.ensure_future(self._count())
        await asyncio.sleep(0)
        self.turns = 0
        pending = HANDLERS[type(message)](request)
        if pending is not None:
            await pending
        counting.cancel()
        return request.response

    async def _count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def offsets(self, group: str = "g") -> set[int]:
        """The different offsets that a group has committed."""
        view = self.broker.groups.offsets_of(group)
        return {committed.offset for at in view.partitions() if (committed := view[at][0]) is not None}

    async def commit(self, offset: int, partitions: Iterable[int] = range(PARTITIONS)) -> None:
        """Commit this offset for partitions of ``t``."""
        offsets = {("t", index): Committed(offset, -1, "", self.parts.now) for index in partitions}
        assert await self.broker.groups.commit("g", CommitRequest("", None, -1, 8), offsets) == {}


@pytest.fixture
def serving(stored: Callable[..., Stored], monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Handlers end their turn after each entry, and the coordinator after a few."""
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    for name in ("OFFSETS_AT_ONCE", "LEAVING_AT_ONCE", "TOMBSTONES_AT_ONCE"):
        monkeypatch.setattr(service, name, AT_ONCE)
    return Serving(stored(offsets_topic_num_partitions="2"))


def commit_request(count: int, **fields: Any) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=2) for index in range(count)]
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)], **fields
    )


def fetch_groups(*wanted: OffsetFetchRequestGroup) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=list(wanted))


def fetch_group(partitions: int | None, group: str = "g") -> OffsetFetchRequestGroup:
    topics = None
    if partitions is not None:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(partitions)))]
    return OffsetFetchRequestGroup(group_id=group, topics=topics)


LARGE: dict[str, tuple[Any, int]] = {
    "OffsetCommit": (commit_request(MANY), 8),
    "OffsetCommit of topics": (
        OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name=name) for name in NAMES]), 8,
    ),
    "TxnOffsetCommit": (
        TxnOffsetCommitRequest(
            group_id="g",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="none",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=index) for index in range(MANY)],
                )
            ],
        ),
        3,
    ),
    "OffsetFetch of groups": (fetch_groups(*(fetch_group(None, name) for name in NAMES)), 8),
    "OffsetFetch of partitions": (fetch_groups(fetch_group(MANY)), 8),
    "OffsetFetch of one group": (
        OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=list(range(MANY)))]
        ),
        7,
    ),
    "OffsetDelete": (
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in range(MANY)]
                )
            ],
        ),
        0,
    ),
    "FindCoordinator": (FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES), 4),
    "FindCoordinator of no type": (FindCoordinatorRequest(key_type=7, coordinator_keys=NAMES), 4),
    "DescribeGroups": (DescribeGroupsRequest(groups=NAMES), 5),
    "ConsumerGroupDescribe": (ConsumerGroupDescribeRequest(group_ids=NAMES), 0),
    "DeleteGroups": (DeleteGroupsRequest(groups_names=NAMES), 2),
    "LeaveGroup": (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=name) for name in NAMES]), 5),
    "SyncGroup": (
        SyncGroupRequest(
            group_id="g", member_id="m", protocol_type="consumer", protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=name) for name in NAMES],
        ),
        5,
    ),
    "ListGroups": (ListGroupsRequest(states_filter=NAMES), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_others_have_their_turn(serving: Serving, name: str) -> None:
    async def work() -> None:
        await serving.commit(1)
        await serving.ask(*LARGE[name])
        assert serving.turns >= TURNS

    serving.run(work())


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


def join_request() -> tuple[Any, int]:
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ), 3  # fmt: skip


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
