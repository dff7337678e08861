"""Tests of groups over sockets: members, offsets, administration, in every version, and after kills of the broker."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalog.protocol.messages.join_group import JoinGroupResponse
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.list_groups import ListGroupsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkalog.protocol.messages.sync_group import SyncGroupRequest
from tests.broker.api.groups.groups_support import (
    commit,
    committed,
    fetch_response,
    find,
    heartbeat,
    join,
    join_request,
    leave,
    member,
    ready,
    subscription,
    sync,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, exchange, produce

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
NONE = ErrorCode.NONE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
NOBODY = JoinGroupResponse(generation_id=1, member_id="nobody")


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    """A broker of this module's own, that does not wait for further members."""
    with KafkalogBroker(tmp_path_factory.mktemp("groups"), SETTINGS) as running:
        with running.connect() as sock:
            create_topic(sock, "t", 4)
            assert find(sock, "g").error_code == NONE
        yield running


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex}"


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_the_broker_coordinates(wire: socket.socket, broker: KafkalogBroker, version: int, key_type: int) -> None:
    if key_type and not version:
        # Version 0 knows groups alone.
        key_type = 0
    found = find(wire, "g", version, key_type)
    assert (found.error_code, found.node_id, found.host, found.port) == (NONE, 0, broker.host, broker.port)


def test_other_kinds_of_coordinators_are_not_known(wire: socket.socket) -> None:
    assert find(wire, "g", 5, 2).error_code == ErrorCode.INVALID_REQUEST
    assert find(wire, "g", 6, 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert find(wire, "g", 6, 9).error_code == ErrorCode.INVALID_REQUEST


def test_the_topic_is_internal_and_clients_do_not_produce_into_it(wire: socket.socket) -> None:
    name = "__consumer_offsets"
    topic = exchange(wire, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9).topics[0]
    assert (topic.is_internal, len(topic.partitions)) == (True, 3)
    assert produce(wire, name, batch([b"x"])).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_lives_and_leaves(wire: socket.socket, group: str, version: int) -> None:
    joined = join(wire, group, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (NONE, 1, "range")
    assert (joined.leader, len(joined.members)) == (joined.member_id, 1)
    if version >= 7:
        assert joined.protocol_type == "consumer"
    synced = sync(wire, group, joined, {joined.member_id: b"mine"}, version=min(version, 5))
    assert (synced.error_code, bytes(synced.assignment)) == (NONE, b"mine")
    assert heartbeat(wire, group, joined, min(version, 4)) == NONE
    assert leave(wire, group, joined, min(version, 5)) == NONE
    assert heartbeat(wire, group, joined) == UNKNOWN
    assert leave(wire, group, joined, min(version, 5)) == UNKNOWN


def test_members_wait_for_each_other(broker: KafkalogBroker, wire: socket.socket, group: str) -> None:
    with broker.connect() as other, ThreadPoolExecutor(2) as threads:
        first = member(wire, group)
        second = threads.submit(join, other, group)
        wait_until(lambda: heartbeat(wire, group, first) == ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
        first = exchange(wire, join_request(group, first.member_id), 9)
        joined = second.result(60)
        assert (first.generation_id, joined.generation_id) == (2, 2)
        assert {each.member_id for each in first.members} == {first.member_id, joined.member_id}
        assert not joined.members
        waiting = threads.submit(sync, other, group, joined, {})
        sync(wire, group, first, {first.member_id: b"1", joined.member_id: b"2"})
        assert bytes(waiting.result(60).assignment) == b"2"


def test_a_static_member_is_back(wire: socket.socket, group: str) -> None:
    old = member(wire, group, group_instance_id="i")
    new = join(wire, group, group_instance_id="i")
    assert (new.error_code, new.generation_id, new.skip_assignment) == (NONE, 1, True)
    assert new.leader == new.member_id != old.member_id
    assert bytes(sync(wire, group, new, {}, instance_id="i").assignment) == b"everything"
    request = LeaveGroupRequest(
        group_id=group,
        members=[
            MemberIdentity(member_id=old.member_id, group_instance_id="i"),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id="", group_instance_id="nobody"),
        ],
    )
    answers = exchange(wire, request, 5).members
    assert [each.error_code for each in answers] == [ErrorCode.FENCED_INSTANCE_ID, NONE, UNKNOWN]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, UNKNOWN),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_joins_that_are_refused(wire: socket.socket, group: str, fields: dict[str, Any], code: ErrorCode) -> None:
    request = join_request(group)
    for name, value in fields.items():
        setattr(request, name, value)
    response = exchange(wire, request, 9)
    assert (response.error_code, response.generation_id) == (code, -1)


def test_a_sync_must_say_its_protocol(wire: socket.socket, group: str) -> None:
    joined = join(wire, group)
    request = SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    assert exchange(wire, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert exchange(wire, request, 4).error_code == NONE


# -- offsets


@pytest.mark.parametrize("version", range(10))
def test_offsets_are_committed_and_fetched(wire: socket.socket, group: str, version: int) -> None:
    epoch = 4 if version >= 6 else -1
    offsets = {("t", 0): 5, ("t", 3): 1 << 40}
    assert commit(wire, group, offsets, version, metadata="note", leader_epoch=epoch) == [NONE, NONE]
    assert committed(wire, group, list(offsets), version) == offsets
    if version >= 2:
        assert committed(wire, group, None, version) == offsets
    partition = fetch_response(wire, group, [("t", 0)], version).topics[0].partitions[0]
    assert partition.metadata == "note"
    assert partition.committed_leader_epoch == (epoch if version >= 5 else -1)


@pytest.mark.parametrize("version", [7, 9])
def test_the_offset_of_a_partition_that_is_named_twice_is_answered_once(
    wire: socket.socket, group: str, version: int
) -> None:
    """Its metadata may be 1,000 times as long as its number."""
    assert commit(wire, group, {("t", 0): 5}, metadata="note") == [NONE]
    response = fetch_response(wire, group, [("t", 0), ("t", 1), ("t", 0)], version)
    found = [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]
    assert found == [("t", 0), ("t", 1)]


@pytest.mark.parametrize("version", [2, 4])
def test_a_retention_beyond_the_end_of_time(wire: socket.socket, group: str, version: int) -> None:
    assert commit(wire, group, {("t", 0): 5}, version, retention_time_ms=(1 << 63) - 1) == [NONE]
    assert committed(wire, group) == {("t", 0): 5}


@pytest.mark.parametrize("version", range(10))
def test_offsets_that_there_are_not(wire: socket.socket, group: str, version: int) -> None:
    partition = fetch_response(wire, group, [("t", 1)], version).topics[0].partitions[0]
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else NONE
    assert (partition.committed_offset, partition.error_code, partition.metadata) == (-1, code, "")


def test_many_groups_are_asked_at_once(wire: socket.socket) -> None:
    names = [f"many-{number}" for number in range(6)]
    for number, name in enumerate(names):
        commit(wire, name, {("t", 0): number})
    wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    groups = exchange(wire, OffsetFetchRequest(groups=wanted), 9).groups
    assert [group.topics[0].partitions[0].committed_offset for group in groups] == list(range(6))


def test_commits_that_are_refused(wire: socket.socket, group: str) -> None:
    offsets = {("t", 0): 1, ("t", 4): 1, ("missing", 0): 1}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, group, offsets) == [NONE, unknown, unknown]
    assert commit(wire, group, {("t", 0): 1}, metadata="x" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit(wire, "new" + group, {("t", 0): 1}, generation_id_or_member_epoch=3, member_id="m") == [
        ErrorCode.ILLEGAL_GENERATION
    ]
    joined = member(wire, group)
    fields = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
    assert commit(wire, group, {("t", 0): 2}, **fields) == [NONE]
    assert commit(wire, group, {("t", 0): 2}) == [UNKNOWN]
    fields["generation_id_or_member_epoch"] = 9
    assert commit(wire, group, {("t", 0): 2}, **fields) == [ErrorCode.ILLEGAL_GENERATION]
    assert committed(wire, group) == {("t", 0): 2}


def test_the_group_without_a_name_has_offsets_alone(wire: socket.socket) -> None:
    assert commit(wire, "", {("t", 0): 3}) == [NONE]
    assert committed(wire, "") == {("t", 0): 3}


def delete_offsets(sock: socket.socket, group: str, *partitions: tuple[str, int]) -> Any:
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
        for topic, index in partitions
    ]
    return exchange(sock, OffsetDeleteRequest(group_id=group, topics=topics), 0)


def test_offsets_are_deleted_unless_the_topic_is_read(wire: socket.socket, group: str) -> None:
    create_topic(wire, f"other-{group}", 1)
    other = (f"other-{group}", 0)
    assert delete_offsets(wire, group, other).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    commit(wire, group, {("t", 0): 1, ("t", 1): 1, other: 1})
    response = delete_offsets(wire, group, ("t", 0), ("t", 9))
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    member(wire, group)
    response = delete_offsets(wire, group, ("t", 1), other)
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE]
    assert committed(wire, group) == {("t", 1): 1}


def test_a_deleted_topics_offsets_are_forgotten(wire: socket.socket, group: str) -> None:
    create_topic(wire, f"gone-{group}", 1)
    commit(wire, group, {(f"gone-{group}", 0): 7, ("t", 0): 1})
    exchange(wire, DeleteTopicsRequest(topic_names=[f"gone-{group}"], timeout_ms=10_000), 5)
    wait_until(lambda: committed(wire, group) == {("t", 0): 1}, "the offsets of the deleted topic are gone")


# -- administration


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(wire: socket.socket, group: str, version: int) -> None:
    member(wire, group)
    commit(wire, "simple-" + group, {("t", 0): 1})
    listed = {each.group_id: each for each in exchange(wire, ListGroupsRequest(), version).groups}
    assert (listed[group].protocol_type, listed["simple-" + group].protocol_type) == ("consumer", "")
    if version >= 4:
        assert (listed[group].group_state, listed["simple-" + group].group_state) == ("Stable", "Empty")
        found = exchange(wire, ListGroupsRequest(states_filter=["sTaBle"]), version).groups
        assert group in {each.group_id for each in found}
        assert "simple-" + group not in {each.group_id for each in found}
    if version >= 5:
        assert listed[group].group_type == "classic"
        assert not exchange(wire, ListGroupsRequest(types_filter=["consumer"]), version).groups
        assert exchange(wire, ListGroupsRequest(types_filter=["Classic"]), version).groups


@pytest.mark.parametrize("version", range(6))
def test_groups_are_described(wire: socket.socket, group: str, version: int) -> None:
    joined = member(wire, group)
    request = DescribeGroupsRequest(groups=[group, "nobody", group], include_authorized_operations=version >= 3)
    described, dead = exchange(wire, request, version).groups
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    [only] = described.members
    assert (only.member_id, only.client_id, only.client_host) == (joined.member_id, "wire-test", "/127.0.0.1")
    assert bytes(only.member_assignment) == b"everything"
    assert (dead.error_code, dead.group_state) == (NONE, "Dead")
    assert described.authorized_operations == (0b101001000 if version >= 3 else -(1 << 31))


def test_what_a_member_has_sent_outlives_its_requests(wire: socket.socket, group: str) -> None:
    """Requests of this size are decoded in the buffer that the next one is received into."""
    topics = tuple(f"topic-{number:09}" for number in range(600))
    joined = join(wire, group, topics=topics)
    sync(wire, group, joined, {joined.member_id: b"a" * 10_000})
    for _ in range(3):
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="z" * 249)] * 50, allow_auto_topic_creation=False)
        exchange(wire, asked, 9)
    (described,) = exchange(wire, DescribeGroupsRequest(groups=[group]), 5).groups
    (only,) = described.members
    assert bytes(only.member_metadata) == subscription(*topics)
    assert bytes(only.member_assignment) == b"a" * 10_000


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_when_they_are_empty(wire: socket.socket, group: str, version: int) -> None:
    joined = member(wire, group)
    fields = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
    commit(wire, group, {("t", 0): 2}, **fields)
    request = DeleteGroupsRequest(groups_names=[group, "nobody"])
    codes = {each.group_id: each.error_code for each in exchange(wire, request, version).results}
    assert codes == {group: ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    leave(wire, group, joined)
    codes = {each.group_id: each.error_code for each in exchange(wire, request, version).results}
    assert codes[group] == NONE
    assert committed(wire, group) == {}


# -- stopping, dying, and what is left


def test_groups_and_offsets_survive_a_kill(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker(SETTINGS)
    with broker.connect() as sock:
        create_topic(sock, "t", 4)
        find(sock, "g")
        joined = member(sock, "g")
        fields = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
        assert commit(sock, "g", {("t", 0): 11}, **fields) == [NONE]
        commit(sock, "simple", {("t", 1): 12})
        commit(sock, "deleted", {("t", 1): 13})
        exchange(sock, DeleteGroupsRequest(groups_names=["deleted"]), 2)
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        for name in ("g", "simple", "deleted"):
            ready(sock, name)
        # The member goes on as if nothing had been.
        assert heartbeat(sock, "g", joined) == NONE
        assert commit(sock, "g", {("t", 0): 21}, **fields) == [NONE]
        assert committed(sock, "g") == {("t", 0): 21}
        assert committed(sock, "simple") == {("t", 1): 12}
        assert committed(sock, "deleted") == {}
        described = exchange(sock, DescribeGroupsRequest(groups=["g"]), 5).groups[0]
        assert (described.group_state, bytes(described.members[0].member_assignment)) == ("Stable", b"everything")


def test_a_member_that_waits_does_not_hold_up_a_stop(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({**SETTINGS, "group.initial.rebalance.delay.ms": "600000"})
    with broker.connect() as sock, ThreadPoolExecutor(1) as threads:
        find(sock, "g")
        waiting = threads.submit(join, sock, "g")
        with broker.connect() as other:
            wait_until(
                lambda: exchange(other, DescribeGroupsRequest(groups=["g"]), 5).groups[0].members != [], "it waits"
            )
        assert broker.stop() == 0
        assert waiting.result(60).error_code == ErrorCode.NOT_COORDINATOR


def test_the_topic_may_be_deleted_and_is_made_anew(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker(SETTINGS)
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        assert heartbeat(sock, "g", NOBODY) == NOT_COORDINATOR
        assert exchange(sock, ListGroupsRequest(), 5).error_code == NONE
        find(sock, "g")
        commit(sock, "g", {("t", 0): 1})
        exchange(sock, DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=10_000), 5)
        assert commit(sock, "g", {("t", 0): 1}) == [NOT_COORDINATOR]
        assert find(sock, "g").error_code == NONE
        assert committed(sock, "g") == {}
        assert commit(sock, "g", {("t", 0): 2}) == [NONE]
