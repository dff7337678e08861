"""`/brokers/topics/<topic>` and `…/partitions/<index>/state` (Kafka: `TopicZNode`, `TopicPartitionStateZNode`).

The topic's node has the assignment of replicas: version 1 only that, 2 (2.4) the replicas that a reassignment adds and
removes, 3 (2.8) the topic's id. Version 3 is written, with an id if the topic has one: a writer that drops the id would
make the next controller mint another one.

The state's node has the leader and the ISR. Its version is the partition epoch: each update names the version that it
is based on.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.metadata.model import LeaderRecoveryState, PartitionState
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import integer, integers, read, text, write

TOPIC_VERSION = 3
STATE_VERSION = 1
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of one partition."""

    replicas: tuple[int, ...]
    """The brokers that hold it, the preferred leader first."""
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds; among `replicas`."""
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment will remove; among `replicas`."""


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The content of a topic's node."""

    topic_id: uuid.UUID | None
    """None if no broker of 2.8 or later has been the controller yet."""
    partitions: Mapping[int, Assignment]


@dataclass(frozen=True, slots=True)
class StateNode:
    """The content of a partition's state, and the version of its node."""

    leader: int
    """The leader's id, or NO_LEADER."""
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    """The epoch of the controller that elected the leader."""
    partition_epoch: int = 0
    """The version of the node."""
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    modified: int = field(default=0, compare=False)
    """The transaction that wrote it, where it was read from ZooKeeper."""


def encode_topic(node: TopicNode) -> bytes:
    """Return the data of a topic's node."""
    content: dict[str, Any] = {
        "version": TOPIC_VERSION,
        "partitions": {str(index): each.replicas for index, each in node.partitions.items()},
        "adding_replicas": {str(index): each.adding for index, each in node.partitions.items() if each.adding},
        "removing_replicas": {str(index): each.removing for index, each in node.partitions.items() if each.removing},
    }
    if node.topic_id is not None:
        content["topic_id"] = base64.urlsafe_b64encode(node.topic_id.bytes).decode().rstrip("=")
    return write(content)


def decode_topic(name: str, data: bytes) -> TopicNode:
    """Return the content of a topic's node.

    Raises:
        ZnodeError: The data cannot be read.
    """

    def take(found: dict[str, Any]) -> TopicNode:
        adding, removing = found.get("adding_replicas", {}), found.get("removing_replicas", {})
        topic_id = found.get("topic_id")
        return TopicNode(
            None if topic_id is None else _topic_id(text(topic_id)),
            {
                int(index): Assignment(
                    integers(replicas), integers(adding.get(index, [])), integers(removing.get(index, []))
                )
                for index, replicas in found.get("partitions", {}).items()
            },
        )

    return read(paths.topic(name), data, take)


def _topic_id(written: str) -> uuid.UUID:
    raw = base64.b64decode(written + "==", altchars=b"-_", validate=True)
    if len(raw) != _ID_BYTES:
        raise ValueError(f"{written!r} is not a topic id")
    return uuid.UUID(bytes=raw)


def encode_state(node: StateNode) -> bytes:
    """Return the data of a partition's state."""
    content: dict[str, Any] = {
        "version": STATE_VERSION,
        "leader": node.leader,
        "leader_epoch": node.leader_epoch,
        "controller_epoch": node.controller_epoch,
        "isr": node.isr,
    }
    if node.recovery is not LeaderRecoveryState.RECOVERED:
        content["leader_recovery_state"] = int(node.recovery)
    return write(content)


def decode_state(name: str, index: int, data: bytes, version: int, modified: int = 0) -> StateNode:
    """Return the content of a partition's state, whose node has this version.

    Args:
        modified: the transaction that wrote it, if that is known.

    Raises:
        ZnodeError: The data cannot be read.
    """

    def take(found: dict[str, Any]) -> StateNode:
        return StateNode(
            leader=integer(found["leader"]),
            leader_epoch=integer(found["leader_epoch"]),
            isr=integers(found["isr"]),
            controller_epoch=integer(found["controller_epoch"]),
            partition_epoch=version,
            modified=modified,
            recovery=LeaderRecoveryState(integer(found.get("leader_recovery_state", 0))),
        )

    return read(paths.partition_state(name, index), data, take)


def joined(assignment: Assignment, state: StateNode) -> PartitionState:
    """Return the partition of both nodes."""
    return PartitionState(
        replicas=assignment.replicas,
        isr=state.isr,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        adding=assignment.adding,
        removing=assignment.removing,
        recovery=state.recovery,
    )


def parted(partition: PartitionState) -> tuple[Assignment, StateNode]:
    """Return what the topic's node and the state's node say of a partition."""
    return Assignment(partition.replicas, partition.adding, partition.removing), StateNode(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=partition.controller_epoch,
        partition_epoch=partition.partition_epoch,
        recovery=partition.recovery,
    )
