"""Tests of elections and reassignments over the wire, with one broker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, exchange, produce

PREFERRED, UNCLEAN = 0, 1


def elect(
    sock: socket.socket, wanted: dict[str, list[int]] | None, kind: int = PREFERRED, version: int = 2
) -> dict[tuple[str, int], int]:
    topics = None if wanted is None else [TopicPartitions(topic=name, partitions=ids) for name, ids in wanted.items()]
    request = ElectLeadersRequest(topic_partitions=topics, **({"election_type": kind} if version else {}))
    response = exchange(sock, request, version)
    assert response.error_code == ErrorCode.NONE
    return {
        (topic.topic, row.partition_id): row.error_code
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_partition_with_a_leader_needs_no_election(wire: socket.socket, topic: str, kind: int, version: int) -> None:
    wanted = {topic: [0, 1, 2, -1], "unknown": [0]}
    assert elect(wire, wanted, kind, version) == {
        (topic, 0): ErrorCode.ELECTION_NOT_NEEDED,
        (topic, 1): ErrorCode.ELECTION_NOT_NEEDED,
        (topic, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert elect(wire, None, kind, version) == {}
    assert elect(wire, {}, kind, version) == {}


def test_an_unknown_kind_of_election_is_refused(wire: socket.socket, topic: str) -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=[0, 1])], election_type=2)
    response = exchange(wire, request, 2)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    (result,) = response.replica_election_results
    assert [row.error_code for row in result.partition_result] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_partition_of_a_failed_directory_has_nobody_to_elect(
    start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    broker = start_broker({"log.dirs": ",".join(map(str, dirs)), "log.flush.offset.checkpoint.interval.ms": "50"})
    with broker.connect() as sock:
        create_topic(sock, "t", 2)
        for partition in range(2):
            assert produce(sock, "t", batch([b"x"]), partition).error_code == ErrorCode.NONE
        (lost,) = [int(path.name[2:]) for path in dirs[0].glob("t-?")]
        dirs[0].rename(tmp_path / "away")
        dirs[0].write_text("in its place")
        broker.wait_logged(f"Stopping serving logs in dir {dirs[0]}")
        assert elect(sock, None) == {("t", lost): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert elect(sock, None, UNCLEAN) == {("t", lost): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
        assert elect(sock, {"t": [1 - lost]}) == {("t", 1 - lost): ErrorCode.ELECTION_NOT_NEEDED}


def reassign(sock: socket.socket, wanted: dict[str, dict[int, list[int] | None]]) -> dict[tuple[str, int], Any]:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=ids) for index, ids in rows.items()],
            )
            for name, rows in wanted.items()
        ]
    )
    response = exchange(sock, request, 0)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, row.partition_index): (row.error_code, row.error_message)
        for topic in response.responses
        for row in topic.partitions
    }


DOES_NOT_EXIST = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


def test_assigning_a_partition_to_its_broker_is_done_at_once(wire: socket.socket, topic: str) -> None:
    assert reassign(wire, {topic: {0: [0], 1: [0], 2: [0]}, "unknown": {0: [0]}}) == {
        (topic, 0): (ErrorCode.NONE, None),
        (topic, 1): (ErrorCode.NONE, None),
        (topic, 2): DOES_NOT_EXIST,
        ("unknown", 0): DOES_NOT_EXIST,
    }
    assert exchange(wire, ListPartitionReassignmentsRequest(), 0).topics == []
    some = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 7])]
    response = exchange(wire, ListPartitionReassignmentsRequest(topics=some), 0)
    assert (response.error_code, response.topics) == (ErrorCode.NONE, [])
    assert produce(wire, topic, batch([b"x"])).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ([], "Empty replica list"),
        ([0, 0], "Duplicate replica ids"),
        ([-1], "Invalid broker id"),
        ([0, 5], r"not alive. Replica list: [5], live broker list: [0]"),
    ],
)
def test_replicas_that_cannot_be(wire: socket.socket, topic: str, replicas: list[int], said: str) -> None:
    outcomes = reassign(wire, {topic: {0: replicas}, "unknown": {3: replicas}})
    assert {code for code, _ in outcomes.values()} == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert all(said in message for _, message in outcomes.values())


def test_there_is_no_reassignment_to_cancel(wire: socket.socket, topic: str) -> None:
    outcomes = reassign(wire, {topic: {0: None}, "unknown": {0: None}})
    assert {code for code, _ in outcomes.values()} == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
