"""Test what is left out for those who may not see it, and what a denied entry leaves of the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.fetch.fetch_reading import QUIET_RESPONSES
from broker.api.registry import served_apis
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic, SetAcls
from broker.net.session import Principal
from broker.security.authorizer.authorizer import AUDIT_LOGGER
from broker.security.authorizer.model import NOT_ASKED, AclEntry, ResourcePattern, bits
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages import (
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_topics,
    describe_cluster,
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    list_groups,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from tests.broker.coordinator.support import Stored
from tests.broker.replica.in_process import InProcess, with_broker
from tests.broker.serving import HERE, RECORDS, TOPIC_ID, Serving
from tests.support.in_process.asking import Client, request_of
from tests.support.wire import batch

T29, G30, I53 = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
Op, Kind = AclOperation, AclResourceType
TRANSACTIONAL = bytes(batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
HOST = "10.1.2.3"
AUTHORIZED = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    **{f"transaction.state.log.{key}": "1" for key in ("replication.factor", "num.partitions", "min.isr")},
}


class Rights(Serving):
    """A broker with an authorizer, whose super user is `root`; `u` is a second topic.

    Attributes:
        apis: the handlers by the class of their requests.
    """

    def __init__(self, parts: Stored) -> None:
        super().__init__(parts, {api.request_type: api.handler for api in served_apis().values()})
        state = TopicState("u", TOPIC_ID.__class__(int=2), (PartitionState((0,), (0,), 0, 0),), {})
        self.run(parts.store.commit(lambda _: [CreateTopic(state)]))
        config = parts.replicas.topic_config({})
        parts.replicas.host_partition("u", 0, state.topic_id, state.partitions[0], config, is_new=True)

    def give(self, kind: AclResourceType, name: str, *operations: AclOperation, user: str = "ann") -> None:
        """Replace the rights on a resource."""
        entries = frozenset(AclEntry(f"User:{user}", HOST, each, AclPermission.ALLOW) for each in operations)
        pattern = ResourcePattern(kind, AclPatternType.LITERAL, name)
        self.run(self.parts.store.commit(lambda _: [SetAcls(pattern, entries)]))

    def asked(self, message: Any, version: int, user: str = "ann") -> Any:
        return self.run(self.ask(message, version, client(user)))


def client(user: str) -> Client:
    found = Client()
    found.session = SimpleNamespace(principal=Principal("User", user), peer=HOST)
    return found


@pytest.fixture
def rights(tmp_path: Path) -> Iterator[Rights]:
    settings = {
        "authorizer_class_name": AUTHORIZED["authorizer.class.name"],
        "super_users": "User:root",
        "group_initial_rebalance_delay_ms": "0",
    }
    with Stored(tmp_path, settings) as parts:
        yield Rights(parts)


# -- Fetch


def fetching(*partitions: int, session: int = 0, epoch: int = -1, replica: int = -1) -> fetch.FetchRequest:
    rows = [fetch.FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1 << 20) for each in partitions]
    return fetch.FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=[fetch.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=rows)] if rows else [],
    )


def codes(response: Any) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partitions]


def test_a_session_ends_to_read_what_its_client_may_not_read_any_more(rights: Rights) -> None:
    rights.give(Kind.TOPIC, "t", Op.READ)
    first = rights.asked(fetching(*range(HERE), epoch=0), 13)
    assert set(codes(first)) == {0}
    for epoch in range(1, QUIET_RESPONSES + 3):
        assert codes(rights.asked(fetching(session=first.session_id, epoch=epoch), 13)) == []
    rights.give(Kind.TOPIC, "t")
    rights.append(0)
    epoch = QUIET_RESPONSES + 3
    assert codes(rights.asked(fetching(session=first.session_id, epoch=epoch), 13)) == [T29] * HERE
    rights.give(Kind.TOPIC, "t", Op.READ)
    again = rights.asked(fetching(session=first.session_id, epoch=epoch + 1), 13)
    assert set(codes(again)) == {0}
    assert sum(len(each.records) for topic in again.responses for each in topic.partitions) == len(RECORDS)


def test_who_may_not_act_for_the_cluster_is_no_follower(rights: Rights) -> None:
    """CVE-2018-1288: whoever names a broker's id was believed to have replicated what it had read."""
    rights.parts.assign("t", 0, PartitionState((0, 5), (0, 5), 0, 1))
    partition = rights.parts.replicas.get("t", 0)
    assert partition is not None
    rights.give(Kind.TOPIC, "t", Op.READ)
    rights.append(0)

    def position() -> tuple[int, int, int]:
        assert partition.leading is not None
        follower = partition.leading.followers[5]
        return partition.high_watermark, follower.log_end_offset, follower.last_fetch_ms

    before = position()
    for epoch in (-1, 0):
        message = fetching(0, 1, replica=5, epoch=epoch)
        message.topics[0].partitions[0].fetch_offset = 1
        response = rights.asked(message, 12)
        assert codes(response) == [T29, T29]
        assert response.session_id == 0, "its session would push out those of consumers"
    assert position() == before
    rights.give(Kind.CLUSTER, CLUSTER_NAME, Op.CLUSTER_ACTION)
    message = fetching(0, replica=5)
    message.topics[0].partitions[0].fetch_offset = 1
    assert codes(rights.asked(message, 12)) == [0]
    assert position() != before


# -- Produce


def producing(topics: dict[str, bytes], transactional_id: str | None = None, acks: int = 1) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            produce.TopicProduceData(
                name=name,
                partition_data=[produce.PartitionProduceData(index=0, records=memoryview(bytearray(records)))],
            )
            for name, records in topics.items()
        ],
    )


def produced(response: Any) -> dict[str, int]:
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


@pytest.mark.parametrize("is_large", [False, True])
def test_a_denied_topic_leaves_the_others_of_a_produce(rights: Rights, is_large: bool) -> None:
    rights.give(Kind.TOPIC, "t", Op.WRITE)

    def send(message: produce.ProduceRequest) -> dict[str, int]:
        return produced(rights.run(ask(message)))

    async def ask(message: produce.ProduceRequest) -> Any:
        request = request_of(rights.broker, message, 9, client("ann"))
        request.owns_records = is_large
        handler = served_apis()[message.api_key].handler
        pending = handler(request)
        if pending is not None:
            await pending
        return request.response

    denied = {"u": T29, "not there": T29}
    assert send(producing({"t": RECORDS, "u": RECORDS, "not there": RECORDS})) == {"t": 0, **denied}
    partition, other = rights.parts.replicas.get("t", 0), rights.parts.replicas.get("u", 0)
    assert partition is not None
    assert other is not None
    assert (partition.log.log_end_offset, other.log.log_end_offset) == (1, 0)
    # What the batches say counts, not the request.
    for transactional_id in (None, "mine"):
        found = send(producing({"t": RECORDS, "u": TRANSACTIONAL}, transactional_id))
        assert found == {"t": I53, "u": I53}
    rights.give(Kind.TRANSACTIONAL_ID, "mine", Op.WRITE)
    found = send(producing({"t": TRANSACTIONAL, "u": TRANSACTIONAL}, "mine"))
    assert found["u"] == T29
    assert found["t"] not in (T29, I53)
    assert send(producing({"t": TRANSACTIONAL}))["t"] == I53, "a null id may never be used"
    assert partition.log.log_end_offset == 1


# -- Metadata


def listed(*names: str, create: bool = False) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(name=name) for name in names] if names else None
    return metadata.MetadataRequest(
        topics=topics, allow_auto_topic_creation=create, include_topic_authorized_operations=True
    )


def told(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def test_topics_are_listed_for_those_who_may_describe_them(rights: Rights, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    assert told(rights.asked(listed(), 9)) == {}
    assert caplog.records == [], "nobody has asked for these topics"
    rights.give(Kind.TOPIC, "u", Op.WRITE)
    found = rights.asked(listed(), 9)
    assert told(found) == {"u": 0}
    assert found.topics[0].topic_authorized_operations == bits((Op.WRITE, Op.DESCRIBE))
    assert told(rights.asked(listed("t", "u", "not there"), 9)) == {"t": T29, "u": 0, "not there": T29}
    assert told(rights.asked(listed(), 9, "root")) == {"t": 0, "u": 0}
    denied = [record.getMessage() for record in caplog.records]
    assert len(denied) == 2
    assert all("is Denied operation = DESCRIBE from host = 10.1.2.3" in each for each in denied)


def test_topics_are_made_for_those_who_may_create_them(rights: Rights) -> None:
    rights.give(Kind.TOPIC, "*", Op.DESCRIBE)
    assert told(rights.asked(listed("new", create=True), 9)) == {"new": T29}
    assert rights.broker.metadata.topic("new") is None
    assert told(rights.asked(listed("t", create=True), 9)) == {"t": 0}
    rights.give(Kind.TOPIC, "new", Op.CREATE)
    assert told(rights.asked(listed("new", "newer", create=True), 9)) == {"new": 0, "newer": T29}
    rights.give(Kind.CLUSTER, CLUSTER_NAME, Op.CREATE)
    assert told(rights.asked(listed("newer", create=True), 9)) == {"newer": 0}


def test_operations_of_the_cluster_are_told_to_those_who_may_describe_it(rights: Rights) -> None:
    def operations(user: str, *, asks: bool = True) -> list[int]:
        described = rights.asked(
            describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=asks), 0, user
        )
        listing = metadata.MetadataRequest(topics=[], include_cluster_authorized_operations=asks)
        return [each.cluster_authorized_operations for each in (described, rights.asked(listing, 9, user))]

    assert operations("ann") == [0, 0]
    assert operations("ann", asks=False) == [NOT_ASKED] * 2
    rights.give(Kind.CLUSTER, CLUSTER_NAME, Op.ALTER)
    assert operations("ann") == [bits((Op.ALTER, Op.DESCRIBE))] * 2
    assert operations("root") == [8096] * 2


def test_configurations_of_a_new_topic_are_told_to_those_who_may_describe_them(rights: Rights) -> None:
    rights.give(Kind.TOPIC, "new", Op.CREATE)
    wanted = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    (made,) = rights.asked(create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=1000), 7).topics
    assert (made.error_code, made.topic_config_error_code) == (0, T29)
    assert (made.configs, made.num_partitions, made.replication_factor) == (None, -1, -1)


# -- Groups and transactions


async def give_anonymous(broker: InProcess, kind: AclResourceType, name: str, *operations: AclOperation) -> None:
    entries = frozenset(AclEntry("User:ANONYMOUS", "127.0.0.1", each, AclPermission.ALLOW) for each in operations)
    pattern = ResourcePattern(kind, AclPatternType.LITERAL, name)
    await broker.server.store.commit(lambda state: [SetAcls(pattern, entries)])


def commit(group: str, *topics: str) -> offset_commit.OffsetCommitRequest:
    row = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[offset_commit.OffsetCommitRequestTopic(name=name, partitions=[row]) for name in topics],
    )


def test_offsets_are_committed_and_told_of_topics_that_a_client_may_know(rights: Rights) -> None:
    rights.run(rights.broker.groups.ready())
    rights.asked(commit("g", "t", "u"), 7, "root")
    rights.give(Kind.GROUP, "g", Op.READ)
    rights.give(Kind.TOPIC, "t", Op.READ)

    def committed(response: Any) -> dict[str, int]:
        return {topic.name: topic.partitions[0].error_code for topic in response.topics}

    assert committed(rights.asked(commit("g", "t", "u", "not there"), 7)) == {"t": 0, "u": T29, "not there": T29}
    assert committed(rights.asked(commit("other", "t", "u"), 7)) == {"t": G30, "u": G30}

    def fetched(topics: list[str] | None, user: str = "ann") -> dict[str, tuple[int, int]]:
        named = (
            None
            if topics is None
            else [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in topics]
        )
        group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=named)
        (found,) = rights.asked(offset_fetch.OffsetFetchRequest(groups=[group]), 8, user).groups
        return {
            each.name: (each.partitions[0].committed_offset, each.partitions[0].error_code) for each in found.topics
        }

    assert fetched(None) == {"t": (5, 0)}
    assert fetched(None, "root") == {"t": (5, 0), "u": (5, 0)}
    assert fetched(["t", "u"]) == {"t": (5, 0), "u": (-1, T29)}


def test_members_are_told_of_topics_that_they_may_know(rights: Rights) -> None:
    rights.run(rights.broker.groups.ready())
    rights.give(Kind.GROUP, "*", Op.READ)
    rights.give(Kind.TOPIC, "t", Op.DESCRIBE)

    def assigned(group: str, user: str, **subscription: Any) -> set[str] | int:
        beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=f"member-of-{group}",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            topic_partitions=[],
            **subscription,
        )
        response = rights.asked(beat, 1, user)
        if response.error_code:
            return int(response.error_code)
        names = rights.broker.metadata.names_by_id()
        return {names[each.topic_id] for each in response.assignment.topic_partitions}

    assert assigned("names", "ann", subscribed_topic_names=["t"]) == {"t"}
    assert assigned("more names", "ann", subscribed_topic_names=["t", "u"]) == T29
    assert assigned("expression", "ann", subscribed_topic_regex="t|u|__consumer.*") == {"t"}
    assert assigned("of root", "root", subscribed_topic_regex="t|u") == {"t", "u"}

    def described(group: str, user: str) -> int:
        asked = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group])
        (found,) = rights.asked(asked, 0, user).groups
        assert bool(found.members) is not bool(found.error_code)
        return int(found.error_code)

    assert [described("names", "ann"), described("of root", "ann"), described("of root", "root")] == [0, T29, 0]
    rights.give(Kind.TOPIC, "u", Op.DESCRIBE)
    assert described("of root", "ann") == 0


def test_groups_are_listed_for_those_who_may_describe_them(rights: Rights) -> None:
    rights.run(rights.broker.groups.ready())
    for group in ("g", "h"):
        rights.asked(commit(group, "t"), 7, "root")

    def groups(user: str = "ann") -> list[str]:
        return sorted(each.group_id for each in rights.asked(list_groups.ListGroupsRequest(), 4, user).groups)

    assert groups() == []
    rights.give(Kind.GROUP, "h", Op.DELETE)
    assert groups() == ["h"]
    rights.give(Kind.CLUSTER, CLUSTER_NAME, Op.DESCRIBE)
    assert groups() == ["g", "h"]
    joining = join_group.JoinGroupRequest(group_id="h", session_timeout_ms=10_000, protocol_type="consumer")
    assert rights.asked(joining, 5).error_code == G30


def test_transactions_are_listed_for_those_who_may_describe_them(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        await give_anonymous(broker, Kind.TRANSACTIONAL_ID, "mine", Op.WRITE)
        await give_anonymous(broker, Kind.TRANSACTIONAL_ID, "theirs", Op.WRITE)
        wire = await broker.connect()
        for name in ("mine", "theirs"):
            finding = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
            assert (await wire.exchange(finding, 4)).coordinators[0].error_code == 0
            asked = init_producer_id.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
            assert (await wire.exchange(asked, 4)).error_code == 0
        await give_anonymous(broker, Kind.TRANSACTIONAL_ID, "theirs")
        found = (await wire.exchange(list_transactions.ListTransactionsRequest(), 0)).transaction_states
        assert [each.transactional_id for each in found] == ["mine"]

    with_broker(tmp_path, work, AUTHORIZED)


def test_a_denied_produce_that_wants_no_answer_closes_the_connection(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        await give_anonymous(broker, Kind.CLUSTER, CLUSTER_NAME, Op.CREATE)
        partition = await broker.create_topic("t")
        wire = await broker.connect()
        wire.send(producing({"t": RECORDS}, acks=0), 9)
        assert await wire.is_closed()
        await give_anonymous(broker, Kind.TOPIC, "t", Op.WRITE)
        wire = await broker.connect()
        wire.send(producing({"t": RECORDS}, acks=0), 9)
        assert (await wire.exchange(producing({"t": RECORDS}), 9)).responses[0].partition_responses[0].error_code == 0
        assert partition.log.log_end_offset == 2

    with_broker(tmp_path, work, AUTHORIZED)


def test_one_denied_partition_keeps_all_out_of_a_transaction(rights: Rights) -> None:
    rights.give(Kind.TRANSACTIONAL_ID, "mine", Op.WRITE)
    rights.give(Kind.TOPIC, "t", Op.WRITE)

    def added(user: str, *topics: str) -> dict[str, int]:
        asked = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="mine",
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in topics
            ],
        )
        found = rights.asked(asked, 3, user).results_by_topic_v3_and_below
        return {each.name: each.results_by_partition[0].partition_error_code for each in found}

    assert added("ann", "t", "u") == {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, "u": T29}
    internal = "__consumer_offsets"
    assert added("root", "t", internal) == {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, internal: T29}
