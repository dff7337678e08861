"""Topics that others create, change and order to be deleted, seen by watches."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Collection, Mapping
from functools import partial

from broker.config.protocol_version import Feature
from broker.controller.cluster.machine import deletion, partitions, reassignment, replicas
from broker.controller.cluster.model.context import (
    ControllerContext,
    PartitionKey,
    PartitionPhase,
    ReplicaPhase,
)
from broker.controller.cluster.model.effects import Steps, Unwatch, children
from broker.controller.cluster.model.leaders import Strategy
from broker.controller.cluster.model.topic_nodes import change_topics, read_topics
from broker.metadata.model import new_topic_id
from broker.metadata.znodes import paths
from broker.metadata.znodes.topics import TopicNode

logger = logging.getLogger(__name__)


def topics_changed(context: ControllerContext, chance: random.Random) -> Steps[None]:
    """Look which topics there are: `/brokers/topics` has changed."""
    context.cause = "the topic was created"
    (names,) = yield from children([paths.TOPICS], watch=True)
    gone = context.assignments.keys() - set(names)
    if gone:
        yield Unwatch([paths.topic(topic) for topic in gone])
    for topic in gone:
        context.remove_topic(topic)
    new = [topic for topic in sorted(names) if topic not in context.assignments]
    nodes = yield from read_topics(new, watch=True)
    yield from take_topics(context, nodes, chance)
    yield from create(context, context.partitions_of(nodes))


def partitions_changed(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    """Look which partitions topics have: their nodes have changed."""
    context.cause = "the partition was added to its topic"
    nodes = yield from read_topics([topic for topic in topics if topic in context.assignments], watch=True)
    added: list[PartitionKey] = []
    for topic, node in nodes.items():
        known = context.assignments[topic]
        new = {index: assignment for index, assignment in node.partitions.items() if index not in known}
        if not new:
            continue
        if topic in context.deleting:
            logger.warning("topic %s gets no new partitions, because it is being deleted", topic)
            yield from _restore(context, topic)
            continue
        for index, assignment in new.items():
            context.put_assignment((topic, index), assignment)
            added.append((topic, index))
    yield from create(context, added)


def deletions_changed(context: ControllerContext) -> Steps[None]:
    """Look which topics are to be deleted: `/admin/delete_topics` has changed."""
    context.cause = deletion.CAUSE
    (names,) = yield from children([paths.DELETE_TOPICS], watch=True)
    unknown = [topic for topic in names if topic not in context.assignments]
    if unknown:
        logger.warning("topics %s do not exist, and are not deleted", ", ".join(unknown))
        yield from deletion.delete_nodes(paths.delete_topic(topic) for topic in unknown)
    ordered = [topic for topic in names if topic in context.assignments]
    if not context.settings.delete_topics:
        yield from deletion.delete_nodes(paths.delete_topic(topic) for topic in ordered)
        return
    context.deleting.update(ordered)
    yield from reassignment.abandon(context, ordered)
    yield from deletion.go_on(context)


def create(context: ControllerContext, keys: Collection[PartitionKey]) -> Steps[None]:
    """Bring new partitions into being."""
    if not keys:
        return
    yield from partitions.change(context, keys, PartitionPhase.NEW)
    new = context.replicas_of(keys)
    yield from replicas.change(context, new, ReplicaPhase.NEW)
    yield from partitions.change(context, keys, PartitionPhase.ONLINE, Strategy.OFFLINE)
    yield from replicas.change(context, new, ReplicaPhase.ONLINE)


def take_topics(context: ControllerContext, nodes: Mapping[str, TopicNode], chance: random.Random) -> Steps[None]:
    """Take new topics into the context; give those an id that have none."""
    ids: dict[str, uuid.UUID] = {}
    for topic, node in nodes.items():
        context.assignments[topic] = dict(node.partitions)
        if node.topic_id is not None:
            context.put_topic_id(topic, node.topic_id)
        elif context.settings.protocol.has(Feature.TOPIC_IDS):
            ids[topic] = new_topic_id({*context.topic_names, *ids.values()}, chance)
    outcomes = yield from change_topics({topic: partial(_with_id, topic_id) for topic, topic_id in ids.items()})
    for topic, outcome in outcomes.items():
        if isinstance(outcome, TopicNode) and outcome.topic_id is not None:
            context.put_topic_id(topic, outcome.topic_id)
        else:
            logger.error("topic %s gets no id: %r", topic, outcome)


def _with_id(topic_id: uuid.UUID, node: TopicNode) -> TopicNode:
    return TopicNode(node.topic_id or topic_id, node.partitions)


def _restore(context: ControllerContext, topic: str) -> Steps[None]:
    """Take back partitions that were added to a topic that is being deleted."""
    (names,) = yield from children([paths.partitions(topic)])
    kept = {index for index in context.assignments[topic] if str(index) in names}

    def without_new(node: TopicNode) -> TopicNode:
        left = {index: each for index, each in node.partitions.items() if index in kept}
        return TopicNode(node.topic_id or context.topic_ids.get(topic), left)

    outcomes = yield from change_topics({topic: without_new})
    if not isinstance(outcomes[topic], TopicNode):
        logger.error("the new partitions of topic %s cannot be taken back: %r", topic, outcomes[topic])
