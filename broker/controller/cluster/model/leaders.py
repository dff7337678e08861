"""Choose the replica that becomes the leader of a partition (Kafka: `Election`, `PartitionLeaderElectionAlgorithms`).

The order of the assignment is the order of preference. Each election increments the leader epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from broker.config.protocol_version import Feature
from broker.controller.cluster.model.assignments import target
from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes.topics import StateNode


class Strategy(Enum):
    """The reason for an election; it decides who may win."""

    OFFLINE = auto()
    """The leader is not available: an in-sync replica. If there is none, any replica, if the topic allows that."""
    UNCLEAN = auto()
    """As OFFLINE, and any replica is allowed, because an administrator asked for it."""
    REASSIGN = auto()
    """The leader is not among the replicas of the target."""
    PREFERRED = auto()
    """The first replica of the assignment and no other."""
    CONTROLLED_SHUTDOWN = auto()
    """The leader is about to stop: an in-sync replica that is not."""


class Elected(NamedTuple):
    """The outcome of an election."""

    state: StateNode | None
    """The state with the new leader, or None if no replica can lead."""
    recipients: tuple[int, ...]
    """The recipients of the LeaderAndIsr request."""


def elect(
    context: ControllerContext,
    key: PartitionKey,
    state: StateNode,
    strategy: Strategy,
    *,
    is_unclean: bool = False,
    longest: int | None = None,
) -> Elected:
    """Elect the leader of a partition.

    Args:
        is_unclean: whether any replica may lead if no in-sync one is available. Only for OFFLINE and UNCLEAN.
        longest: who leads then; None for the first one in the order of the assignment.
    """
    replicas = context.assignment(key).replicas
    match strategy:
        case Strategy.OFFLINE | Strategy.UNCLEAN:
            return _offline(context, key, state, is_unclean, longest)
        case Strategy.REASSIGN:
            wanted = target(context.assignment(key))
            leader = first(wanted, state.isr, context.online(key, wanted))
            return Elected(None if leader is None else led(context, state, leader), wanted)
        case Strategy.PREFERRED:
            leader = first(replicas[:1], state.isr, context.online(key, replicas))
            return Elected(None if leader is None else led(context, state, leader), replicas)
        case Strategy.CONTROLLED_SHUTDOWN:
            usable = context.online(key, replicas, or_shutting_down=True)
            staying = tuple(broker_id for broker_id in usable if broker_id not in context.shutting_down)
            leader = first(replicas, state.isr, staying)
            isr = tuple(broker_id for broker_id in state.isr if broker_id not in context.shutting_down)
            return Elected(None if leader is None else led(context, state, leader, isr), usable)


def first(candidates: Sequence[int], isr: Sequence[int], online: Sequence[int]) -> int | None:
    """Return the first candidate that is in sync and online, or None."""
    return next((broker_id for broker_id in candidates if broker_id in isr and broker_id in online), None)


def led(context: ControllerContext, state: StateNode, leader: int, isr: tuple[int, ...] | None = None) -> StateNode:
    """Return the state after an election; the ISR stays unless another is given."""
    return replace(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=state.isr if isr is None else isr,
        controller_epoch=context.epoch,
    )


def _offline(
    context: ControllerContext, key: PartitionKey, state: StateNode, is_unclean: bool, longest: int | None
) -> Elected:
    replicas = context.assignment(key).replicas
    online = context.online(key, replicas)
    leader = first(replicas, state.isr, online)
    if leader is not None:
        return Elected(led(context, state, leader, context.online(key, state.isr)), online)
    if not is_unclean or not online:
        return Elected(None, online)
    leader = longest if longest in online else online[0]
    elected = led(context, state, leader, (leader,))
    if context.settings.protocol.has(Feature.LEADER_RECOVERY):
        elected = replace(elected, recovery=LeaderRecoveryState.RECOVERING)
    return Elected(elected, online)
