"""Plans new topics and new partitions: checks names and assigns partitions to brokers. Pure.

The checks have the order of Apache Kafka's `AdminZkClient` and `ZkAdminManager`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from broker.config.definition import ConfigError
from broker.config.topic import parse_topic_config
from broker.controller.decisions.assignment import assign_replicas, check_manual
from broker.metadata.model import ClusterState, PartitionState, TopicState, new_topic_id
from broker.metadata.operations import AddPartitions, CreateTopic, DeleteTopic
from kafkalog.protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    TopicAlreadyExistsError,
)
from kafkalog.storage.topics import MAX_TOPIC_NAME, has_legal_characters

UNSET = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
"""The number of new partitions that one request may create, as in Apache Kafka's own controller."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 is the broker's default, and `assignments` (partition to brokers) excludes both."""

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers on which new partitions may be placed."""

    brokers: Sequence[int]
    """The live brokers."""
    partitions: int
    """The default number of partitions."""
    replication_factor: int
    """The default replication factor."""
    controller_epoch: int
    """The epoch of the controller that decides."""
    random: random.Random
    """Chooses the broker that leads a topic's first partition, and the topic's id."""
    racks: Mapping[int, str | None] = field(default_factory=dict)
    """The racks of the brokers; an absent one has none."""

    def lead_by_first(self, replicas: tuple[int, ...]) -> PartitionState:
        """Make the state of a new partition: all replicas are in sync, and the preferred one leads."""
        return PartitionState(replicas, replicas, replicas[0], controller_epoch=self.controller_epoch)


def check_topic_name(name: str) -> None:
    """Refuse names that cannot be part of a directory's name (KIP-4's rules).

    Raises:
        InvalidTopicError: the name is empty, `.` or `..`, too long, or has characters other than a-zA-Z0-9._-
    """
    if not name:
        raise InvalidTopicError("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicError("Topic name is invalid: '.' or '..' is not allowed")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicError(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
        )
    if not has_legal_characters(name):
        raise InvalidTopicError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


class TopicPlan:
    """The topics of one creation, each checked against the registry and the topics added before it."""

    def __init__(self, state: ClusterState, placement: Placement) -> None:
        self._state = state
        self._placement = placement
        self._room = MAX_PARTITIONS_PER_REQUEST
        self._ids = {topic.topic_id for topic in state.topics.values()} | state.deleting
        self._folded: dict[str, str] | None = None
        self.topics: dict[str, TopicState] = {}

    def plan(self, topic: NewTopic) -> TopicState:
        """Plan a topic without adding it.

        Raises:
            KafkaError: the topic cannot be created.
        """
        _check_room(max(topic.partitions, len(topic.assignments), 1), self._room)
        check_topic_name(topic.name)
        self.check_vacant(topic.name)
        if topic.assignments and (topic.partitions != UNSET or topic.replication_factor != UNSET):
            raise InvalidRequestError(
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            )
        try:
            parse_topic_config(topic.config)
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from error
        replicas = self._assign(topic)
        _check_room(len(replicas), self._room)
        config = {name: value for name, value in topic.config.items() if value is not None}
        partitions = tuple(map(self._placement.lead_by_first, replicas))
        return TopicState(topic.name, new_topic_id(self._ids, self._placement.random), partitions, config)

    def add(self, topic: TopicState) -> None:
        """Add a planned topic, so that later ones are checked against it."""
        self.topics[topic.name] = topic
        self._ids.add(topic.topic_id)
        self._room -= len(topic.partitions)
        if self._folded is not None:
            self._folded[_fold(topic.name)] = topic.name

    def check_vacant(self, name: str) -> None:
        """Refuse a name that exists, or collides with an existing one in metrics, where `.` and `_` are equal.

        Raises:
            TopicAlreadyExistsError: a topic of that name exists.
            InvalidTopicError: a topic with the same name in metrics exists.
        """
        if name in self._state.topics or name in self.topics:
            raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
        if "." not in name and "_" not in name:
            return
        if self._folded is None:
            self._folded = {_fold(other): other for other in (*self._state.topics, *self.topics)}
        collision = self._folded.get(_fold(name))
        if collision is not None:
            raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {collision}")

    def _assign(self, topic: NewTopic) -> list[tuple[int, ...]]:
        placement = self._placement
        if topic.assignments:
            return check_manual(dict(topic.assignments), placement.brokers)
        count = placement.partitions if topic.partitions == UNSET else topic.partitions
        unset = topic.replication_factor == UNSET
        factor = placement.replication_factor if unset else topic.replication_factor
        start = placement.random.randrange(max(1, len(placement.brokers)))
        return assign_replicas(placement.brokers, count, factor, start, racks=placement.racks)


def colliding(names: Iterable[str], topics: Collection[str]) -> list[str]:
    """Return the topics because of which topics of these names cannot be created; see `TopicPlan.check_vacant`."""
    wanted = set(names)
    folded = {_fold(name) for name in wanted if "." in name or "_" in name}
    if not folded:
        return [name for name in wanted if name in topics]
    return [name for name in topics if name in wanted or _fold(name) in folded]


def without(state: ClusterState, gone: Mapping[str, TopicState]) -> ClusterState:
    """Return `state` without topics that are gone, by name. It may have other ones of the same names: they stay."""
    if not gone:
        return state
    return replace(state, topics={name: topic for name, topic in state.topics.items() if gone.get(name) is not topic})


def creations(
    state: ClusterState, placement: Placement, planned: Iterable[TopicState]
) -> tuple[list[CreateTopic], dict[str, KafkaError]]:
    """Create the planned topics whose names are still free; return also the errors of the others, by name."""
    plan = TopicPlan(state, placement)
    refused: dict[str, KafkaError] = {}
    for topic in planned:
        try:
            plan.check_vacant(topic.name)
        except KafkaError as error:
            refused[topic.name] = error
        else:
            plan.add(topic)
    return [CreateTopic(topic) for topic in plan.topics.values()], refused


def deletions(state: ClusterState, wanted: Mapping[str, uuid.UUID]) -> list[DeleteTopic]:
    """Delete the topics, given as ids by name, that still exist."""
    present = ((name, state.topics.get(name)) for name in wanted)
    return [
        DeleteTopic(name, topic.topic_id)
        for name, topic in present
        if topic is not None and topic.topic_id == wanted[name]
    ]


def growth(
    topic: TopicState, count: int, assignments: Sequence[Sequence[int]] | None, placement: Placement
) -> AddPartitions:
    """Raise the number of a topic's partitions to `count`.

    Raises:
        InvalidPartitionsError: `count` is not above the present number.
        PolicyViolationError: more than MAX_PARTITIONS_PER_REQUEST would be created.
        InvalidReplicaAssignmentError: `assignments` is invalid, or has another replication factor than the topic.
    """
    present = len(topic.partitions)
    if count < present:
        raise InvalidPartitionsError(
            f"Topic currently has {present} partitions, which is higher than the requested {count}."
        )
    if count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partitions.")
    added = count - present
    _check_room(added, MAX_PARTITIONS_PER_REQUEST)
    first = topic.partitions[0].replicas
    if assignments is not None:
        if len(assignments) != added:
            raise InvalidReplicaAssignmentError(
                f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
            )
        replicas = check_manual(dict(enumerate(assignments)), placement.brokers)
        if len(replicas[0]) != len(first):
            raise InvalidReplicaAssignmentError(
                f"Inconsistent replication factor between partitions, partition 0 has {len(first)} while the new "
                f"partitions have {len(replicas[0])}."
            )
    else:
        # Continue round robin from the preferred leader of the first partition, or from the next live broker.
        start = next((at for at, broker in enumerate(sorted(placement.brokers)) if broker >= first[0]), 0)
        replicas = assign_replicas(placement.brokers, added, len(first), start, present, placement.racks)
    return AddPartitions(topic.name, present, tuple(map(placement.lead_by_first, replicas)))


def _fold(name: str) -> str:
    return name.replace(".", "_")


def _check_room(wanted: int, room: int) -> None:
    if wanted > room:
        raise PolicyViolationError(
            f"Unable to perform excessively large batch operation: a request may ask for at most "
            f"{MAX_PARTITIONS_PER_REQUEST} new partitions."
        )
