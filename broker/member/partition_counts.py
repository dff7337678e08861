"""The partition counts of topics, as ZooKeeper says; the controller may have told this broker of a part of them."""

from __future__ import annotations

import asyncio
import logging

from broker.metadata.model import NO_TOPIC_ID, PartitionCount
from broker.metadata.tree.session import Session
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import decode_topic
from broker.zookeeper.interface import ZooKeeper

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
        node = await self._session.read(lambda: self._session.zookeeper.get(paths.topic(topic)))
        if node is None:
            return None
        try:
            found = decode_topic(topic, node.data)
        except ZnodeError as error:
            logger.warning("%s", error)
            return None
        return PartitionCount(found.topic_id or NO_TOPIC_ID, len(found.partitions))

    async def is_absent(self, topic: str, index: int) -> bool:
        """Return whether ZooKeeper has no such partition; False where the topic's node cannot be understood.

        Raises:
            OSError: there was no connection to ZooKeeper for too long.
            ZooKeeperError: ZooKeeper refuses.
        """
        node = await self._session.read(lambda: self._session.zookeeper.get(paths.topic(topic)))
        if node is None:
            return True
        try:
            return index not in decode_topic(topic, node.data).partitions
        except ZnodeError as error:
            logger.warning("%s", error)
            return False
