"""Reassignments of partitions to other brokers (KIP-455). Pure.

Where every broker of the cluster is this one, a partition can be assigned to the brokers that it has, and to no others:
such a reassignment has nothing to copy and is complete at once. So none is ever under way.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.metadata.model import ClusterState
from kafkalog.protocol.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

TopicPartition = tuple[str, int]


def judge_reassignment(
    state: ClusterState, key: TopicPartition, replicas: Sequence[int] | None, brokers: Sequence[int]
) -> KafkaError | None:
    """What is wrong with the replicas that are wanted for a partition; None where it is assigned to them.

    None in place of replicas cancels a reassignment under way. Checks are made in the order of Kafka's controller: a
    bad list of replicas is told before an unknown partition.

    Args:
        brokers: those that are alive.
    """
    if replicas is None:
        return NoReassignmentInProgressError()
    error = _check_replicas(state, key, replicas, brokers)
    if error is None and _current(state, key) is None:
        return UnknownTopicOrPartitionError("The partition does not exist.")
    return error


def _check_replicas(
    state: ClusterState, key: TopicPartition, replicas: Sequence[int], brokers: Sequence[int]
) -> KafkaError | None:
    if not replicas:
        return InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
    if len(set(replicas)) != len(replicas):
        return InvalidReplicaAssignmentError(
            f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
        )
    if min(replicas) < 0:
        return InvalidReplicaAssignmentError(f"Invalid broker id in replica list: {list(replicas)}")
    present = _current(state, key) or ()
    dead = [broker for broker in replicas if broker not in present and broker not in brokers]
    if dead:
        return InvalidReplicaAssignmentError(
            f"Replica assignment has brokers that are not alive. Replica list: {dead}, live broker list: "
            f"{list(brokers)}"
        )
    return None


def _current(state: ClusterState, key: TopicPartition) -> tuple[int, ...] | None:
    name, index = key
    topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    return topic.partitions[index].replicas
