"""The controller's view of the cluster (Kafka: `ControllerContext`).

Filled from ZooKeeper when a broker becomes the controller. From then on it changes with the controller's decisions, and
with what watches, requests and brokers' answers bring.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from broker.config.protocol_version import Feature, ProtocolVersion
from broker.controller.cluster.model.assignments import NONE
from broker.controller.cluster.model.history import KEPT, Change, describe
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes.topics import Assignment, StateNode

PartitionKey = tuple[str, int]
"""Topic and partition."""
EPOCH_OF_DELETION = -2
"""The leader epoch in StopReplica for a topic that is being deleted."""
NO_EPOCH = -1


class ReplicaKey(NamedTuple):
    """One replica of a partition."""

    topic: str
    partition: int
    broker_id: int

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition


class PartitionPhase(Enum):
    """The state of a partition (Kafka: `PartitionState`)."""

    NON_EXISTENT = auto()
    """Not created yet, or deleted."""
    NEW = auto()
    """It has replicas, but no leader was ever elected."""
    ONLINE = auto()
    """It has a leader."""
    OFFLINE = auto()
    """Its leader is not available."""


class ReplicaPhase(Enum):
    """The state of a replica (Kafka: `ReplicaState`)."""

    NON_EXISTENT = auto()
    NEW = auto()
    """It is to be created as a follower."""
    ONLINE = auto()
    OFFLINE = auto()
    """Its broker, or its log directory there, is not available."""
    DELETION_STARTED = auto()
    """Its broker was told to delete it."""
    DELETION_SUCCESSFUL = auto()
    DELETION_INELIGIBLE = auto()
    """It is to be deleted, and cannot be at present."""


@dataclass(slots=True)
class Settings:
    """The configuration that decisions depend on. Only `unclean_election` changes while the broker runs."""

    broker_id: int
    protocol: ProtocolVersion
    inter_broker_listener: str
    """The name of the listener for requests between brokers."""
    delete_topics: bool = True
    """`delete.topic.enable`."""
    unclean_election: bool = False
    """`unclean.leader.election.enable` of the broker, for topics that set nothing else."""
    log_ends_timeout_s: float = 2.0
    """`kafkalog.unclean.recovery.timeout.ms` in seconds; 0 if logs are not compared."""
    imbalance_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`."""


@dataclass(slots=True)
class ControllerContext:
    """See the module."""

    settings: Settings
    epoch: int = 0
    """The number of this controller's election."""
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    """The registered brokers, including those that are shutting down."""
    shutting_down: set[int] = field(default_factory=set)
    """Brokers that asked for a controlled shutdown: they lead nothing and join no ISR."""
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    topic_names: dict[uuid.UUID, str] = field(default_factory=dict)
    assignments: dict[str, dict[int, Assignment]] = field(default_factory=dict)
    """All topics."""
    states: dict[PartitionKey, StateNode] = field(default_factory=dict)
    """The partitions that ever had a leader."""
    reassigning: set[PartitionKey] = field(default_factory=set)
    partition_phases: dict[PartitionKey, PartitionPhase] = field(default_factory=dict)
    replica_phases: dict[ReplicaKey, ReplicaPhase] = field(default_factory=dict)
    offline_logs: dict[int, set[PartitionKey]] = field(default_factory=dict)
    """Replicas by broker whose log directory there has failed."""
    deleting: set[str] = field(default_factory=set)
    """Topics that are to be deleted."""
    deletion_started: set[str] = field(default_factory=set)
    ineligible: set[str] = field(default_factory=set)
    """Topics whose deletion waits for a broker."""
    cause: str = "the controller starts"
    """The cause of the decisions that are made now."""
    causes: dict[PartitionKey, str] = field(default_factory=dict)
    """The causes of single partitions, for those whose cause is not `cause`."""
    changes: list[Change] = field(default_factory=list)
    """Changes of partitions since the list was last taken."""
    untold: deque[Change] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Changes of partitions that the brokers have not been told the causes of yet."""
    told: int = 0
    """The number of causes that the brokers have been told in this term."""

    # -- brokers

    @property
    def is_alter_partition(self) -> bool:
        """Return whether leaders change the ISR only through this controller."""
        return self.settings.protocol.has(Feature.ALTER_PARTITION)

    def live(self) -> set[int]:
        """Return the registered brokers that are not shutting down."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker_id: int, key: PartitionKey, *, or_shutting_down: bool = False) -> bool:
        """Return whether a replica can be used: its broker is registered, and its log directory works."""
        return (
            broker_id in self.brokers
            and (or_shutting_down or broker_id not in self.shutting_down)
            and key not in self.offline_logs.get(broker_id, ())
        )

    def online(self, key: PartitionKey, replicas: Iterable[int], *, or_shutting_down: bool = False) -> tuple[int, ...]:
        """Return those of a partition's replicas that can be used, in their order."""
        return tuple(
            broker_id for broker_id in replicas if self.is_online(broker_id, key, or_shutting_down=or_shutting_down)
        )

    # -- partitions

    def assignment(self, key: PartitionKey) -> Assignment:
        """Return the replicas of a partition; none if it does not exist."""
        return self.assignments.get(key[0], {}).get(key[1], NONE)

    def partitions(self) -> Iterator[PartitionKey]:
        """Return all partitions."""
        for topic, found in self.assignments.items():
            for index in found:
                yield topic, index

    def partitions_of(self, topics: Iterable[str]) -> list[PartitionKey]:
        """Return the partitions of topics."""
        return [(topic, index) for topic in topics for index in self.assignments.get(topic, ())]

    def replicas_of(self, keys: Iterable[PartitionKey]) -> list[ReplicaKey]:
        """Return the replicas of partitions."""
        return [ReplicaKey(*key, broker_id) for key in keys for broker_id in self.assignment(key).replicas]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[ReplicaKey]:
        """Return the replicas of some brokers."""
        wanted = set(broker_ids)
        return [
            ReplicaKey(topic, index, broker_id)
            for topic, found in self.assignments.items()
            for index, assignment in found.items()
            for broker_id in assignment.replicas
            if broker_id in wanted
        ]

    def in_phase(self, topic: str, phase: ReplicaPhase) -> list[ReplicaKey]:
        """Return the replicas of a topic that are in a phase."""
        return [each for each in self.replicas_of(self.partitions_of([topic])) if self.phase_of(each) is phase]

    def phase_of(self, replica: ReplicaKey) -> ReplicaPhase:
        return self.replica_phases.get(replica, ReplicaPhase.NON_EXISTENT)

    def without_available_leader(self) -> list[PartitionKey]:
        """Return the partitions whose leader is not available, apart from those of topics being deleted."""
        return [
            key
            for key, state in self.states.items()
            if key[0] not in self.deleting and not self.is_online(state.leader, key)
        ]

    def led_by(self, broker_id: int) -> list[PartitionKey]:
        """Return the partitions that a broker leads and another one could, apart from those being deleted."""
        return [
            key
            for key, state in self.states.items()
            if state.leader == broker_id and key[0] not in self.deleting and len(self.assignment(key).replicas) > 1
        ]

    def epoch_for_stop(self, key: PartitionKey) -> int:
        """Return the leader epoch of a StopReplica."""
        if key[0] in self.deleting:
            return EPOCH_OF_DELETION
        state = self.states.get(key)
        return NO_EPOCH if state is None else state.leader_epoch

    # -- changes

    def put_state(self, key: PartitionKey, state: StateNode) -> None:
        """Take the state of a partition, and note what changed."""
        before = self.states.get(key)
        self.states[key] = state
        if what := describe(before, state):
            self.note(Change(*key, what, self.causes.get(key, self.cause), before, state))

    def note(self, change: Change) -> None:
        """Note a change of a partition."""
        self.changes.append(change)
        self.untold.append(change)

    def forget_changes(self) -> None:
        """Forget the changes that were noted: this controller has only read them."""
        self.changes.clear()
        self.untold.clear()

    def put_assignment(self, key: PartitionKey, assignment: Assignment) -> None:
        """Take the replicas of a partition."""
        self.assignments.setdefault(key[0], {})[key[1]] = assignment

    def put_topic_id(self, topic: str, topic_id: uuid.UUID) -> None:
        """Take the id of a topic; an id that it had before is forgotten."""
        former = self.topic_ids.get(topic)
        if former is not None:
            self.topic_names.pop(former, None)
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        """Forget a topic that exists no longer."""
        self.deleting.discard(topic)
        self.deletion_started.discard(topic)
        self.ineligible.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for index, assignment in self.assignments.pop(topic, {}).items():
            key = topic, index
            self.states.pop(key, None)
            self.partition_phases.pop(key, None)
            self.reassigning.discard(key)
            for broker_id in {*assignment.replicas, *self.brokers}:
                self.replica_phases.pop(ReplicaKey(*key, broker_id), None)
            for logs in self.offline_logs.values():
                logs.discard(key)
