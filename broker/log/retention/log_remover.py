"""Removing records from the beginning and the middle of a log: by offset, by retention, and by compaction.

The files of removed segments are deleted `file.delete.delay.ms` later, because somebody may still be reading them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.flusher import Flusher
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_config import LogConfig
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.resources import LogResources
from broker.log.retention.retention_policy import TIME_AND_SIZE, RetentionPolicy, deletable
from broker.log.roller import Roller
from broker.log.segment.segment import Segment
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from kafkalog.protocol.errors import KafkaStorageError, OffsetOutOfRangeError
from kafkalog.storage import names


class LogRemover:
    """Remove segments and records of one log.

    Call it on the event loop's thread, and `remove_deleted` on a worker's.

    Attributes:
        config: the log's settings; only the log replaces them.
    """

    __slots__ = (
        "_chores", "_deletions", "_directory", "_epochs", "_errors", "_flusher", "_offsets", "_ops", "_producers",
        "_roller", "_segments", "config",
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
        config: LogConfig,
        resources: LogResources,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._offsets = offsets
        self._epochs = epochs
        self._producers = producers
        self._flusher = flusher
        self._roller = roller
        self._errors = errors
        self._ops = resources.ops
        self._chores = resources.chores
        self.config = config
        self._deletions: deque[tuple[int, list[str]]] = deque()
        """The files of removed segments, and the times at which to delete them: (ms since the epoch, paths)."""

    def delete_records(self, before_offset: int) -> int:
        """Move the log start offset up to `before_offset` (-1: the high watermark) and return the log start offset.

        Raises:
            OffsetOutOfRangeError: `before_offset` is larger than the high watermark, or negative.
        """
        offset = self._offsets.high_watermark if before_offset == -1 else before_offset
        if offset > self._offsets.high_watermark or offset < 0:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {offset} of partition {self._directory.label} since it is "
                f"larger than the high watermark {self._offsets.high_watermark}"
            )
        if offset > self._offsets.start:
            self._raise_log_start(offset)
        return self._offsets.start

    def _raise_log_start(self, offset: int) -> None:
        # The recovery point stays: a power failure may bring removed records back, which have to be checked then.
        self._offsets.raise_start(offset)
        self._producers.on_log_start_offset(offset)
        self._epochs.truncate_from_start(offset)

    def apply_retention(
        self, now_ms: int, policy: RetentionPolicy = TIME_AND_SIZE, most: int | None = None
    ) -> list[Segment]:
        """Remove the segments that `policy` does not keep, the oldest `most` of them, and return those.

        Their files are deleted `file.delete.delay.ms` later.

        Raises:
            KafkaStorageError: the disk failed.
            Exception: whatever a policy of the user's raises.
        """
        segments = self._segments.all
        try:
            count = deletable(
                segments,
                self.config,
                log_start_offset=self._offsets.start,
                log_end_offset=self._offsets.end,
                high_watermark=self._offsets.high_watermark,
                now_ms=now_ms,
                policy=policy,
            )
            if count == 0:
                return []
            if most is not None:
                count = min(count, most)
            if count == len(segments):
                self._roller.roll(self._offsets.end, now_ms)
            self._remove_first(count, now_ms)
        except OSError as error:
            raise self._errors.report("apply retention to", error) from error
        return segments[:count]

    def _remove_first(self, count: int, now_ms: int) -> None:
        """Take the first `count` segments, which are not all, out of the log.

        Raises:
            OSError: files could not be renamed.
        """
        segments, done = self._segments.all, 0
        self._flusher.names_unsynced = True
        self._segments.replace(segments[count:])
        self._raise_log_start(max(self._offsets.start, self._segments.bases[0]))
        try:
            for segment in segments[:count]:
                done += 1
                self._delete_later(self._detach(segment), now_ms)
        finally:
            if done < count:
                # The next call removes them: they lie before the log start.
                self._segments.replace(segments[done:])
        # Set it once more: a concurrent flush may have forced the directory before the names changed.
        self._flusher.names_unsynced = True

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> bool:
        """Replace `old` segments by `new` ones, whose files end with `.cleaned` and are on the device.

        The new ones begin at the same offset, and get the settings that the log has now. Readers of the old segments go
        on; the files are deleted `file.delete.delay.ms` later. The names are safe once the caller has forced the
        directory to the device. Before that, a crash leaves either the old or the new segments; see
        `recovery.directory_scan`.

        Returns:
            Whether they were replaced. They are not if `old` are no longer neighbours in the log, or if the log is
            offline.

        Raises:
            KafkaStorageError: files could not be renamed. The log is offline, and its next opening completes the
                replacement.
        """
        segments = self._segments.all
        at = bisect_left(self._segments.bases, old[0].base_offset)
        after = at + len(old)
        same = [segment is wanted for segment, wanted in zip(segments[at:after], old, strict=False)]
        if self._errors.offline is not None or after >= len(segments) or len(same) < len(old) or not all(same):
            return False
        # Hold the open file: a concurrent flush must not look for it under a name that it no longer has.
        held = [segment.file for segment in new]
        paths: list[str] = []
        try:
            # The first one is renamed last: as long as its name ends with `.cleaned`, an opening takes none of the new.
            for segment in reversed(new):
                segment.rename_to(names.SWAP)
                segment.config = self.config
            self._segments.replace([*segments[:at], *new, *segments[after:]])
            for segment in old:
                paths += segment.mark_deleted()
                snapshot = self._producers.detach_snapshot(segment.base_offset) if segment is not old[0] else None
                if snapshot:
                    paths.append(snapshot)
            for segment in new:
                segment.rename_to("")
        except OSError as error:
            self._errors.go_offline(f"cannot replace segments of it: {error}")
            raise KafkaStorageError(f"Cannot compact {self._directory.label}: {error}") from error
        finally:
            del held
        self._delete_later(paths, now_ms)
        return True

    def _detach(self, segment: Segment) -> list[str]:
        paths = segment.mark_deleted()
        snapshot = self._producers.detach_snapshot(segment.base_offset)
        return [*paths, snapshot] if snapshot else paths

    def _delete_later(self, paths: list[str], now_ms: int) -> None:
        self._deletions.append((now_ms + self.config.file_delete_delay_ms, paths))
        self._chores.deletions = True

    def delete_soon(self, paths: list[str], now_ms: int) -> None:
        """Have a worker delete the renamed files of a segment that a truncation has removed, without a delay."""
        # First: the others may have to wait.
        self._deletions.appendleft((now_ms, paths))
        self._chores.deletions = True

    def remove_deleted(self, now_ms: int) -> int:
        """Unlink the files of removed segments whose delay is over; return how many. May be slow on some disks."""
        removed = 0
        if self._deletions:
            # What is not due yet is looked at again.
            self._chores.deletions = True
        while (paths := self._due_deletion(now_ms)) is not None:
            for path in paths:
                self._ops.unlink(path)
                removed += 1
        return removed

    def forget_deleted(self) -> None:
        """Forget the files of removed segments: they are deleted with the directory, which is out of service."""
        self._deletions.clear()

    def _due_deletion(self, now_ms: int) -> list[str] | None:
        # On a worker's thread: the event loop's may delete the log and empty the queue at any moment.
        with suppress(IndexError):
            if self._deletions[0][0] <= now_ms:
                return self._deletions.popleft()[1]
        return None
