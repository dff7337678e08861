"""Test that large requests about groups let other requests run, and get correct responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from broker.api import large
from broker.api.context import Request
from broker.api.groups import consumer_groups, coordinators, group_offsets, groups
from broker.assembly import assemble
from broker.coordinator.group import removal, service
from broker.coordinator.group.classic import classic_groups
from broker.coordinator.group.coordinator_parts import LoadState
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.partition_groups import PartitionGroups
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic
from broker.replica.applier import ReplicaApplier
from kafkalog.protocol.errors import CoordinatorNotAvailableError, ErrorCode
from kafkalog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
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
from tests.broker.coordinator.group.running import DEADLINE_S
from tests.broker.coordinator.support import Stored
from tests.support.asking import Client, request_of

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


class Serving:
    """The parts of a broker, without connections, with a topic `t` of `PARTITIONS` partitions."""

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
            while any(each.state is LoadState.LOADING for each in self.broker.groups.all_partition_groups()):
                await asyncio.sleep(0.001)

        self.run(prepare())

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, DEADLINE_S)

        return self.parts.loop.run_until_complete(bounded())

    async def ask(self, message: Any, version: int) -> Any:
        """The response to a request; `turns` counts the rounds of the loop that it takes."""
        request = request_of(self.broker, message, version, Client())
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
        """Commit this offset for partitions of `t`."""
        offsets = {("t", index): Committed(offset, -1, "", self.parts.now) for index in partitions}
        assert await self.broker.groups.commit("g", CommitRequest("", None, -1, 8), offsets) == {}


@pytest.fixture
def serving(stored: Callable[..., Stored], monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Handlers end their turn after each entry, and the coordinator after a few."""
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    for module, name in (
        (service, "OFFSETS_AT_ONCE"),
        (service, "TOMBSTONES_AT_ONCE"),
        (classic_groups, "LEAVING_AT_ONCE"),
    ):
        monkeypatch.setattr(module, name, AT_ONCE)
    return Serving(stored(offsets_topic_num_partitions="2", group_initial_rebalance_delay_ms="0"))


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
    "ConsumerGroupHeartbeat of topics": (
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=1,
            topic_partitions=[TopicPartitions(topic_id=UUID(int=number), partitions=[0]) for number in range(MANY)],
        ),
        0,
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
    "fields",
    [
        {"topic_partitions": [TopicPartitions(topic_id=UUID(int=1), partitions=list(range(200_001)))]},
        {"topic_partitions": [TopicPartitions(topic_id=UUID(int=number)) for number in range(200_001)]},
    ],
    ids=["partitions", "empty topics"],
)
def test_a_member_owns_so_much(serving: Serving, fields: dict[str, Any]) -> None:
    """More than that would be looked at in one turn."""

    async def work() -> None:
        told = {"subscribed_topic_names": ["t"], "topic_partitions": [], **fields}
        message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", rebalance_timeout_ms=1000, **told)
        assert (await serving.ask(message, 0)).error_code == ErrorCode.INVALID_REQUEST
        assert not serving.broker.groups.groups()

    serving.run(work())


def test_partitions_are_given_back_in_turns(serving: Serving) -> None:
    """A topic may be named for each of its partitions."""

    def beat(member: str, epoch: int, owned: Iterable[int] | None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        topics = None
        if owned is not None:
            topics = [TopicPartitions(topic_id=UUID(int=1), partitions=[index]) for index in owned]
        return ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, topic_partitions=topics, **fields
        )

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
