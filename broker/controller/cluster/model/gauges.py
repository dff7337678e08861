"""Numbers that tell how a cluster fares, as Kafka's controller reports them.

They are read on another thread than the one that changes the context, so collections are copied first.
"""

from __future__ import annotations

from broker.controller.cluster.model.context import ControllerContext, PartitionPhase


def offline_partitions(context: ControllerContext) -> int:
    """Return the number of partitions that have no available leader, apart from those being deleted."""
    phases = list(context.partition_phases.items())
    return sum(phase is PartitionPhase.OFFLINE and key[0] not in context.deleting for key, phase in phases)


def imbalanced_partitions(context: ControllerContext) -> int:
    """Return the number of partitions that their preferred replica does not lead.

    While a partition moves, its preferred replica may be one that is not in sync yet. Then it counts until it is.
    """
    found = 0
    for key, state in list(context.states.items()):
        assignment = context.assignment(key)
        if not assignment.replicas or key[0] in context.deleting:
            continue
        preferred = assignment.replicas[0]
        found += preferred not in state.isr if preferred in assignment.adding else state.leader != preferred
    return found


def partitions(context: ControllerContext) -> int:
    """Return the number of partitions of the cluster that have had a leader."""
    return len(context.states)


def topics(context: ControllerContext) -> int:
    """Return the number of topics of the cluster."""
    return len(context.assignments)


def topics_to_delete(context: ControllerContext) -> int:
    """Return the number of topics that are being deleted, or wait for it."""
    return len(context.deleting)


def reassigning_partitions(context: ControllerContext) -> int:
    """Return the number of partitions that move to other brokers."""
    return len(context.reassigning)


def brokers(context: ControllerContext) -> int:
    """Return the number of registered brokers."""
    return len(context.brokers)
