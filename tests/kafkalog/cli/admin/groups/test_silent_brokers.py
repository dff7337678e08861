"""Tests of `kafkalog groups` in a cluster with a broker that takes connections, and answers nothing but metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalog.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafkalog.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, Silence, metadata

UNLISTED = "kafkalog: groups whose coordinator is broker 1 are not listed: "


class Two(NamedTuple):
    """Two brokers. The silent one, 1, leads partition 1 of `t`; the other one leads 0 and coordinates the groups."""

    silent: ScriptedBroker
    answering: ScriptedBroker
    where: tuple[str, ...]
    committed: dict[tuple[str, int], int]
    """The offsets that were committed, by group and partition."""
    deleted: list[str]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=1500\n")
    silent = ScriptedBroker(dict.fromkeys((ListGroupsRequest, ListOffsetsRequest), lambda _: Silence()))
    answering = ScriptedBroker()
    where = ("--bootstrap-server", answering.address, "--command-config", str(quick))
    found = Two(silent, answering, where, {}, [])
    offsets = {"a": {0: 3, 1: 3}, "b": {0: 3}}
    rows = [ListedGroup(group_id=name, protocol_type="consumer") for name in offsets]

    def describe(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        groups = [DescribedGroup(group_id=name, group_state="Empty") for name in request.groups]
        return DescribeGroupsResponse(groups=groups)

    def fetch(request: OffsetFetchRequest) -> OffsetFetchResponse:
        def partitions(group: str) -> list[OffsetFetchResponsePartitions]:
            return [
                OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset)
                for number, offset in offsets[group].items()
            ]

        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=each.group_id,
                    topics=[OffsetFetchResponseTopics(name="t", partitions=partitions(each.group_id))],
                )
                for each in request.groups
            ]
        )

    def commit(request: OffsetCommitRequest) -> OffsetCommitResponse:
        for topic in request.topics:
            for each in topic.partitions:
                found.committed[request.group_id, each.partition_index] = each.committed_offset
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def delete(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        found.deleted.extend(request.groups_names)
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name) for name in request.groups_names])

    def ends(request: ListOffsetsRequest) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=each.timestamp + 2)
            for topic in request.topics
            for each in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

    answering.handlers |= {
        ListGroupsRequest: lambda _: ListGroupsResponse(groups=rows),
        FindCoordinatorRequest: lambda _: FindCoordinatorResponse(node_id=2, host="127.0.0.1", port=answering.port),
        DescribeGroupsRequest: describe,
        OffsetFetchRequest: fetch,
        OffsetCommitRequest: commit,
        DeleteGroupsRequest: delete,
        ListOffsetsRequest: ends,
    }
    leaders = {("t", 0): 2, ("t", 1): 1}
    with silent, answering:
        for broker in (silent, answering):
            broker.handlers[MetadataRequest] = lambda _: metadata({1: silent, 2: answering}, leaders)
        yield found


def test_all_groups_are_those_of_the_brokers_that_answer(two: Two) -> None:
    """With Kafka's tool one broker that hangs keeps all groups from being described, reset or deleted."""
    done = call("groups", "describe", *two.where, "--all-groups", check=1)
    rows = [line.split()[:6] for line in done.out if line[:2] in ("a ", "b ")]
    assert rows == [
        ["a", "t", "0", "3", "1", "-2"],
        ["a", "t", "1", "3", "-", "-"],
        ["b", "t", "0", "3", "1", "-2"],
    ]
    assert done.err.startswith(UNLISTED)
    assert done.err.count("the ends of some logs are not known: ") == 1
    assert call("groups", "describe", *two.where, "--group", "b").out == done.out[-3:]

    done = call(
        "groups", "reset-offsets", *two.where, "--all-groups", "--all-topics", "--to-latest", "--execute", check=1
    )
    assert two.committed == {("b", 0): 1}
    assert [line.split() for line in done.out[1:-1]] == [["b", "t", "0", "1"]]
    assert done.err.startswith(UNLISTED)
    assert "kafkalog: group a: " in done.err

    done = call("groups", "delete", *two.where, "--all-groups", check=1)
    assert two.deleted == ["a", "b"]
    assert done.out == ["Deletion of requested consumer groups ('a', 'b') was successful."]
    assert done.err.startswith(UNLISTED)


def test_a_coordinator_that_does_not_answer_hides_no_groups_of_others(two: Two) -> None:
    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        node, broker = (1, two.silent) if request.key == "lost" else (2, two.answering)
        return FindCoordinatorResponse(node_id=node, host="127.0.0.1", port=broker.port)

    for broker in two.silent, two.answering:
        broker.handlers[FindCoordinatorRequest] = find
    for request in DescribeGroupsRequest, DeleteGroupsRequest:
        two.silent.handlers[request] = lambda _: Silence()
    both = ("--group", "lost", "--group", "b")
    done = call("groups", "describe", *two.where, *both, check=1)
    assert [line.split()[:6] for line in done.out[1:-1]] == [["b", "t", "0", "3", "1", "-2"]]
    done = call("groups", "reset-offsets", *two.where, *both, "--topic", "t:0", "--to-latest", "--execute", check=1)
    assert two.committed == {("b", 0): 1}
    assert "the group 'lost' is inactive, but the current state is not known: " in done.err
    done = call("groups", "delete", *two.where, *both, check=1)
    assert done.out == ["Deletion of requested consumer groups ('b') was successful."]
    assert done.err.startswith("kafkalog: Group 'lost' could not be deleted: ")


def test_committed_offsets_are_exported_without_the_leaders(two: Two) -> None:
    """They stay as they are, so nothing depends on the logs."""
    words = ("--group", "a", "--all-topics", "--to-current", "--export")
    done = call("groups", "reset-offsets", *two.where, *words, "--dry-run")
    assert (done.out, done.err) == (["t,0,3", "t,1,3"], "")
    assert not two.silent.seen[ListOffsetsRequest]
