"""Test what is left out of requests for brokers of older releases."""

from __future__ import annotations

import pytest

from kafkalog.protocol.codec import encode_message
from kafkalog.protocol.errors import UnsupportedCompressionTypeError, UnsupportedVersionError
from kafkalog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkalog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkalog.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalog.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalog.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.protocol.messages.sync_group import SyncGroupRequest
from kafkalog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.older import ANY_PATTERN, LITERAL_PATTERN, fit
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec

PREFIXED_PATTERN = 4
ONE_GROUP = 7
"""The last version of OffsetFetch that asks for one group."""
REQUESTS: list[Request] = [
    CreateAclsRequest(creations=[AclCreation(resource_pattern_type=LITERAL_PATTERN)]),
    CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None),
    CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]),
    DeleteAclsRequest(filters=[DeleteAclsFilter(pattern_type_filter=ANY_PATTERN)]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
    DescribeAclsRequest(pattern_type_filter=ANY_PATTERN),
    DescribeConfigsRequest(include_synonyms=True, include_documentation=True),
    ElectLeadersRequest(election_type=0),
    InitProducerIdRequest(transactional_id="x", producer_id=7, producer_epoch=1),
    JoinGroupRequest(group_id="g"),
    LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m", reason="tired")]),
    ListTransactionsRequest(),
    OffsetFetchRequest(group_id="g", topics=[], require_stable=True),
]


@pytest.mark.parametrize("message", REQUESTS, ids=lambda message: type(message).__name__)
def test_each_version_can_carry_what_is_asked_for(message: Request) -> None:
    newest = ONE_GROUP if isinstance(message, OffsetFetchRequest) else message.max_version
    whole = encode_message(message, newest)
    for version in range(message.min_version, newest + 1):
        encode_message(fit(message, version), version)
    # The caller may send it to another broker.
    assert fit(message, newest) is message
    assert encode_message(message, newest) == whole


def test_topics_are_deleted_by_their_names() -> None:
    fitted = fit(DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name="b")]), 5)
    assert isinstance(fitted, DeleteTopicsRequest)
    assert (fitted.topic_names, fitted.topics) == (["a", "b"], [])
    named = DeleteTopicsRequest(topic_names=["c"])
    assert encode_message(fit(named, 3), 3) == encode_message(named, 3)


def test_a_member_leaves_by_its_id() -> None:
    fitted = fit(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 2)
    assert isinstance(fitted, LeaveGroupRequest)
    assert (fitted.member_id, fitted.members) == ("m", [])


def test_any_pattern_is_a_literal_one() -> None:
    filters = [DeleteAclsFilter(pattern_type_filter=pattern) for pattern in (ANY_PATTERN, LITERAL_PATTERN)]
    fitted = fit(DeleteAclsRequest(filters=filters), 0)
    assert isinstance(fitted, DeleteAclsRequest)
    assert [each.pattern_type_filter for each in fitted.filters] == [LITERAL_PATTERN] * 2
    assert [each.pattern_type_filter for each in filters] == [ANY_PATTERN, LITERAL_PATTERN]


def test_assigned_topics_need_no_default() -> None:
    assigned = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
    )
    fit(CreateTopicsRequest(topics=[assigned]), 2)


@pytest.mark.parametrize(
    ("message", "version", "why"),
    [
        (CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=-1, replication_factor=1)]), 3, "for t"),
        (CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=-1)]), 3, "for t"),
        (DescribeAclsRequest(pattern_type_filter=PREFIXED_PATTERN), 0, "literal"),
        (DeleteAclsRequest(filters=[DeleteAclsFilter(pattern_type_filter=PREFIXED_PATTERN)]), 0, "literal"),
        (CreateAclsRequest(creations=[AclCreation(resource_pattern_type=PREFIXED_PATTERN)]), 0, "literal"),
        (CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="ann"), 2, "name no owner"),
        (DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="")]), 0, "dynamic"),
        (ElectLeadersRequest(election_type=1), 0, "preferred leaders only"),
        (ListTransactionsRequest(duration_filter=1000), 0, "any duration"),
        (JoinGroupRequest(group_instance_id="a"), 4, "leave group.instance.id out"),
        (SyncGroupRequest(group_instance_id="a"), 2, "leave group.instance.id out"),
        (HeartbeatRequest(group_instance_id="a"), 2, "leave group.instance.id out"),
        (OffsetCommitRequest(group_instance_id="a"), 6, "leave group.instance.id out"),
        (TxnOffsetCommitRequest(member_id="a"), 2, "with the group's id alone"),
        (TxnOffsetCommitRequest(generation_id=0), 2, "with the group's id alone"),
        (LeaveGroupRequest(members=[MemberIdentity(member_id="a"), MemberIdentity(member_id="b")]), 2, "one member"),
        (LeaveGroupRequest(members=[MemberIdentity(group_instance_id="a")]), 2, "by its member id"),
    ],
)
def test_what_an_older_broker_cannot_do_is_refused(message: Request, version: int, why: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=why):
        fit(message, version)


def produce(codec: Codec) -> ProduceRequest:
    records = encode_batch([Record(0, 0, None, b"v" * 1000, ())], codec=codec)
    return ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    )


def test_zstd_is_refused_before_kafka_2_1() -> None:
    """As in Java's `ProduceRequest.validateRecords`."""
    with pytest.raises(UnsupportedCompressionTypeError, match=r"set compression\.type to another codec"):
        fit(produce(Codec.ZSTD), 6)
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        fit(produce(codec), 3)
    fit(produce(Codec.ZSTD), 7)
