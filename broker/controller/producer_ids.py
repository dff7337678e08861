"""Producer ids for idempotent producers (KIP-98)."""

from __future__ import annotations

from broker.metadata.operations import TakeProducerIds
from broker.metadata.store import MetadataStore
from kafkalog.protocol.errors import KafkaStorageError


class ProducerIds:
    """Allocate ids that are never allocated twice, even after a restart.

    Ids are reserved in the registry in blocks, so that most allocations need no write.
    """

    BLOCK = 1000

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._least = 0

    async def allocate(self) -> int:
        """Allocate a producer id.

        Raises:
            KafkaStorageError: a new block could not be stored.
        """
        while self._next >= self._end:
            try:
                state = await self._store.commit(
                    lambda state: [TakeProducerIds(max(state.next_producer_id, self._least) + self.BLOCK)]
                )
            except OSError as error:
                raise KafkaStorageError(f"No producer id can be allocated: {error}") from error
            # A concurrent caller may have reserved its block already; the newer block serves both.
            self._end = state.next_producer_id
            self._next = max(self._end - self.BLOCK, self._least)
        self._next += 1
        return self._next - 1

    async def reserve(self, largest: int) -> None:
        """Stop allocating `largest` and smaller ids, because they were found in use.

        Raises:
            KafkaStorageError: this could not be stored; it still applies until the next start.
        """
        self._least = max(self._least, largest + 1)
        self._next = max(self._next, self._least)
        if self._store.state.next_producer_id >= self._least:
            return
        try:
            await self._store.commit(
                lambda state: [TakeProducerIds(self._least)] if state.next_producer_id < self._least else []
            )
        except OSError as error:
            raise KafkaStorageError(f"Producer ids up to {largest} cannot be reserved: {error}") from error
