"""Deletes topics (Kafka: `TopicDeletionManager`).

A topic that is to be deleted has a node in `/admin/delete_topics`. Its partitions become NON_EXISTENT, brokers drop it
from their metadata, and its replicas are stopped and deleted. When all of them are, its nodes are deleted, the topic's
own one last and together with the order: a controller that takes over in between begins again, and no order is left for
a topic that is created anew.

A topic is ineligible while a replica is offline. It is tried anew when the broker comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from broker.controller.cluster.machine import partitions, replicas
from broker.controller.cluster.model.context import ControllerContext, PartitionPhase, ReplicaKey, ReplicaPhase
from broker.controller.cluster.model.effects import Steps, Unwatch, children, read, send, write
from broker.controller.cluster.model.requests import ControlBatch
from broker.metadata.znodes import paths
from broker.zookeeper.interface import Delete, Node, NoNodeError, ZooKeeperError

logger = logging.getLogger(__name__)

CAUSE = "the topic is being deleted"
"""The cause of the changes of a partition whose topic is deleted."""


def resume(context: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    """Try topics again that could not be deleted before."""
    waiting = context.deleting.intersection(topics)
    if waiting:
        context.ineligible -= waiting
        yield from go_on(context)


def hold(context: ControllerContext, topics: Iterable[str], reason: str) -> None:
    """Wait with the deletion of topics until `resume`."""
    held = context.deleting.intersection(topics)
    if held:
        context.ineligible |= held
        logger.info("topics %s cannot be deleted yet: %s", ", ".join(sorted(held)), reason)


def failed(context: ControllerContext, gone: Collection[ReplicaKey], reason: str) -> Steps[None]:
    """Take note that replicas could not be deleted."""
    mine = [each for each in gone if each.topic in context.deleting]
    if mine:
        yield from replicas.change(context, mine, ReplicaPhase.DELETION_INELIGIBLE)
        hold(context, {each.topic for each in mine}, reason)
        yield from go_on(context)


def succeeded(context: ControllerContext, gone: Collection[ReplicaKey]) -> Steps[None]:
    """Take note that replicas were deleted."""
    mine = [each for each in gone if each.topic in context.deleting]
    yield from replicas.change(context, mine, ReplicaPhase.DELETION_SUCCESSFUL)
    yield from go_on(context)


def go_on(context: ControllerContext) -> Steps[None]:
    """Do what can be done now for all topics that are to be deleted."""
    if context.deleting:
        context.cause = CAUSE
    retried: list[ReplicaKey] = []
    eligible: list[str] = []
    for topic in sorted(context.deleting):
        every = context.replicas_of(context.partitions_of([topic]))
        phases = {context.phase_of(each) for each in every}
        if phases <= {ReplicaPhase.DELETION_SUCCESSFUL}:
            yield from _finish(context, topic)
            continue
        if ReplicaPhase.DELETION_STARTED in phases:
            continue
        if ReplicaPhase.DELETION_INELIGIBLE in phases:
            retried += [each for each in every if context.phase_of(each) is ReplicaPhase.DELETION_INELIGIBLE]
        if topic not in context.ineligible:
            eligible.append(topic)
    if retried:
        yield from replicas.change(context, retried, ReplicaPhase.OFFLINE)
    if eligible:
        yield from _begin(context, eligible)


def _begin(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    unseen = [topic for topic in topics if topic not in context.deletion_started]
    if unseen:
        keys = context.partitions_of(unseen)
        yield from partitions.change(context, keys, PartitionPhase.OFFLINE)
        yield from partitions.change(context, keys, PartitionPhase.NON_EXISTENT)
        context.deletion_started.update(unseen)
    batch = ControlBatch(context)
    batch.inform_all(context.partitions_of(topics))
    yield from send(batch.requests())
    dead: list[ReplicaKey] = []
    alive: list[ReplicaKey] = []
    for each in context.replicas_of(context.partitions_of(topics)):
        if not context.is_online(each.broker_id, each.key):
            dead.append(each)
        elif context.phase_of(each) is not ReplicaPhase.DELETION_SUCCESSFUL:
            alive.append(each)
    # Those that are ineligible already stay so.
    dying = [each for each in dead if context.phase_of(each) is not ReplicaPhase.DELETION_INELIGIBLE]
    serving = [each for each in dying if context.phase_of(each) in (ReplicaPhase.NEW, ReplicaPhase.ONLINE)]
    yield from replicas.change(context, serving, ReplicaPhase.OFFLINE)
    yield from replicas.change(context, dying, ReplicaPhase.DELETION_INELIGIBLE)
    yield from replicas.change(context, alive, ReplicaPhase.OFFLINE)
    yield from replicas.change(context, alive, ReplicaPhase.DELETION_STARTED)
    hold(context, {each.topic for each in dead}, "brokers with replicas of them are offline")


def _finish(context: ControllerContext, topic: str) -> Steps[None]:
    """Delete the nodes of a topic whose replicas are deleted."""
    root = paths.topic(topic)
    (found,) = yield from read([root])
    yield from _delete_below(root)
    # Nobody can create the topic anew while its node is there, so that this is not the configuration of a new one.
    yield from delete_nodes([paths.config("topics", topic)])
    if not (yield from _delete_with_order(topic, found)):
        # The order stays, and with it what the controller knows of the topic.
        return
    done = context.in_phase(topic, ReplicaPhase.DELETION_SUCCESSFUL)
    yield from replicas.change(context, done, ReplicaPhase.NON_EXISTENT)
    yield Unwatch([root])
    context.remove_topic(topic)
    logger.info("topic %s is deleted", topic)


def _delete_with_order(topic: str, found: Node | None) -> Steps[bool]:
    """Delete a topic's node and the order to delete it; return whether both are gone.

    Args:
        topic: The topic.
        found: The node as it was when the topic's nodes began to be deleted.
    """
    root, order = paths.topic(topic), paths.delete_topic(topic)
    (outcome,) = yield from write([[Delete(root), Delete(order)]])
    if isinstance(outcome, NoNodeError):
        # Somebody has deleted one of them, or both were deleted by a request whose answer was lost.
        (present,) = yield from read([root])
        if present is None:
            (outcome,) = yield from write([[Delete(order)]])
        elif found is not None and present.stat.created == found.stat.created:
            (outcome,) = yield from write([[Delete(root, present.stat.version)]])
        # Else the topic was created anew: it stays.
    if isinstance(outcome, ZooKeeperError) and not isinstance(outcome, NoNodeError):
        logger.error("the node %s cannot be deleted: %r", root, outcome)
        return False
    return True


def _delete_below(root: str) -> Steps[None]:
    """Delete all nodes below a node."""
    levels = [[root]]
    while levels[-1]:
        names = yield from children(levels[-1])
        levels.append([f"{parent}/{name}" for parent, found in zip(levels[-1], names, strict=True) for name in found])
    for level in reversed(levels[1:]):
        yield from delete_nodes(level)


def delete_nodes(nodes: Iterable[str]) -> Steps[None]:
    """Delete nodes; those that do not exist are as good as deleted."""
    wanted = list(nodes)
    outcomes = yield from write([Delete(path)] for path in wanted)
    for path, outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, ZooKeeperError) and not isinstance(outcome, NoNodeError):
            logger.error("the node %s cannot be deleted: %r", path, outcome)
