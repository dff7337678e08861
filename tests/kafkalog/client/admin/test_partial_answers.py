"""Test that what a broker's answer leaves out does not count as done, and does not keep the rest from being done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.admin.replicas.replica_admin import ReplicaOnBroker
from kafkalog.client.admin.security.acls import AclBinding, AclFilter
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.retry import UNKNOWN_TOPIC_TRIES
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    ErrorCode,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from kafkalog.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkalog.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kafkalog.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkalog.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafkalog.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kafkalog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkalog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkalog.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafkalog.protocol.schema import Request, Response
from tests.support.scripted import ScriptedBroker, metadata

FIRST, SECOND = TopicPartition("a", 0), TopicPartition("b", 0)
BINDING = AclBinding(AclResourceType.TOPIC, "a", "User:ann", AclOperation.READ)


class Site:
    """Two brokers that lead a partition each. The first one is the controller, and coordinates everything."""

    def __init__(self) -> None:
        self.first, self.second = self._broker(), self._broker()

    def _broker(self) -> ScriptedBroker:
        return ScriptedBroker({MetadataRequest: self._describe, FindCoordinatorRequest: self._find})

    def _describe(self, request: MetadataRequest) -> Response:
        return metadata({1: self.first, 2: self.second}, {FIRST: 1, SECOND: 2}, controller=1)

    def _find(self, request: FindCoordinatorRequest) -> Response:
        host, port = "127.0.0.1", self.first.port
        found = [Coordinator(key=key, node_id=1, host=host, port=port) for key in request.coordinator_keys]
        return FindCoordinatorResponse(node_id=1, host=host, port=port, coordinators=found)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with site.first, site.second:
        yield site


@pytest.fixture
def admin(site: Site) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": site.first.address, "retry.backoff.ms": "10"}) as opened:
        yield opened


NOTHING: list[tuple[type[Request], Response, Callable[[Admin], Any]]] = [
    (CreateTopicsRequest, CreateTopicsResponse(), lambda admin: admin.create_topics([NewTopic("a")])),
    (DeleteTopicsRequest, DeleteTopicsResponse(), lambda admin: admin.delete_topics(["a"])),
    (CreatePartitionsRequest, CreatePartitionsResponse(), lambda admin: admin.create_partitions({"a": 2})),
    (DeleteRecordsRequest, DeleteRecordsResponse(), lambda admin: admin.delete_records({FIRST: 5})),
    (DescribeConfigsRequest, DescribeConfigsResponse(), lambda admin: admin.describe_configs([topic()])),
    (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse(),
        lambda admin: admin.incremental_alter_configs({topic(): [ConfigChange("retention.ms", "5")]}),
    ),
    (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse(),
        lambda admin: admin.quotas.alter({"user": "ann"}, {"producer_byte_rate": 5.0}),
    ),
    (CreateAclsRequest, CreateAclsResponse(), lambda admin: admin.acls.create([BINDING])),
    (DeleteAclsRequest, DeleteAclsResponse(), lambda admin: admin.acls.delete([AclFilter()])),
    (OffsetCommitRequest, OffsetCommitResponse(), lambda admin: admin.groups.alter_offsets("g", {FIRST: 5})),
    (
        DescribeProducersRequest,
        DescribeProducersResponse(),
        lambda admin: admin.transactions.describe_producers([FIRST]),
    ),
    (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse(),
        lambda admin: admin.transactions.describe_transactions(["id"]),
    ),
]


def topic() -> ConfigResource:
    return ConfigResource.topic("a")


@pytest.mark.parametrize(("request_type", "answer", "call"), NOTHING, ids=[each[0].__name__ for each in NOTHING])
def test_an_answer_of_nothing(
    site: Site, admin: Admin, request_type: type[Request], answer: Response, call: Callable[[Admin], Any]
) -> None:
    for broker in (site.first, site.second):
        broker.handlers[request_type] = lambda request: answer
    with pytest.raises(UnknownServerError, match="leaves out"):
        call(admin)
    assert site.first.seen[request_type] + site.second.seen[request_type] == 1


OUTCOMES: list[tuple[type[Request], Response, Callable[[Admin], Any]]] = [
    (ElectLeadersRequest, ElectLeadersResponse(), lambda admin: admin.replicas.elect_leaders([FIRST])),
    (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse(),
        lambda admin: admin.replicas.alter_partition_reassignments({FIRST: [1]}),
    ),
    (
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse(),
        lambda admin: admin.replicas.alter_replica_log_dirs({ReplicaOnBroker(FIRST, 1): "/d"}),
    ),
    (OffsetDeleteRequest, OffsetDeleteResponse(), lambda admin: admin.groups.delete_offsets("g", [FIRST])),
]


@pytest.mark.parametrize(("request_type", "answer", "call"), OUTCOMES, ids=[each[0].__name__ for each in OUTCOMES])
def test_outcomes_of_an_answer_of_nothing(
    site: Site, admin: Admin, request_type: type[Request], answer: Response, call: Callable[[Admin], Any]
) -> None:
    site.first.handlers[request_type] = lambda request: answer
    (outcome,) = call(admin).values()
    assert isinstance(outcome, UnknownServerError)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_one_topic_is_left_out(site: Site, admin: Admin, code: ErrorCode) -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=code)])

    site.first.handlers[CreateTopicsRequest] = create
    error = TopicAlreadyExistsError if code else UnknownServerError
    with pytest.raises(error, match="topic a" if code else "topic b"):
        admin.create_topics([NewTopic("a"), NewTopic("b")])


def test_a_controller_that_is_none_any_more(site: Site, admin: Admin) -> None:
    """Each topic is sent again, also one that the answer left out."""
    sent: list[list[str]] = []

    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        names = [each.name for each in request.topics]
        sent.append(names)
        code = ErrorCode.NOT_CONTROLLER if len(sent) == 1 else ErrorCode.NONE
        some = names[:1] if code else names
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=code) for name in some])

    site.first.handlers[CreateTopicsRequest] = create
    admin.create_topics([NewTopic("a"), NewTopic("b")])
    assert sent == [["a", "b"], ["a", "b"]]


@pytest.mark.parametrize("code", [None, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_records_of_the_others_are_deleted(site: Site, admin: Admin, code: ErrorCode | None) -> None:
    """Whatever happens to those of the first partition."""

    def delete(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        (wanted,) = request.topics
        if wanted.name == FIRST.topic and code is None:
            return DeleteRecordsResponse()
        error = code if wanted.name == FIRST.topic else ErrorCode.NONE
        result = DeleteRecordsPartitionResult(partition_index=0, low_watermark=5, error_code=error or 0)
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name=wanted.name, partitions=[result])])

    for broker in (site.first, site.second):
        broker.handlers[DeleteRecordsRequest] = delete
    errors = {
        None: UnknownServerError,
        ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartitionError,
    }
    with pytest.raises(errors[code], match="a-0"):
        admin.delete_records({FIRST: 5, SECOND: 5})
    assert site.second.seen[DeleteRecordsRequest] == 1
    assert admin.delete_records({SECOND: 5}) == {SECOND: 5}


def test_metadata_is_asked_for_once_for_all_partitions(site: Site, admin: Admin) -> None:
    before = site.first.seen[MetadataRequest]
    with pytest.raises(UnknownTopicOrPartitionError, match="topic gone"):
        admin.delete_records({TopicPartition("gone", index): 5 for index in range(50)})
    # A few times, because the topic may be new.
    assert site.first.seen[MetadataRequest] - before < 10


def test_a_final_error_is_not_hidden_by_another_partitions_time_out(site: Site) -> None:
    def delete(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        (wanted,) = request.topics
        final = wanted.name == SECOND.topic
        code = ErrorCode.OFFSET_OUT_OF_RANGE if final else ErrorCode.NOT_LEADER_OR_FOLLOWER
        result = DeleteRecordsPartitionResult(partition_index=0, low_watermark=-1, error_code=code)
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name=wanted.name, partitions=[result])])

    for broker in (site.first, site.second):
        broker.handlers[DeleteRecordsRequest] = delete
    config = {"bootstrap.servers": site.first.address, "retry.backoff.ms": "10", "default.api.timeout.ms": "300"}
    with Admin({**config, "request.timeout.ms": "300"}) as admin, pytest.raises(OffsetOutOfRangeError, match="b-0"):
        admin.delete_records({FIRST: 5, SECOND: 5})


def record_deletions(site: Site, refusals: int) -> None:
    """Have the leader of the first partition refuse the first requests to delete its records."""

    def delete(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        (wanted,) = request.topics
        refused = wanted.name == FIRST.topic and site.first.seen[DeleteRecordsRequest] <= refusals
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if refused else ErrorCode.NONE
        result = DeleteRecordsPartitionResult(partition_index=0, low_watermark=5, error_code=code)
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name=wanted.name, partitions=[result])])

    for broker in (site.first, site.second):
        broker.handlers[DeleteRecordsRequest] = delete


def test_a_leader_that_refuses_keeps_no_other_result_back(site: Site) -> None:
    record_deletions(site, 1_000_000)
    config = {"bootstrap.servers": site.first.address, "retry.backoff.ms": "10", "default.api.timeout.ms": "1000"}
    with Admin({**config, "request.timeout.ms": "1000"}) as admin:
        found = admin.topics.delete_records_each({FIRST: -1, SECOND: -1})
    assert list(found) == [FIRST, SECOND]
    assert isinstance(found[FIRST], ClientTimeoutError)
    assert "partition a-0: " in str(found[FIRST])
    assert found[SECOND] == 5
    # Another request would delete what was produced since the first one.
    assert site.second.seen[DeleteRecordsRequest] == 1


def test_a_partition_that_does_not_exist_ends_no_other_tries(site: Site, admin: Admin) -> None:
    record_deletions(site, UNKNOWN_TOPIC_TRIES + 1)
    gone = TopicPartition("gone", 0)
    found = admin.topics.delete_records_each({FIRST: -1, gone: 5})
    assert isinstance(found[gone], UnknownTopicOrPartitionError)
    assert found[FIRST] == 5
