"""The transactions of the batches that a cleaner reads: which were aborted, and which markers may be removed. Pure.

The batches of an aborted transaction are removed at once. A marker stays as long as a cleaning finds a batch of its
transaction before it. The cleaning that finds none gives the marker a delete horizon, as a tombstone gets one. So a
reader that has seen records of the transaction has time to reach the marker.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kafkalog.records.batch import BatchHeader
from kafkalog.storage.transaction_entries import AbortedTransaction


class CleanedTransactions:
    """Track which transactions are open at each batch. Pass the batches in the order of the log.

    Attributes:
        kept: aborted transactions whose marker stays because of a batch before it. They are rows for the transaction
            index of the cleaned segment; the caller takes them out of this list.
    """

    def __init__(self) -> None:
        self.kept: list[AbortedTransaction] = []
        self._coming: list[tuple[int, int, AbortedTransaction]] = []
        """A heap by first offset. A transaction that touches several segments is added with each of them."""
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions that touch the offsets which come next."""
        for transaction in transactions:
            heapq.heappush(self._coming, (transaction.first_offset, transaction.producer_id, transaction))

    def on_batch(self, header: BatchHeader) -> bool:
        """Return whether the records of this batch were aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._with_batches.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(self, header: BatchHeader, aborted: bool | None) -> bool:
        """Return whether this marker may be removed as far as its transaction is concerned.

        `aborted` is None for a control record of another kind. A batch without a record once held a marker, and may
        be removed.
        """
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if header.records_count == 0:
            return True
        if aborted is None:
            return False
        if not aborted:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not seen
        transaction = self._aborted.pop(producer_id, None)
        if transaction is not None and producer_id in self._with_batches:
            self._with_batches.discard(producer_id)
            self.kept.append(transaction)
            return False
        return True

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heapq.heappop(self._coming)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
