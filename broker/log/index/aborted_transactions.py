"""The aborted transactions of one segment: its transaction index, and whether it has one at all."""

from __future__ import annotations

import os
from collections.abc import Sequence

from broker.log.files.file_ops import FileOps
from broker.log.index.transaction_index import TransactionIndex
from broker.log.segment.segment_files import SegmentFiles
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import AbortedTransaction


class AbortedTransactions:
    """Add and find the aborted transactions of one segment.

    Call `add` on the event loop's thread, and `collect` on any.

    Attributes:
        changes: a number that changes before and after each addition.
        cuts: how often the segment was cut.
    """

    __slots__ = ("_files", "_none_at", "_ops", "changes", "cuts")

    def __init__(self, files: SegmentFiles, ops: FileOps) -> None:
        self._files = files
        self._ops = ops
        self.changes = 0
        self.cuts = 0
        self._none_at = -1
        """The value of `changes` at which no index file was found."""

    @property
    def index(self) -> TransactionIndex:
        """The transaction index; few segments have the file."""
        return TransactionIndex(self._files.path(names.TXN_INDEX), self._files.base_offset, self._ops)

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Call `TransactionIndex.collect`, but do not look again for a file that was missing.

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

    def replace(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Call `TransactionIndex.replace`."""
        self.changes += 1
        try:
            self.index.replace(transactions)
        finally:
            self.changes += 1

    def add(self, transaction: AbortedTransaction) -> bool:
        """Call `TransactionIndex.append`."""
        # Counted before and after, because a reader on another thread may look at any moment.
        self.changes += 1
        try:
            return self.index.append(transaction)
        finally:
            self.changes += 1

    def spoil(self) -> None:
        """Call `TransactionIndex.spoil`."""
        self.changes += 1
        try:
            self.index.spoil()
        finally:
            self.changes += 1
