"""The steps of a newly elected controller (Kafka: `KafkaController.onControllerFailover`).

The order matters. Each read sets a watch, so that no change is missed. First, all brokers get the controller and the
live brokers by UpdateMetadata: clients ask for the controller, and a follower refuses a leader that it does not know.
Kafka reads all topics before that, which takes long where there are many. Next come the
topics that have a partition without a leader, because nobody can use that partition. Then every broker gets its other
roles anew, with unchanged epochs: the former controller may have stopped before it sent them.
"""

from __future__ import annotations

import logging
import random

from broker.config.protocol_version import Feature, ProtocolVersion
from broker.controller.cluster.events import elections, isr
from broker.controller.cluster.events.brokers import read_brokers
from broker.controller.cluster.events.topics import take_topics
from broker.controller.cluster.machine import deletion, partitions, reassignment, replicas, restarts
from broker.controller.cluster.model.assignments import is_being_reassigned
from broker.controller.cluster.model.context import ControllerContext
from broker.controller.cluster.model.effects import Connect, Steps, children, read, send, write
from broker.controller.cluster.model.requests import ControlBatch
from broker.controller.cluster.model.topic_nodes import read_topics
from broker.metadata.znodes import paths
from broker.metadata.znodes.cluster import FeatureNode, decode_feature, encode_feature
from broker.metadata.znodes.json_node import ZnodeError
from broker.zookeeper.interface import Create, SetData, ZooKeeperError

logger = logging.getLogger(__name__)

_WITHOUT_LEAST_LEVELS = ProtocolVersion.parse("3.3-IV0")
"""From this version on the node of features has version 2."""


def take_over(context: ControllerContext, chance: random.Random) -> Steps[None]:
    """Read the cluster, tell all brokers of it, and go on where the former controller stopped."""
    context.cause = f"the controller of epoch {context.epoch} took over"
    yield from _features(context)
    # What these tell of is about to be read.
    noticed = yield from children([paths.LOG_DIR_EVENTS, paths.ISR_CHANGES], watch=True)
    for parent, names in zip((paths.LOG_DIR_EVENTS, paths.ISR_CHANGES), noticed, strict=True):
        yield from deletion.delete_nodes(f"{parent}/{name}" for name in names)
    context.brokers = yield from read_brokers()
    yield Connect(list(context.brokers.values()))
    batch = ControlBatch(context)
    batch.inform_all()
    yield from send(batch.requests())
    yield from _read_topics(context, chance)
    yield from _read_deletions(context)
    if gone := sorted(
        {each for key in context.partitions() for each in context.assignment(key).replicas} - context.live()
    ):
        context.cause += f" and found that brokers {gone} are not registered"
    # This comes before any role is sent: a leader that was started anew must not go on in its former epoch.
    yield from restarts.settle(context)
    replicas.find_phases(context)
    led = yield from partitions.startup(context)
    yield from replicas.startup(context, led)
    logger.info(
        "controller of epoch %d with %d brokers, %d topics and %d partitions",
        context.epoch,
        len(context.brokers),
        len(context.assignments),
        len(context.partition_phases),
    )
    ordered = yield from reassignment.by_order(context)
    yield from reassignment.resume(context, [key for key in sorted(context.reassigning) if key not in ordered])
    yield from deletion.go_on(context)
    yield from elections.by_order(context)


def _read_topics(context: ControllerContext, chance: random.Random) -> Steps[None]:
    (names,) = yield from children([paths.TOPICS], watch=True)
    nodes = yield from read_topics(sorted(names), watch=True)
    yield from take_topics(context, nodes, chance)
    context.reassigning = {key for key in context.partitions() if is_being_reassigned(context.assignment(key))}
    yield from isr.take_states(context, list(context.partitions()))
    # That a controller knows them is not a change.
    context.forget_changes()


def _read_deletions(context: ControllerContext) -> Steps[None]:
    (names,) = yield from children([paths.DELETE_TOPICS], watch=True)
    if not context.settings.delete_topics:
        yield from deletion.delete_nodes(paths.delete_topic(topic) for topic in names)
        return
    context.deleting = set(names)
    offline = {
        each.topic
        for each in context.replicas_of(context.partitions_of(names))
        if not context.is_online(each.broker_id, each.key)
    }
    deletion.hold(context, offline, "brokers with replicas of them are offline")
    yield from reassignment.abandon(context, names)


def _features(context: ControllerContext) -> Steps[None]:
    """Write `/feature`: no features are finalized here, and those of others are kept."""
    protocol = context.settings.protocol
    (node,) = yield from read([paths.FEATURE])
    found: FeatureNode | None = None
    if node is not None:
        try:
            found = decode_feature(node.data)
        except ZnodeError as error:
            logger.error("%s", error)
    is_enabled = protocol.has(Feature.FEATURE_NODE)
    wanted = FeatureNode(
        version=2 if protocol >= _WITHOUT_LEAST_LEVELS else 1,
        enabled=is_enabled,
        features=found.features if is_enabled and found is not None and found.enabled else {},
    )
    if wanted == found:
        return
    data = encode_feature(wanted)
    (outcome,) = yield from write([[Create(paths.FEATURE, data) if node is None else SetData(paths.FEATURE, data)]])
    if isinstance(outcome, ZooKeeperError):
        logger.error("the node %s cannot be written: %r", paths.FEATURE, outcome)
