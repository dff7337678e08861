"""Rebuilding a segment's transaction index from the markers of the log.

A transaction may have begun in any earlier segment, so the whole log up to the segment's end is walked over. That can
take many seconds. A worker can do it: the rows are gathered in memory, and the event loop writes them afterwards.
"""

from __future__ import annotations

import logging
import os
from threading import Lock

from broker.log.files.file_ops import OS, FileOps
from broker.log.index.index_file import CorruptIndexError
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_replay import replay, take_batch
from broker.log.segment.batch_scan import headers
from broker.log.segment.segment import Segment
from kafkalog.records.errors import RecordsError
from kafkalog.storage.transaction_entries import AbortedTransaction

logger = logging.getLogger(__name__)


class TransactionRebuild:
    """Collect the rows of a segment's transaction index.

    Call `run` on any thread, the rest on the event loop's.

    Args:
        segments: the segments of the log.
        segment: that of them whose index is built anew.
        ops: opens files.

    Attributes:
        segment: the segment.
        size: bytes of the segment up to which `run` walks.
        error: why the walk ended early; there are no rows then.
        done: whether the walk has ended at `size`, or with an error.
    """

    __slots__ = (
        "_cuts", "_ops", "_position", "_producers", "_rows", "_running", "_segments", "done", "error", "segment",
        "size",
    )  # fmt: skip

    def __init__(self, segments: list[Segment], segment: Segment, ops: FileOps = OS) -> None:
        self._segments = segments
        self._ops = ops
        self._cuts = segment.aborted.cuts
        self._running = Lock()
        self._producers: ProducerStateManager | None = None
        """The state of the producers at `_position`; None before the earlier segments were read."""
        self._rows: list[AbortedTransaction] = []
        self._position = 0
        self.segment = segment
        self.size = segment.size
        self.error: RecordsError | OSError | None = None
        self.done = False

    @property
    def is_void(self) -> bool:
        """Return whether the segment was cut since, so that the rows may be wrong."""
        return self._cuts != self.segment.aborted.cuts

    @property
    def is_running(self) -> bool:
        """Return whether a `run` is under way."""
        return self._running.locked()

    def grow(self, size: int) -> None:
        """Let the next `run` go on to `size`. Do not call it while one is under way."""
        if self.error is None and size > self.size:
            self.size, self.done = size, False

    def run(self) -> None:
        """Walk over the batches, unless that was done. It blocks; call it on any thread."""
        with self._running:
            if self.done:
                return
            try:
                self._walk()
            except (RecordsError, OSError) as error:
                self.error = error
            self.done = True

    def _walk(self) -> None:
        segment, producers = self.segment, self._producers
        if producers is None:
            # A state of its own, from the log's first batch on.
            producers = ProducerStateManager(segment.directory, 0, (), self._ops)
            producers.end_offset = self._segments[0].base_offset
            replay(self._segments, producers, segment.base_offset, strict=True)
            self._producers = producers
        file = segment.file
        for position, header in headers(file.fd, self._position, self.size):
            batch = os.pread(file.fd, header.size, position) if header.is_control else b""
            if (aborted := take_batch(producers, header, memoryview(batch))) is not None:
                self._rows.append(aborted)
            self._position = position + header.size

    def write(self) -> None:
        """Write the rows in the place of those that the index has.

        Raises:
            RecordsError: the log does not read as batches. The index has not changed: one that ends early would pass
                for a whole one, and readers would take aborted records for committed ones.
            OSError: the log cannot be read, or the index cannot be written.
        """
        if self.error is not None:
            raise self.error
        self.segment.aborted.replace(self._rows)


def rebuild_transaction_index(segments: list[Segment], segment: Segment, ops: FileOps = OS) -> None:
    """Write a segment's transaction index anew, at once.

    Raises:
        RecordsError: the log does not read as batches; the index has not changed.
        OSError: the log cannot be read, or the index cannot be written.
    """
    rebuild = TransactionRebuild(segments, segment, ops)
    rebuild.run()
    rebuild.write()


def mend_transaction_index(segments: list[Segment], segment: Segment, ops: FileOps = OS) -> None:
    """Rebuild a segment's transaction index if it is damaged. If the log is damaged too, reads tell.

    Raises:
        OSError: a file cannot be read, or the index cannot be written.
    """
    try:
        segment.aborted.index.items()
    except CorruptIndexError as error:
        logger.warning("Rebuilding the transaction index of %s: %s", segment, error)
        try:
            rebuild_transaction_index(segments, segment, ops)
        except RecordsError as damage:
            logger.warning("The transaction index of %s cannot be rebuilt: %s", segment, damage)
        for each in segments:
            each.close_idle()
