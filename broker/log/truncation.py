"""Truncating a log: remove records from its end.

The next records are appended there, so the files of removed segments lose their names at once. A worker deletes them
soon after: a file system may take a quarter of a second to free a file of 1 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.files.file_ops import FileOps
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS, check_descriptors
from broker.log.flusher import Flusher
from broker.log.index.index_file import CorruptIndexError
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.retention.log_remover import LogRemover
from broker.log.roller import Roller
from broker.log.segment.segment import Segment
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from broker.log.truncation_plan import TruncationPlan, plan
from kafkalog.protocol.errors import CorruptMessageError, KafkaStorageError
from kafkalog.records.errors import RecordsError

DESCRIPTORS = 8
"""Files that a truncation may have to open: those of the segment that stays, and one after the other of the rest."""


class Truncation:
    """Truncate one log. On the event loop's thread."""

    __slots__ = (
        "_directory", "_epochs", "_errors", "_flusher", "_offsets", "_ops", "_producers", "_remover", "_roller",
        "_segments",
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
        remover: LogRemover,
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
        self._remover = remover
        self._errors = errors
        self._ops = ops

    def plan(self, offset: int, *, now_ms: int) -> TruncationPlan | None:
        """Plan what `to` does, so that a worker can read for it; None where there is nothing to read.

        Raises:
            CorruptMessageError, KafkaStorageError: as `to`.
        """
        if offset >= self._offsets.end or offset < self._segments.all[0].base_offset:
            return None
        self._check_descriptors()
        return self._plan(offset, now_ms)

    def to(self, offset: int, *, now_ms: int, planned: TruncationPlan | None = None) -> bool:
        """Remove every batch at or after `offset`; return whether there was one.

        The caller must write the recovery points afterwards.

        Args:
            planned: what `plan` has returned for this offset. Where it was not read, or the log has changed since
                then, the log is read now.

        Raises:
            CorruptMessageError: the log is damaged where a truncation has to read it, and nothing has changed.
            KafkaStorageError: the disk failed, and the log is offline; or there is no descriptor left, and nothing has
                changed.
        """
        if offset >= self._offsets.end:
            # An epoch without records is forgotten. The file is not forced for that: opening the log forgets it, too.
            self._epochs.truncate_from_end(self._offsets.end, write=False)
            return False
        if offset < self._segments.all[0].base_offset:
            self.fully(offset, now_ms=now_ms)
            return True
        self._check_descriptors()
        if planned is None or not self._fits(planned, offset):
            planned = self._plan(offset, now_ms)
        latest = self._read(planned)
        self._flusher.begin_truncation()
        try:
            self._carry_out(planned, latest, now_ms)
        except (OSError, CorruptIndexError) as error:
            # Half of the truncation is done, so the next append would go to a wrong offset.
            self._errors.go_offline(f"cannot truncate it to {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._directory.label}: {error}") from error
        return True

    def _plan(self, offset: int, now_ms: int) -> TruncationPlan:
        """Find out what is to be done, before the first segment is removed.

        Raises:
            CorruptMessageError: the log is damaged; nothing has changed.
            KafkaStorageError: the disk failed, and the log is offline; or there is no descriptor left.
        """
        truncations, recovery_point = self._flusher.truncations, self._flusher.recovery_point
        with self._planning(offset):
            return plan(
                self._segments, self._offsets, self._producers, truncations, recovery_point, offset, now_ms, self._ops
            )

    def _fits(self, planned: TruncationPlan, offset: int) -> bool:
        """Return whether a plan is for `offset`, and the log is still as it was when the plan was made."""
        count = len(planned.segments)
        return (
            planned.cut.offset == offset
            and planned.truncations == self._flusher.truncations
            and planned.log_start == self._offsets.start
            and self._segments.all[:count] == planned.segments
        )

    def _read(self, planned: TruncationPlan) -> tuple[int, int]:
        """Return the largest timestamp of what stays, and its offset; read the log unless that was done.

        Raises:
            CorruptMessageError, KafkaStorageError: as `_plan`.
        """
        with self._planning(planned.cut.offset):
            if not planned.is_read:
                planned.read()
            if planned.damage is not None:
                raise planned.damage
        assert planned.latest is not None
        return planned.latest

    @contextmanager
    def _planning(self, offset: int) -> Iterator[None]:
        try:
            yield
        except (RecordsError, CorruptIndexError) as error:
            raise CorruptMessageError(f"Cannot truncate {self._directory.label} to {offset}: {error}") from error
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                self._errors.go_offline(f"cannot truncate it to {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._directory.label} to {offset}: {error}") from error

    def _carry_out(self, made: TruncationPlan, latest: tuple[int, int], now_ms: int) -> None:
        """Truncate the log as planned.

        Raises:
            OSError, CorruptIndexError: half of it is done.
        """
        cut, gone = made.cut, self._segments.all[len(made.segments) :]
        self._segments.replace(made.segments)
        if gone:
            self._take_out(gone, now_ms)
        active = self._segments.active
        active.truncate_to(cut.offset, cut.position, latest)
        active.aborted.index.truncate_to(cut.offset)
        self._epochs.truncate_from_end(cut.end_offset)
        self._offsets.truncate(min(self._offsets.start, cut.end_offset), cut.end_offset)
        self._flusher.truncated(cut.end_offset)
        self._producers.take_over(made.producers)

    def _take_out(self, gone: Sequence[Segment], now_ms: int) -> None:
        """Take the names of these segments' files away, on the device too.

        Raises:
            OSError: some of them have their names still.
        """
        # From the end, so that a failure or a crash in between leaves a log without a gap.
        for segment in reversed(gone):
            if segment.base_offset in self._producers.snapshot_offsets:
                self._producers.remove_snapshot(segment.base_offset)
            self._remover.delete_soon(segment.mark_deleted(), now_ms)
        self._ops.fsync_dir(str(self._directory.path))

    def fully(self, offset: int, *, now_ms: int) -> None:
        """Remove everything and begin anew at `offset`.

        Raises:
            KafkaStorageError: as `to`.
        """
        self._check_descriptors()
        self._flusher.begin_truncation()
        try:
            self._take_out(self._segments.all, now_ms)
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
