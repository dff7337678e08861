"""Test that every loop over the entries of an administrator's or a transaction's request lets other requests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.api import large, offsets
from broker.api.admin import acls, client_quotas, configs, log_dirs, replica_admin, scram_users, topics
from broker.api.context import Request
from broker.api.transactions import transaction_admin, transactions
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkalog.protocol.messages.create_acls import CreateAclsRequest
from kafkalog.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkalog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkalog.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_client_quotas import DescribeClientQuotasComponent, DescribeClientQuotasRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkalog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkalog.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkalog.protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from kafkalog.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kafkalog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.coordinator.support import Stored
from tests.broker.serving import HERE, Serving
from tests.support.in_process.asking import Client, request_of
from tests.support.requests.admin_messages import acl, marker, quota

MANY = 60
NAMES = [f"n{number}" for number in range(MANY)]
INDEXES = list(range(MANY))
GROUP = 32
"""The resource type of a group's configuration."""
SESSION_TIMEOUT = "consumer.session.timeout.ms"


def transaction(name: str) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(transactional_id=name, producer_id=1, producer_epoch=0)


ENTRIES: dict[str, tuple[Any, int, int]] = {
    "CreateTopics": (CreateTopicsRequest(topics=[
        CreatableTopic(name=name, num_partitions=-7, replication_factor=1) for name in NAMES]), 7, 3),
    "CreateTopics of assignments": (CreateTopicsRequest(topics=[CreatableTopic(
        name="n", num_partitions=-1, replication_factor=-1, assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=[7]) for index in INDEXES])]), 7, 1),
    "CreateTopics of configurations": (CreateTopicsRequest(topics=[CreatableTopic(
        name="n", num_partitions=1, replication_factor=1, configs=[
            CreatableTopicConfig(name=name, value="") for name in NAMES])]), 7, 1),
    "CreatePartitions of assignments": (CreatePartitionsRequest(topics=[CreatePartitionsTopic(
        name="t", count=HERE + MANY, assignments=[
            CreatePartitionsAssignment(broker_ids=[7]) for _ in NAMES])]), 3, 1),
    "AlterConfigs of keys": (AlterConfigsRequest(validate_only=True, resources=[AlterConfigsResource(
        resource_type=GROUP, resource_name="g", configs=[
            AlterableConfig(name=name, value="") for name in NAMES])]), 2, 1),
    "IncrementalAlterConfigs of keys": (IncrementalAlterConfigsRequest(validate_only=True, resources=[
        IncrementalResource(resource_type=GROUP, resource_name="g", configs=[
            IncrementalConfig(name=name, config_operation=0, value="") for name in NAMES])]), 1, 1),
    "DeleteTopics": (DeleteTopicsRequest(topic_names=NAMES), 5, 2),
    "DeleteTopics by name": (DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES]), 6, 2),
    "DeleteTopics by id": (DeleteTopicsRequest(topics=[
        DeleteTopicState(name=None, topic_id=UUID(int=99)) for _ in NAMES]), 6, 1),
    "CreatePartitions": (CreatePartitionsRequest(topics=[
        CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES]), 3, 2),
    "DescribeConfigs": (DescribeConfigsRequest(resources=[
        DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=None)
        for name in NAMES]), 4, 2),
    "DescribeConfigs of keys": (DescribeConfigsRequest(resources=[
        DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=NAMES)]), 4, 2),
    "DescribeClientQuotas": (DescribeClientQuotasRequest(components=[
        DescribeClientQuotasComponent(entity_type="client-id", match_type=0, match=name) for name in NAMES]), 1, 1),
    "AlterConfigs": (AlterConfigsRequest(validate_only=True, resources=[
        AlterConfigsResource(resource_type=GROUP, resource_name=name,
                             configs=[AlterableConfig(name=SESSION_TIMEOUT, value="50000")])
        for name in NAMES]), 2, 3),
    "IncrementalAlterConfigs": (IncrementalAlterConfigsRequest(validate_only=True, resources=[
        IncrementalResource(resource_type=GROUP, resource_name=name, configs=[
            IncrementalConfig(name=SESSION_TIMEOUT, config_operation=0, value="50000")])
        for name in NAMES]), 1, 3),
    "DescribeLogDirs of topics": (DescribeLogDirsRequest(topics=[
        DescribableLogDirTopic(topic=name) for name in NAMES]), 4, 1),
    "AlterReplicaLogDirs": (AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[
        AlterReplicaLogDirTopic(name="t", partitions=INDEXES)])]), 2, 2),
    "AlterReplicaLogDirs of empty topics": (AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(
        path="/nowhere", topics=[AlterReplicaLogDirTopic(name=name) for name in NAMES])]), 2, 1),
    "AlterReplicaLogDirs of empty directories": (AlterReplicaLogDirsRequest(dirs=[
        AlterReplicaLogDir(path=name) for name in NAMES]), 2, 1),
    "ElectLeaders": (ElectLeadersRequest(topic_partitions=[
        TopicPartitions(topic="t", partitions=INDEXES)]), 2, 2),
    "ElectLeaders of empty topics": (ElectLeadersRequest(topic_partitions=[
        TopicPartitions(topic=name) for name in NAMES]), 2, 1),
    "AlterPartitionReassignments": (AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[
        ReassignablePartition(partition_index=index, replicas=[0]) for index in INDEXES])]), 0, 2),
    "AlterPartitionReassignments of empty topics": (AlterPartitionReassignmentsRequest(topics=[
        ReassignableTopic(name=name) for name in NAMES]), 0, 1),
    "AlterClientQuotas": (AlterClientQuotasRequest(entries=[
        quota(name) for name in NAMES], validate_only=True), 1, 2),
    "DescribeUserScramCredentials": (DescribeUserScramCredentialsRequest(users=[
        UserName(name=name) for name in NAMES]), 0, 2),
    "AlterUserScramCredentials": (AlterUserScramCredentialsRequest(deletions=[
        ScramCredentialDeletion(name=name, mechanism=1) for name in NAMES], upsertions=[
        ScramCredentialUpsertion(name=name, mechanism=2, iterations=1) for name in NAMES]), 0, 3),
    "CreateAcls": (CreateAclsRequest(creations=[acl() for _ in NAMES]), 3, 1),
    "DeleteAcls": (DeleteAclsRequest(filters=[DeleteAclsFilter() for _ in NAMES]), 3, 1),
    "AddPartitionsToTxn": (AddPartitionsToTxnRequest(v3_and_below_topics=[
        AddPartitionsToTxnTopic(name="t", partitions=INDEXES)]), 3, 2),
    "AddPartitionsToTxn of empty topics": (AddPartitionsToTxnRequest(v3_and_below_topics=[
        AddPartitionsToTxnTopic(name=name) for name in NAMES]), 3, 2),
    "AddPartitionsToTxn of transactions": (AddPartitionsToTxnRequest(
        transactions=[transaction(name) for name in NAMES]), 4, 1),
    "WriteTxnMarkers": (WriteTxnMarkersRequest(markers=[marker() for _ in NAMES]), 1, 1),
    "WriteTxnMarkers of topics": (WriteTxnMarkersRequest(markers=[
        marker(*(WritableTxnMarkerTopic(name=name) for name in NAMES))]), 1, 1),
    "DescribeProducers": (DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=INDEXES)]), 0, 1),
    "DescribeProducers of empty topics": (DescribeProducersRequest(topics=[
        TopicRequest(name=name) for name in NAMES]), 0, 1),
    "DescribeTransactions": (DescribeTransactionsRequest(transactional_ids=NAMES), 0, 2),
    "ListTransactions": (ListTransactionsRequest(state_filters=NAMES, producer_id_filters=INDEXES), 0, 2),
    "OffsetForLeaderEpoch": (OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[
        OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in INDEXES])]), 4, 1),
    "OffsetForLeaderEpoch of empty topics": (OffsetForLeaderEpochRequest(topics=[
        OffsetForLeaderTopic(topic=name) for name in NAMES]), 4, 1),
    "DeleteRecords": (DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[
        DeleteRecordsPartition(partition_index=index, offset=0) for index in INDEXES])]), 2, 1),
    "DeleteRecords of empty topics": (DeleteRecordsRequest(topics=[
        DeleteRecordsTopic(name=name) for name in NAMES]), 2, 1),
    "ListOffsets": (ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[
        ListOffsetsPartition(partition_index=index, timestamp=-1) for index in INDEXES])]), 7, 2),
    "ListOffsets of empty topics": (ListOffsetsRequest(replica_id=-1, topics=[
        ListOffsetsTopic(name=name) for name in NAMES]), 7, 2),
}  # fmt: skip
"""A request of `MANY` entries, its version, and how many loops its handler makes over them."""


HANDLERS: dict[Any, Callable[[Request], Awaitable[None] | None]] = {
    kind: handler
    for module in (
        acls, client_quotas, configs, log_dirs, offsets, replica_admin, scram_users, topics, transaction_admin,
        transactions,
    )
    for kind, handler in module.HANDLERS.items()
}  # fmt: skip


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A turn is over after each entry."""
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    with Stored(tmp_path, {}) as parts:
        serving = Serving(parts, HANDLERS)
        coordinator = serving.broker.transactions

        async def start() -> None:
            coordinator.start()

        serving.run(start())
        yield serving
        serving.run(coordinator.stop())


async def turns_ended(serving: Serving, message: Any, version: int) -> int:
    """Ask, and return how many turns of the handler ended."""
    request = request_of(serving.broker, message, version, Client())
    pending = HANDLERS[type(message)](request)
    assert pending is not None
    await pending
    assert request.response is not None
    return request.turn.ended if request.turn is not None else 0


@pytest.mark.parametrize("name", ENTRIES)
def test_a_turn_ends_with_each_entry_in_each_loop(serving: Serving, name: str) -> None:
    message, version, loops = ENTRIES[name]
    assert serving.run(turns_ended(serving, message, version)) >= loops * MANY


def test_a_turn_ends_with_each_partition_of_all_log_directories(serving: Serving) -> None:
    assert serving.run(turns_ended(serving, DescribeLogDirsRequest(topics=None), 4)) >= HERE


def test_a_turn_ends_with_each_quota_that_is_described(serving: Serving) -> None:
    async def work() -> None:
        await serving.ask(AlterClientQuotasRequest(entries=[quota(name) for name in NAMES]), 1)
        assert await turns_ended(serving, DescribeClientQuotasRequest(), 1) >= MANY

    serving.run(work())
