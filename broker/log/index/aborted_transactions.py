"""The aborted transactions of one segment: its transaction index, and whether there is one at all."""

from __future__ import annotations

import os

from broker.log.files.file_ops import FileOps
from broker.log.index.transaction_index import TransactionIndex
from broker.log.segment.segment_files import SegmentFiles
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import AbortedTransaction


class AbortedTransactions:
    """See the module. Added to on the loop's thread; collected on any.

    Attributes:
        changes: changes before and after each addition.
    """

    __slots__ = ("_files", "_none_at", "_ops", "changes")

    def __init__(self, files: SegmentFiles, ops: FileOps) -> None:
        self._files = files
        self._ops = ops
        self.changes = 0
        # They were looked for and not found at this number of changes.
        self._none_at = -1

    @property
    def index(self) -> TransactionIndex:
        """The index file, which few segments have."""
        return TransactionIndex(self._files.path(names.TXN_INDEX), self._files.base_offset, self._ops)

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """What `TransactionIndex.collect` answers, without looking for a file again where there was none.

        A reader of committed records asks every segment from its own to the last.
        """
        changes = self.changes
        if self._none_at == changes:
            return [], False
        index = self.index
        found = index.collect(start, end)
        if not os.path.exists(index.path):
            self._none_at = changes
        return found

    def add(self, transaction: AbortedTransaction) -> bool:
        """`TransactionIndex.append` to the index."""
        # Counted before and after: a reader on another thread may look at any moment.
        self.changes += 1
        try:
            return self.index.append(transaction)
        finally:
            self.changes += 1
