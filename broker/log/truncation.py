"""Truncating a log: remove records from its end.

The next records are appended there, so the files of removed segments are removed at once.
"""

from __future__ import annotations

import logging
from bisect import bisect_right

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.files.file_ops import FileOps
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS, check_descriptors
from broker.log.flusher import Flusher
from broker.log.index.index_file import CorruptIndexError
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_recall import recall
from broker.log.recovery.producer_replay import replay
from broker.log.recovery.segment_recovery import rebuild_transaction_index
from broker.log.roller import Roller
from broker.log.segment.segment import Segment
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.records.errors import RecordsError

logger = logging.getLogger(__name__)

DESCRIPTORS = 8
"""Files that a truncation may have to open: those of the segment that stays, and one after the other of the rest."""


class Truncation:
    """Truncate one log. On the event loop's thread."""

    __slots__ = (
        "_directory", "_epochs", "_errors", "_flusher", "_offsets", "_ops", "_producers", "_roller", "_segments",
    )  # fmt: skip

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        offsets: LogOffsets,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        flusher: Flusher,
        roller: Roller,
        errors: StorageErrors,
        ops: FileOps,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._offsets = offsets
        self._epochs = epochs
        self._producers = producers
        self._flusher = flusher
        self._roller = roller
        self._errors = errors
        self._ops = ops

    def to(self, offset: int, *, now_ms: int) -> bool:
        """Remove every batch at or after `offset`; return whether there was one.

        The caller must write the recovery points afterwards.

        Raises:
            KafkaStorageError: the disk failed, and the log is offline; or there is no descriptor left, or the bytes
                before `offset` do not read as batches, and nothing has changed.
        """
        if offset >= self._offsets.end:
            # An epoch without records is forgotten. The file is not forced for that: opening the log forgets it, too.
            self._epochs.truncate_from_end(self._offsets.end, write=False)
            return False
        if offset < self._segments.all[0].base_offset:
            self.fully(offset, now_ms=now_ms)
            return True
        self._check_descriptors()
        keep = bisect_right(self._segments.bases, offset)
        self._check_readable(self._segments.all[keep - 1], offset)
        self._flusher.begin_truncation()
        try:
            gone = self._segments.all[keep:]
            self._segments.replace(self._segments.all[:keep])
            # From the end, so that a failure or a crash in between leaves a log without a gap.
            for segment in reversed(gone):
                if segment.base_offset in self._producers.snapshot_offsets:
                    self._producers.remove_snapshot(segment.base_offset)
                segment.remove()
            if gone:
                self._ops.fsync_dir(str(self._directory.path))
            self._segments.active.truncate_to(offset)
            self._truncate_aborted(offset)
            end = self._segments.active.next_offset()
            self._epochs.truncate_from_end(end)
            self._offsets.truncate(min(self._offsets.start, end), end)
            self._flusher.truncated(end)
            had_producers = bool(self._producers.producers)
            self._producers.reload(self._offsets.start, self._offsets.end, now_ms)
            if had_producers or self._producers.producers:
                recall(self._segments.all, self._producers, now_ms)
                replay(self._segments.all, self._producers, self._offsets.end)
            else:
                # The log has no producer to know of, so the headers of a whole segment need not be read.
                self._producers.end_offset = self._offsets.end
        except (OSError, RecordsError, CorruptIndexError) as error:
            # Half of the truncation is done, so the next append would go to a wrong offset.
            self._errors.go_offline(f"cannot truncate it to {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._directory.label}: {error}") from error
        return True

    def _truncate_aborted(self, offset: int) -> None:
        """Remove the aborted transactions that ended at or after `offset`; rebuild a damaged index from the log.

        Raises:
            RecordsError: the index is damaged, and the log does not read as batches.
            OSError: the disk failed.
        """
        active = self._segments.active
        try:
            active.aborted.index.truncate_to(offset)
        except CorruptIndexError as error:
            logger.warning("Rebuilding the transaction index of %s: %s", active, error)
            rebuild_transaction_index(self._segments.all, active, self._ops)

    def fully(self, offset: int, *, now_ms: int) -> None:
        """Remove everything and begin anew at `offset`.

        Raises:
            KafkaStorageError: as `to`.
        """
        self._check_descriptors()
        self._flusher.begin_truncation()
        try:
            for segment in reversed(self._segments.all):
                segment.remove()
            self._ops.fsync_dir(str(self._directory.path))
            self._segments.replace([self._roller.create(offset, now_ms)])
            self._epochs.clear()
            self._producers.start_at(offset)
        except OSError as error:
            self._errors.go_offline(f"cannot begin it anew at {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._directory.label}: {error}") from error
        self._offsets.truncate(offset, offset)
        self._flusher.truncated(offset)

    def _check_descriptors(self) -> None:
        """Refuse to begin where no descriptor is left: to stop half way would take the log offline.

        Raises:
            KafkaStorageError: files cannot be opened; nothing has changed. The log is offline if the disk failed.
        """
        try:
            check_descriptors(self._ops, str(self._directory.path), DESCRIPTORS)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                self._errors.go_offline(f"cannot truncate it: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._directory.label} now: {error}") from error

    def _check_readable(self, segment: Segment, offset: int) -> None:
        """Refuse to begin where the place of the cut cannot be found: later segments would be removed by then.

        Raises:
            KafkaStorageError: `segment` does not read as batches up to `offset`; nothing has changed. The log is
                offline if the disk failed.
        """
        try:
            segment.position_of(offset)
        except (OSError, RecordsError, CorruptIndexError) as error:
            if isinstance(error, OSError):
                self._errors.go_offline(f"cannot truncate it to {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._directory.label} to {offset}: {error}") from error
