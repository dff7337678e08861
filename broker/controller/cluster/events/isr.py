"""Changes of ISRs: leaders ask for them by AlterPartition, or, before 2.7, write them and leave a notice."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from broker.controller.cluster.machine import deletion, reassignment
from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.effects import Steps, children, read, send
from broker.controller.cluster.model.requests import ControlBatch
from broker.controller.cluster.model.states import read_states, write_states
from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode
from kafkalog.protocol.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger(__name__)

AskedKey = tuple[str | uuid.UUID, int]
"""A partition as AlterPartition names it: its topic's name or, from version 2 on, its topic's id."""


@dataclass(frozen=True, slots=True)
class WantedIsr:
    """The ISR that a leader proposes by AlterPartition."""

    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """The partition epoch that the change is based on."""
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    reason: str = ""
    """The reason why the leader proposes it; brokers of Apache Kafka do not give one."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """The broker epochs that the members had at their last fetches, -1 where the leader does not know (KIP-903)."""


def alter_partition(
    context: ControllerContext, broker_id: int, broker_epoch: int, wanted: Mapping[PartitionKey, WantedIsr]
) -> Steps[dict[PartitionKey, StateNode | KafkaError]]:
    """Carry out AlterPartition; return the state of each partition, or why it was not changed.

    The checks have the order of Kafka's controller. States of which the leader knows more are read anew before.

    Raises:
        StaleBrokerEpochError: The leader is not registered, or was registered anew.
    """
    broker = context.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise StaleBrokerEpochError(f"Broker {broker_id} is not registered with epoch {broker_epoch}.")
    ahead = [
        key
        for key, each in wanted.items()
        if (known := context.states.get(key)) is not None and each.partition_epoch > known.partition_epoch
    ]
    if ahead:
        # Somebody else has written the states, and the leader has read them. Or this controller has been replaced: then
        # it can write nothing.
        context.cause = "somebody else wrote it to ZooKeeper"
        yield from take_states(context, ahead)
    context.cause = f"broker {broker_id}, the leader, asked for it (AlterPartition)"
    context.causes = {key: f"{context.cause}: {each.reason}" for key, each in wanted.items() if each.reason}
    results: dict[PartitionKey, StateNode | KafkaError] = {}
    changed: dict[PartitionKey, StateNode] = {}
    for key, each in wanted.items():
        found = judge(context, key, broker_id, each)
        if isinstance(found, KafkaError) or found is context.states.get(key):
            results[key] = found
        else:
            changed[key] = found
    done, stale = yield from write_states(context, changed)
    context.causes = {}
    for key, result in done.items():
        results[key] = result if isinstance(result, StateNode) else UnknownServerError(repr(result))
    results |= {key: InvalidUpdateVersionError() for key in stale}
    batch = ControlBatch(context)
    batch.inform_all(wanted)
    yield from send(batch.requests())
    return {key: results[key] for key in wanted}


def named(context: ControllerContext, asked: Iterable[AskedKey]) -> dict[AskedKey, PartitionKey]:
    """Return the keys of partitions, leaving out topic ids that are unknown."""
    found: dict[AskedKey, PartitionKey] = {}
    for each in asked:
        topic, index = each
        name = topic if isinstance(topic, str) else context.topic_names.get(topic)
        if name is not None:
            found[each] = name, index
    return found


def complete_reassignments(
    context: ControllerContext, results: Mapping[PartitionKey, StateNode | KafkaError]
) -> Steps[None]:
    """Finish reassignments that only waited for the changes of `alter_partition`. Called when that is answered."""
    changed = [key for key, result in results.items() if isinstance(result, StateNode)]
    yield from reassignment.complete(context, changed)


def judge(context: ControllerContext, key: PartitionKey, leader: int, wanted: WantedIsr) -> StateNode | KafkaError:
    """Return the state that a leader asks for, the present state if nothing changes, or why it is refused."""
    present = context.states.get(key)
    if present is None:
        return UnknownTopicOrPartitionError()
    if wanted.partition_epoch > present.partition_epoch or wanted.leader_epoch > present.leader_epoch:
        # The leader knows more than this controller, which has probably been replaced.
        return NotControllerError()
    if wanted.leader_epoch < present.leader_epoch:
        return FencedLeaderEpochError()
    state = replace(present, leader=leader, isr=wanted.isr, recovery=wanted.recovery)
    if state == present:
        return present
    if wanted.partition_epoch < present.partition_epoch:
        return InvalidUpdateVersionError()
    is_recovering = wanted.recovery is LeaderRecoveryState.RECOVERING
    if is_recovering and len(wanted.isr) > 1:
        return InvalidRequestError("A leader that recovers has no other replica in the ISR.")
    if is_recovering and present.recovery is LeaderRecoveryState.RECOVERED:
        return InvalidRequestError("A leader cannot begin to recover.")
    live = context.live()
    absent = [member for member in wanted.isr if member not in live]
    if absent:
        return IneligibleReplicaError(f"Brokers {absent} are not alive or shut down.")
    # Kafka: ReplicationControlManager.ineligibleReplicasForIsr. The controller in ZooKeeper mode does not compare.
    restarted = [
        member for member in wanted.isr if wanted.epochs.get(member, -1) not in (-1, context.brokers[member].epoch)
    ]
    if restarted:
        return IneligibleReplicaError(f"Brokers {restarted} are registered with other epochs than they fetched with.")
    return state


def isr_noticed(context: ControllerContext) -> Steps[None]:
    """Read the ISRs that leaders have changed: `/isr_change_notification` has children."""
    (names,) = yield from children([paths.ISR_CHANGES], watch=True)
    if not names:
        return
    nodes = [f"{paths.ISR_CHANGES}/{name}" for name in names]
    found = yield from read(nodes)
    keys: dict[PartitionKey, None] = {}
    for path, node in zip(nodes, found, strict=True):
        try:
            if node is not None:
                keys.update(dict.fromkeys(sorted(notices.decode_isr_change(path, node.data))))
        except ZnodeError as error:
            logger.error("%s", error)
    known = [key for key in keys if context.assignment(key).replicas]
    context.cause = "the leader wrote it to ZooKeeper and left a notice"
    yield from take_states(context, known)
    batch = ControlBatch(context)
    batch.inform_all(known)
    yield from send(batch.requests())
    yield from reassignment.complete(context, known)
    yield from deletion.delete_nodes(nodes)


def states_changed(context: ControllerContext, keys: Iterable[PartitionKey]) -> Steps[None]:
    """Look at the ISRs of partitions that are being reassigned: the nodes of their states have changed."""
    moving = [key for key in keys if key in context.reassigning]
    states = yield from read_states(moving, watch=True)
    context.cause = "the leader wrote it to ZooKeeper"
    for key, state in states.items():
        context.put_state(key, state)
    yield from reassignment.complete(context, moving)


def take_states(context: ControllerContext, keys: list[PartitionKey]) -> Steps[None]:
    """Read the states of partitions into the context."""
    states = yield from read_states(keys)
    for key, state in states.items():
        context.put_state(key, state)
