"""Partition reassignments requested by administrators (KIP-455). Pure.

In a cluster of one broker, a partition can be assigned only to the broker that it has. Such a reassignment has nothing
to copy and is complete at once, so none is ever in progress.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.decisions.assignment import looked_at
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
    """Return the error of a requested reassignment; None if the partition is assigned to `replicas`.

    `replicas` of None cancels a reassignment in progress. The checks have the order of Kafka's controller: an invalid
    list of replicas is reported before an unknown partition.

    Args:
        state: the registry.
        key: topic and partition.
        replicas: the requested replicas, or None.
        brokers: the live brokers.
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
    present = _current(state, key) or ()
    replicas = looked_at(replicas, {*present, *brokers})
    if len(set(replicas)) != len(replicas):
        return InvalidReplicaAssignmentError(
            f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
        )
    if min(replicas) < 0:
        return InvalidReplicaAssignmentError(f"Invalid broker id in replica list: {list(replicas)}")
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
