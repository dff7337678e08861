"""Elections, reassignments and log directories, against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.replica_admin import ElectionType, ReplicaAdmin
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ElectionNotNeededError,
    InvalidReplicaAssignmentError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)


@pytest.fixture
def replicas(make_config: Callable[..., ClientConfig]) -> Iterator[ReplicaAdmin]:
    with ReplicaAdmin(make_config()) as opened:
        yield opened


def kinds(outcomes: dict[TopicPartition, KafkaError | None]) -> dict[TopicPartition, type | None]:
    return {tp: None if error is None else type(error) for tp, error in outcomes.items()}


def test_elections(replicas: ReplicaAdmin, new_topic: Callable[..., str]) -> None:
    first, second = (TopicPartition(new_topic(2), index) for index in range(2))
    unknown = TopicPartition("there-is-no-such-topic", 0)
    for kind in ElectionType:
        assert kinds(replicas.elect_leaders([first, second, unknown], kind)) == {
            first: ElectionNotNeededError,
            second: ElectionNotNeededError,
            unknown: UnknownTopicOrPartitionError,
        }
        assert replicas.elect_leaders(None, kind) == {}
    assert replicas.elect_leaders([]) == {}


def test_reassignments(replicas: ReplicaAdmin, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    here = next(iter(replicas.cluster.metadata([], refresh=True).brokers))
    tps = [TopicPartition(topic, index) for index in range(3)]
    outcomes = replicas.alter_partition_reassignments({tps[0]: [here], tps[1]: [here, 999], tps[2]: None})
    assert kinds(outcomes) == {
        tps[0]: None,
        tps[1]: InvalidReplicaAssignmentError,
        tps[2]: NoReassignmentInProgressError,
    }
    assert "999" in str(outcomes[tps[1]])
    assert replicas.list_partition_reassignments() == {}
    assert replicas.list_partition_reassignments(tps) == {}
    assert replicas.alter_partition_reassignments({}) == {}
