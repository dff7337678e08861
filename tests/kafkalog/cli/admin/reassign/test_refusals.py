"""Test that `kafkalog reassign` ends when a broker refuses what it asks for, and what becomes of its throttles."""

from __future__ import annotations

import json
from pathlib import Path

from kafkalog.cli.admin.reassign.throttles import ALTER_DIRS_RATE, FOLLOWER_RATE, LEADER_RATE
from kafkalog.client.admin import ConfigOperation, ConfigSource, ResourceType
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import Request
from tests.support.command import Ended, call
from tests.support.scripted import Handler, ScriptedBroker, metadata

EARLIER = {LEADER_RATE: "777", ALTER_DIRS_RATE: "5000"}
"""Throttles that an administrator has set on the broker earlier."""


def moves(tmp_path: Path) -> str:
    """Write the file of a move, and return its path."""
    file = tmp_path / "moves.json"
    partitions = [{"topic": "words", "partition": 0, "replicas": [1]}]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(file)


def test_a_move_that_may_not_be_seen_is_not_followed(tmp_path: Path) -> None:
    refused = ListPartitionReassignmentsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="The client may not describe the cluster."
    )
    with ScriptedBroker({ListPartitionReassignmentsRequest: lambda request: refused}) as broker:
        broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("words", 0): 1}, controller=1)
        words = ("--follow", "--bootstrap-server", broker.address, "--reassignment-json-file", moves(tmp_path))
        ended = call("reassign", "verify", *words, check=1)
        assert broker.seen[ListPartitionReassignmentsRequest] == 1
    assert ended.err == "kafkalog: The client may not describe the cluster.\n"


def executed(
    tmp_path: Path,
    listed: ListPartitionReassignmentsResponse,
    *words: str,
    directories: DescribeLogDirsResponse | None = None,
) -> tuple[dict[str, str], Ended]:
    """Run `execute` with a throttle against a broker that moves nothing; return the throttles that are left.

    Before, the broker has those of `EARLIER`.
    """
    rates = dict(EARLIER)

    def configure(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        for resource in request.resources:
            for config in resource.configs:
                if config.config_operation == ConfigOperation.DELETE:
                    rates.pop(config.name, None)
                else:
                    rates[config.name] = config.value or ""
        named = [
            AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
            for each in request.resources
        ]
        return IncrementalAlterConfigsResponse(responses=named)

    def describe(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        (resource,) = request.resources
        source = ConfigSource.BROKER if resource.resource_type == ResourceType.BROKER else ConfigSource.TOPIC
        found = [
            DescribeConfigsResourceResult(name=name, value=rates[name], config_source=source)
            for name in resource.configuration_keys or ()
            if name in rates
        ]
        kind, name = resource.resource_type, resource.resource_name
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=kind, resource_name=name, configs=found)]
        )

    refused = AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="The client may not move partitions."
    )
    handlers: dict[type[Request], Handler] = {
        ListPartitionReassignmentsRequest: lambda request: listed,
        IncrementalAlterConfigsRequest: configure,
        DescribeConfigsRequest: describe,
        AlterPartitionReassignmentsRequest: lambda request: refused,
        DescribeLogDirsRequest: lambda request: directories or DescribeLogDirsResponse(),
    }
    with ScriptedBroker(handlers) as broker:
        broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("words", 0): 1}, controller=1)
        options = ("--throttle", "1000", "--bootstrap-server", broker.address)
        file = moves(tmp_path)
        ended = call("reassign", "execute", *words, *options, "--reassignment-json-file", file, check=1)
        assert broker.seen[AlterPartitionReassignmentsRequest] == 1
    return rates, ended


def test_a_refused_move_leaves_the_throttles_of_before(tmp_path: Path) -> None:
    rates, ended = executed(tmp_path, ListPartitionReassignmentsResponse())
    assert rates == EARLIER
    assert ended.err == "kafkalog: The client may not move partitions.\n"


def test_a_refused_move_leaves_its_throttle_where_a_replica_moves_between_directories(tmp_path: Path) -> None:
    future = DescribeLogDirsPartition(partition_index=0, partition_size=1, offset_lag=1, is_future_key=True)
    topic = DescribeLogDirsTopic(name="letters", partitions=[future])
    directories = DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/b", topics=[topic])])
    rates, ended = executed(tmp_path, ListPartitionReassignmentsResponse(), directories=directories)
    assert rates[LEADER_RATE] == rates[FOLLOWER_RATE] == "1000"
    assert ended.err.startswith("kafkalog: The throttles stay, ")


def test_a_refused_move_tells_of_its_throttle_where_others_move(tmp_path: Path) -> None:
    moving = OngoingPartitionReassignment(partition_index=0, replicas=[1, 2], adding_replicas=[2], removing_replicas=[])
    others = OngoingTopicReassignment(name="letters", partitions=[moving])
    rates, ended = executed(tmp_path, ListPartitionReassignmentsResponse(topics=[others]), "--additional")
    assert rates[LEADER_RATE] == rates[FOLLOWER_RATE] == "1000"
    told, refused = ended.err.splitlines()
    assert told.startswith("kafkalog: The throttles stay, ")
    assert f"`kafkalog reassign verify --reassignment-json-file {tmp_path / 'moves.json'}`" in told
    assert refused == "kafkalog: The client may not move partitions."
