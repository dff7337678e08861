"""Producer ids for idempotent producers (KIP-98)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.metadata.operations import TakeProducerIds
from broker.metadata.store import MetadataStore
from kafkalog.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

BLOCK = 1000
"""The number of ids that are reserved at once, as in Kafka."""

TakeBlock = Callable[[int], Awaitable[range]]
"""Reserves a block of ids, none of them below the given one. A KafkaError says that there is none now."""


def blocks_of(store: MetadataStore) -> TakeBlock:
    """Return a function that reserves blocks in the registry; its error is KafkaStorageError if one is not stored."""

    async def take(least: int) -> range:
        try:
            state = await store.commit(lambda state: [TakeProducerIds(max(state.next_producer_id, least) + BLOCK)])
        except OSError as error:
            raise KafkaStorageError(f"No producer id can be allocated: {error}") from error
        end = state.next_producer_id
        return range(max(end - BLOCK, least), end)

    return take


class ProducerIds:
    """Allocate ids that are never allocated twice, even after a restart.

    Ids are reserved in blocks, so that most allocations need no write.

    Args:
        take_block: reserves a block.
        store: the registry, where `reserve` keeps ids from being reserved; None if it does not have to.
        ahead: the number of ids that are left when the next block is reserved, in the background.
        close: called at the end.
    """

    def __init__(
        self,
        take_block: TakeBlock,
        store: MetadataStore | None = None,
        *,
        ahead: int = 0,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._take_block = take_block
        self._store = store
        self._ahead = ahead
        self._close = close
        self._next = 0
        self._end = 0
        self._least = 0
        self._taking: asyncio.Task[range] | None = None

    async def allocate(self) -> int:
        """Allocate a producer id.

        Raises:
            KafkaStorageError: a new block could not be stored.
            KafkaError: the controller refused a new block.
        """
        while self._next >= self._end:
            taking = self._taking or self._begin()
            # Shielded: a caller may be cancelled while others wait for the same block.
            block = await asyncio.shield(taking)
            if self._taking is taking:
                self._taking = None
                self._next, self._end = max(block.start, self._least), block.stop
        self._next += 1
        if self._end - self._next < self._ahead and self._taking is None:
            self._begin()
        return self._next - 1

    def _begin(self) -> asyncio.Task[range]:
        taking = self._taking = asyncio.get_running_loop().create_task(self._take())
        taking.add_done_callback(self._taken)
        return taking

    async def _take(self) -> range:
        return await self._take_block(self._least)

    def _taken(self, taking: asyncio.Task[range]) -> None:
        if taking.cancelled() or taking.exception() is not None:
            # Whoever needs the block asks again.
            if self._taking is taking:
                self._taking = None
            if not taking.cancelled():
                logger.info("no block of producer ids: %s", taking.exception())

    async def stop(self) -> None:
        """Give up reserving a block."""
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
        if self._close is not None:
            await self._close()

    async def reserve(self, largest: int) -> None:
        """Stop allocating `largest` and smaller ids, because they were found in use.

        Raises:
            KafkaStorageError: this could not be stored; it still applies until the next start.
        """
        self._least = max(self._least, largest + 1)
        self._next = max(self._next, self._least)
        store = self._store
        if store is None or store.state.next_producer_id >= self._least:
            return
        try:
            await store.commit(
                lambda state: [TakeProducerIds(self._least)] if state.next_producer_id < self._least else []
            )
        except OSError as error:
            raise KafkaStorageError(f"Producer ids up to {largest} cannot be reserved: {error}") from error
