"""Compares what a broker holds of a partition with what ZooKeeper says of it. Pure.

A request of the controller may be lost, or may fail on the broker. Then the broker keeps its former role, or has none,
until the controller has another reason to send it. Apache Kafka does not notice that. Every controller, Apache Kafka's
too, writes what it decides to ZooKeeper before it sends it to brokers, so that each broker can look for itself.

Replicas that are on the disk of a broker although the cluster does not assign them to it are strays. A reassignment
leaves them behind when the broker is down at its end, and topics that are deleted meanwhile.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from broker.metadata.znodes.topics import StateNode, TopicNode

CLOCKS_APART_MS = 300_000
"""A topic is taken for newer than a replica only if it is so by this time at least: clocks differ between hosts."""


class Kind(Enum):
    """The action that a difference calls for."""

    ASK = auto()
    """The controller has to tell the broker its roles again."""
    ADOPT = auto()
    """The leader takes over the ISR that is in force."""
    RESIGN = auto()
    """The broker gives the role up."""
    SET_ASIDE = auto()
    """The log is a stray."""


class Finding(NamedTuple):
    """A difference, and the action that it calls for."""

    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class Held:
    """The role and the log that a broker has of a partition."""

    leader_epoch: int | None = None
    """The leader epoch of its role; None if it has no role."""
    partition_epoch: int = 0
    """The version of the state on which the role is based."""
    is_leader: bool = False
    is_proposing: bool = False
    """True if it has proposed another ISR, and waits for the answer."""
    is_offline: bool = False
    """True if its log cannot be used. The controller knows that."""
    has_log: bool = False
    topic_id: uuid.UUID | None = None
    """The id of the topic that the log belongs to, if it is known."""
    log_since_ms: int | None = None
    """The time at which the log was made, or learnt the id, in ms since the epoch; None if that is not known."""


class Topic(NamedTuple):
    """A topic in ZooKeeper."""

    node: TopicNode
    created_ms: int
    """The time of its creation, by ZooKeeper's clock."""


def compare(broker_id: int, index: int, held: Held, topic: Topic | None, state: StateNode | None) -> Finding | None:
    """Return what differs between what a broker holds of a partition and what ZooKeeper says of it; None if nothing.

    Args:
        broker_id: the broker.
        index: the partition.
        held: what it holds.
        topic: the partition's topic; None if there is no such topic.
        state: the partition's leader and ISR; None if it never had a leader.
    """
    assignment = None if topic is None else topic.node.partitions.get(index)
    if topic is None or assignment is None or broker_id not in assignment.replicas:
        return _unassigned(held, topic, has_partition=assignment is not None)
    if held.has_log and is_of_another(held.topic_id, topic):
        return _of_another(held, topic)
    if held.is_offline or state is None:
        return None
    if held.leader_epoch is None:
        return Finding(Kind.ASK, "it is assigned here, and has no role")
    if held.leader_epoch < state.leader_epoch:
        return Finding(
            Kind.ASK,
            f"its role is of leader epoch {held.leader_epoch}, and the cluster's leader epoch is {state.leader_epoch}, "
            f"with leader {state.leader}",
        )
    if (
        held.is_leader
        and not held.is_proposing
        and (state.leader, state.leader_epoch) == (broker_id, held.leader_epoch)
        # The controller does not send each ISR to followers.
        and held.partition_epoch < state.partition_epoch
    ):
        return Finding(Kind.ADOPT, f"the ISR in force is {list(state.isr)}, of version {state.partition_epoch}")
    return None


def _unassigned(held: Held, topic: Topic | None, *, has_partition: bool) -> Finding | None:
    if topic is None:
        why = "the cluster has no such topic"
    elif has_partition:
        why = "it is not assigned to this broker any more"
    else:
        why = "the topic has no such partition"
    if held.leader_epoch is not None:
        return Finding(Kind.RESIGN, why)
    return Finding(Kind.SET_ASIDE, why) if held.has_log else None


def is_of_another(topic_id: uuid.UUID | None, topic: Topic | None) -> bool:
    """Return whether a log with a topic's id belongs to another topic than the present one of its name."""
    present = None if topic is None else topic.node.topic_id
    return topic_id is not None and present is not None and topic_id != present


def _of_another(held: Held, topic: Topic) -> Finding | None:
    """Return what to do with a log of another topic of this name, whose place the present topic needs.

    A topic may also get another id because somebody has written its node without one (KAFKA-12835). Then all logs have
    the former id, and must stay. They are older than the topic's node only if that was created again.
    """
    if held.log_since_ms is None or topic.created_ms < held.log_since_ms + CLOCKS_APART_MS:
        return None
    if held.leader_epoch is not None:
        return Finding(Kind.RESIGN, "the topic was deleted and created again")
    return Finding(Kind.SET_ASIDE, f"it belongs to topic id {held.topic_id}, and the topic was created again")
