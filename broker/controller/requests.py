"""What a controller tells the brokers once its decision is committed. Pure: operations in, requests out.

A partition that is new, or has another leader, ISR or assignment, is told to each of its replicas (LeaderAndIsr); one
that is deleted, or no longer assigned to a broker, is taken from it (StopReplica). A broker carries them out by its
`replica.applier.ReplicaApplier`, whichever way they come to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from broker.metadata.model import ClusterState
from broker.metadata.operations import AddPartitions, ChangePartitions, CreateTopic, DeleteTopic, Operation
from broker.replica.applier import DELETION_EPOCH, LeaderAndIsr, StopReplica


@dataclass(frozen=True, slots=True)
class ControlRequests:
    """The requests to one broker, each in the order of the decision."""

    leader_and_isr: list[LeaderAndIsr] = field(default_factory=list)
    stop_replica: list[StopReplica] = field(default_factory=list)


def requests_for(before: ClusterState, operations: Iterable[Operation]) -> dict[int, ControlRequests]:
    """Find what each broker has to be told of ``operations``, which were decided upon ``before``."""
    found: dict[int, ControlRequests] = {}

    def of(broker_id: int) -> ControlRequests:
        return found.setdefault(broker_id, ControlRequests())

    for operation in operations:
        for told in _roles(before, operation):
            for broker_id in told.state.replicas:
                of(broker_id).leader_and_isr.append(told)
        for broker_id, stop in _stops(before, operation):
            of(broker_id).stop_replica.append(stop)
    return found


def roles_of(state: ClusterState, broker_id: int) -> list[LeaderAndIsr]:
    """List the roles that a broker has, as a controller tells them to a broker that has just started."""
    return [
        LeaderAndIsr(topic.name, topic.topic_id, index, partition)
        for topic in state.topics.values()
        for index, partition in enumerate(topic.partitions)
        if broker_id in partition.replicas
    ]


def _roles(before: ClusterState, operation: Operation) -> Iterator[LeaderAndIsr]:
    if isinstance(operation, CreateTopic):
        topic = operation.topic
        for index, state in enumerate(topic.partitions):
            yield LeaderAndIsr(topic.name, topic.topic_id, index, state, is_new=True)
    elif isinstance(operation, AddPartitions):
        topic_id = before.topics[operation.topic].topic_id
        for index, state in enumerate(operation.partitions, operation.first):
            yield LeaderAndIsr(operation.topic, topic_id, index, state, is_new=True)
    elif isinstance(operation, ChangePartitions):
        topic_id = before.topics[operation.topic].topic_id
        for index, state in operation.states.items():
            yield LeaderAndIsr(operation.topic, topic_id, index, state)


def _stops(before: ClusterState, operation: Operation) -> Iterator[tuple[int, StopReplica]]:
    if isinstance(operation, DeleteTopic):
        for index, state in enumerate(before.topics[operation.name].partitions):
            for broker_id in state.replicas:
                yield broker_id, StopReplica(operation.name, index, DELETION_EPOCH, delete=True)
    elif isinstance(operation, ChangePartitions):
        for index, state in operation.states.items():
            for broker_id in set(before.topics[operation.topic].partitions[index].replicas) - set(state.replicas):
                yield broker_id, StopReplica(operation.topic, index, state.leader_epoch, delete=True)
