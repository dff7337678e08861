"""Reads and changes the nodes of topics.

Other brokers add partitions to a node at any time. A change is a write on condition that the node is still the one that
was read; else it is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from broker.controller.cluster.model.effects import Steps, read, write
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import TopicNode, decode_topic, encode_topic
from broker.zookeeper.interface import BadVersionError, NoNodeError, SetData, ZooKeeperError

logger = logging.getLogger(__name__)


def read_topics(topics: Iterable[str], *, watch: bool = False) -> Steps[dict[str, TopicNode]]:
    """Read the nodes of topics; those that are gone, or cannot be read, are left out."""
    wanted = list(topics)
    nodes = yield from read((paths.topic(topic) for topic in wanted), watch=watch)
    found: dict[str, TopicNode] = {}
    for topic, node in zip(wanted, nodes, strict=True):
        if node is None:
            continue
        try:
            found[topic] = decode_topic(topic, node.data)
        except ZnodeError as error:
            logger.error("%s", error)
    return found


def change_topics(
    changes: Mapping[str, Callable[[TopicNode], TopicNode]],
) -> Steps[dict[str, TopicNode | ZooKeeperError | ZnodeError]]:
    """Change the nodes of topics.

    Args:
        changes: For each topic what makes the new content from the present one.

    Returns:
        The new contents, or why a node was not changed.
    """
    done: dict[str, TopicNode | ZooKeeperError | ZnodeError] = {}
    remaining = list(changes)
    while remaining:
        nodes = yield from read(paths.topic(topic) for topic in remaining)
        changed: dict[str, TopicNode] = {}
        groups: list[list[SetData]] = []
        for topic, node in zip(remaining, nodes, strict=True):
            path = paths.topic(topic)
            if node is None:
                done[topic] = NoNodeError(path)
                continue
            try:
                changed[topic] = changes[topic](decode_topic(topic, node.data))
            except ZnodeError as error:
                done[topic] = error
            else:
                groups.append([SetData(path, encode_topic(changed[topic]), node.stat.version)])
        outcomes = yield from write(groups)
        remaining = []
        for (topic, content), outcome in zip(changed.items(), outcomes, strict=True):
            if isinstance(outcome, BadVersionError):
                remaining.append(topic)
            else:
                done[topic] = outcome if isinstance(outcome, ZooKeeperError) else content
    return done
