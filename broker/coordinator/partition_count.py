"""The number of partitions of a coordinator's topic, which decides the partition that a key belongs to.

The number is kept from the first time on that the topic is seen: if the topic grows, keys would move to other
partitions, without their state. As in Kafka, a restart is needed then.

In a cluster the number is read from ZooKeeper. A controller tells of the partitions of a new topic one after the other:
of those that have a leader. So what a broker was told first may be a part of the topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.metadata.model import NO_TOPIC_ID, PartitionCount, TopicState, may_be_one_topic
from broker.zookeeper.interface import ZooKeeperError

logger = logging.getLogger(__name__)

ReadCount = Callable[[str], Awaitable[PartitionCount | None]]
"""Reads how many partitions a topic has; None if that cannot be said."""


class CountedPartitions:
    """Counts the partitions of one topic. Used on the event loop's thread only.

    Args:
        topic: the name of the topic.
        state: returns the topic as this broker knows it, or None.
        loop: the event loop.
        read: reads the number; None where this broker knows each topic whole.
    """

    def __init__(
        self,
        topic: str,
        state: Callable[[], TopicState | None],
        loop: asyncio.AbstractEventLoop,
        read: ReadCount | None = None,
    ) -> None:
        self._topic = topic
        self._state = state
        self._loop = loop
        self._read = read
        self._counted: PartitionCount | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def number(self) -> int | None:
        """The number of partitions; None if the topic does not exist, or while the number is being read."""
        state = self._state()
        if state is None:
            return None
        if self._counted is None or not may_be_one_topic(self._counted.topic_id, state.topic_id):
            if self._read is not None:
                self._begin(self._read)
                return None
            self._counted = PartitionCount(state.topic_id, len(state.partitions))
        elif self._counted.topic_id == NO_TOPIC_ID:
            self._counted = self._counted._replace(topic_id=state.topic_id)
        return self._counted.partitions

    def set(self, counted: PartitionCount) -> None:
        """Set the number, as read from ZooKeeper."""
        self._counted = counted

    async def settled(self, timeout_s: float) -> int | None:
        """Return `number`, after waiting for it while it is being read."""
        number = self.number
        if number is None and self._reading is not None:
            await asyncio.wait([self._reading], timeout=timeout_s)
            number = self.number
        return number

    async def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def _begin(self, read: ReadCount) -> None:
        if self._is_closed or (self._reading is not None and not self._reading.done()):
            return
        self._reading = self._loop.create_task(self._count(read))

    async def _count(self, read: ReadCount) -> None:
        try:
            found = await read(self._topic)
        except (OSError, ZooKeeperError) as error:
            # The next request that needs the number has it read again.
            logger.warning("The partitions of %s cannot be counted yet: %s", self._topic, error)
            return
        if found is not None:
            self._counted = found
