"""Elections that somebody asks for: an administrator, a tool by a node in ZooKeeper, or the balancing of leaders."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from broker.controller.cluster.machine import deletion, partitions
from broker.controller.cluster.model.context import ControllerContext, PartitionKey, PartitionPhase
from broker.controller.cluster.model.effects import Steps, read
from broker.controller.cluster.model.leaders import Strategy, first
from broker.controller.cluster.model.states import StateChangeError
from broker.controller.decisions.elections import ElectionType
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode
from kafkalog.protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidTopicError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger(__name__)

_PERCENT = 100


def elect_leaders(
    context: ControllerContext, keys: Collection[PartitionKey] | None, kind: ElectionType
) -> Steps[dict[PartitionKey, int | KafkaError]]:
    """Carry out ElectLeaders; return the new leader of each partition, or why there was no election.

    Args:
        keys: The partitions, or None for all of them. Then those that need no election are left out.
        kind: An unclean election may elect any live replica, whatever the topic's configuration says.
    """
    context.cause = f"an administrator asked for an election ({kind.name.lower()})"
    wanted = list(context.partitions()) if keys is None else list(dict.fromkeys(keys))
    results: dict[PartitionKey, int | KafkaError] = {}
    electable: list[PartitionKey] = []
    for key in wanted:
        error = refusal(context, key, kind)
        if error is None:
            electable.append(key)
        elif keys is not None or not isinstance(error, ElectionNotNeededError):
            results[key] = error
    strategy = Strategy.PREFERRED if kind is ElectionType.PREFERRED else Strategy.UNCLEAN
    elected = yield from partitions.change(context, electable, PartitionPhase.ONLINE, strategy)
    for key, outcome in elected.items():
        if isinstance(outcome, StateNode):
            results[key] = outcome.leader
        elif not isinstance(outcome, StateChangeError):
            results[key] = UnknownServerError(repr(outcome))
        elif kind is ElectionType.PREFERRED:
            results[key] = PreferredLeaderNotAvailableError(str(outcome))
        else:
            results[key] = EligibleLeadersNotAvailableError(str(outcome))
    return results


def refusal(context: ControllerContext, key: PartitionKey, kind: ElectionType) -> KafkaError | None:
    """Return why a partition gets no election, or None."""
    replicas = context.assignment(key).replicas
    if not replicas:
        return UnknownTopicOrPartitionError("The partition does not exist.")
    if key[0] in context.deleting:
        return InvalidTopicError("The topic is being deleted")
    state = context.states.get(key)
    if state is None:
        return None
    if kind is ElectionType.PREFERRED:
        return ElectionNotNeededError() if state.leader == replicas[0] else None
    return ElectionNotNeededError() if state.leader in context.live() else None


def by_order(context: ControllerContext) -> Steps[None]:
    """Elect the preferred leaders that a tool has asked for by `/admin/preferred_replica_election`."""
    (node,) = yield from read([paths.PREFERRED_ELECTION], watch=True)
    if node is None:
        return
    try:
        keys = notices.decode_preferred_election(node.data) if node.data else frozenset()
    except ZnodeError as error:
        logger.error("%s", error)
        keys = frozenset()
    context.cause = f"a tool asked for preferred leaders ({paths.PREFERRED_ELECTION})"
    wanted = [key for key in sorted(keys) if refusal(context, key, ElectionType.PREFERRED) is None]
    yield from partitions.change(context, wanted, PartitionPhase.ONLINE, Strategy.PREFERRED)
    # One pass, whatever came of it.
    yield from deletion.delete_nodes([paths.PREFERRED_ELECTION])


def balance(context: ControllerContext) -> Steps[None]:
    """Elect preferred leaders where too many partitions of a broker are led by others."""
    for broker_id, preferring in _by_preferred(context).items():
        others = [key for key in preferring if (state := context.states.get(key)) and state.leader != broker_id]
        share = len(others) / len(preferring)
        if share * _PERCENT <= context.settings.imbalance_percentage:
            continue
        context.cause = (
            f"leaders are balanced: {len(others)} of {len(preferring)} partitions that prefer broker {broker_id} "
            "were led by others"
        )
        ready = [key for key in others if _can_lead(context, key, broker_id)]
        yield from partitions.change(context, ready, PartitionPhase.ONLINE, Strategy.PREFERRED)


def unclean_enabled(context: ControllerContext, topics: Iterable[str] | None) -> Steps[None]:
    """Try elections again where `unclean.leader.election.enable` was set: for topics, or for all (None)."""
    context.cause = "unclean.leader.election.enable was set"
    for topic in [None] if topics is None else list(topics):
        yield from partitions.bring_online(context, topic)


def _by_preferred(context: ControllerContext) -> dict[int, list[PartitionKey]]:
    found: dict[int, list[PartitionKey]] = {}
    for key in context.partitions():
        replicas = context.assignment(key).replicas
        if replicas and key[0] not in context.deleting:
            found.setdefault(replicas[0], []).append(key)
    return found


def _can_lead(context: ControllerContext, key: PartitionKey, broker_id: int) -> bool:
    return first([broker_id], context.states[key].isr, context.online(key, [broker_id])) is not None
