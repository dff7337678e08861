"""Answers to Metadata of many partitions, which clients that ask at the same time share.

After a broker has ended, all clients of a cluster ask at once. The entries of 4,000 partitions take a megabyte, and
handlers take turns, so that the entries of all answers would be in memory together. Here one answer is made at a time,
and whoever has asked for the same meanwhile gets the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState

MANY = 1000
"""Answers with more partitions than this are made one after the other."""
VERY_MANY = 20_000
"""Answers with more partitions do not hold up those with less."""
SHARED_S = 0.25
"""The time for which an answer is shared. It is short, because a failed log directory changes the answer, and `Moment`
does not notice that."""


class Moment(NamedTuple):
    """The state that an answer depends on, apart from failed log directories of this broker."""

    image: ClusterState
    lost: frozenset[int]
    listed: tuple[int, ...]

    @classmethod
    def of(cls, metadata: MetadataCache) -> Moment:
        """Return the moment of now."""
        listed = tuple(broker.broker_id for broker in metadata.listed_brokers())
        return cls(metadata.image, frozenset(metadata.lost()), listed)

    def is_over(self, metadata: MetadataCache) -> bool:
        """Return whether something has changed since."""
        now = Moment.of(metadata)
        return now.image is not self.image or now[1:] != self[1:]


class SharedMetadata:
    """Make large answers to Metadata, and share them.

    Args:
        metadata: what the answers tell of.
        loop: the event loop, on whose thread everything here runs.
    """

    def __init__(self, metadata: MetadataCache, loop: asyncio.AbstractEventLoop) -> None:
        self._metadata = metadata
        self._loop = loop
        self._bodies: dict[Hashable, tuple[Moment, memoryview]] = {}
        self._locks = (asyncio.Lock(), asyncio.Lock())

    async def body(
        self, count: int, key: Hashable, make: Callable[[], Awaitable[tuple[memoryview, bool]]]
    ) -> memoryview:
        """Return the encoded body of an answer.

        Args:
            count: the number of partitions, or `VERY_MANY` if there are more.
            key: what is asked for, in which form; None if the answer is for one client alone.
            make: makes the body, and says whether it may be shared.
        """
        async with self._locks[count >= VERY_MANY]:
            found = self._bodies.get(key)
            if found is not None and not found[0].is_over(self._metadata):
                return found[1]
            moment = Moment.of(self._metadata)
            body, may_be_shared = await make()
            if key is not None and may_be_shared and not moment.is_over(self._metadata):
                self._share(key, moment, body)
            return body

    def _share(self, key: Hashable, moment: Moment, body: memoryview) -> None:
        shared = self._bodies[key] = moment, body

        def end() -> None:
            if self._bodies.get(key) is shared:
                del self._bodies[key]

        self._loop.call_later(SHARED_S, end)
