"""The requests that a controller sends to brokers after committing a decision. Pure: turns operations into requests.

Each replica of a partition that is new, or has another leader, ISR or assignment, gets a LeaderAndIsr. A broker that
holds a partition that is deleted, or no longer assigned to it, gets a StopReplica. Brokers carry both out by
`replica.hosting.applier.ReplicaApplier`, whether they arrive by a call or over the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from broker.metadata.model import ClusterState
from broker.metadata.operations import AddPartitions, ChangePartitions, CreateTopic, DeleteTopic, Operation
from broker.replica.hosting.applier import DELETION_EPOCH, LeaderAndIsr, StopReplica


@dataclass(frozen=True, slots=True)
class ControlRequests:
    """The requests to one broker, each in the order of the decision."""

    leader_and_isr: list[LeaderAndIsr] = field(default_factory=list)
    stop_replica: list[StopReplica] = field(default_factory=list)


def requests_for(before: ClusterState, operations: Iterable[Operation]) -> dict[int, ControlRequests]:
    """Return the requests to each broker for `operations`, which were decided on the state `before`."""
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
    """List the roles of a broker, as a controller sends them to a broker that has just started."""
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
