"""The partition counts of topics, as ZooKeeper says; the controller may have told this broker of a part of them."""

from __future__ import annotations

import asyncio
import logging

from broker.metadata.model import NO_TOPIC_ID, PartitionCount
from broker.metadata.tree.session import Session
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import TopicNode, decode_topic
from broker.zookeeper.interface import Node, ZooKeeper

logger = logging.getLogger(__name__)


class PartitionCounts:
    """Counts the partitions of topics. Used on the event loop's thread only.

    Args:
        zookeeper: the session.
        loop: the event loop.
        patience_s: how long a request waits for a connection to ZooKeeper.
    """

    def __init__(self, zookeeper: ZooKeeper, loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        self._session = Session(zookeeper, loop, patience_s=patience_s)

    async def read(self, topic: str) -> PartitionCount | None:
        """Return how many partitions a topic has; None if there is no such topic, or its node cannot be understood.

        Raises:
            OSError: there was no connection to ZooKeeper for too long.
            ZooKeeperError: ZooKeeper refuses.
        """
        node = await self._node(topic)
        found = None if node is None else _decoded(topic, node)
        return None if found is None else PartitionCount(found.topic_id or NO_TOPIC_ID, len(found.partitions))

    async def is_absent(self, topic: str, index: int) -> bool:
        """Return whether ZooKeeper has no such partition; False where the topic's node cannot be understood.

        Raises:
            OSError: there was no connection to ZooKeeper for too long.
            ZooKeeperError: ZooKeeper refuses.
        """
        node = await self._node(topic)
        found = None if node is None else _decoded(topic, node)
        return node is None or (found is not None and index not in found.partitions)

    async def _node(self, topic: str) -> Node | None:
        return await self._session.read(lambda: self._session.zookeeper.get(paths.topic(topic)))


def _decoded(topic: str, node: Node) -> TopicNode | None:
    """Return the content of a topic's node; None, and a warning, if it cannot be understood."""
    try:
        return decode_topic(topic, node.data)
    except ZnodeError as error:
        logger.warning("%s", error)
        return None
