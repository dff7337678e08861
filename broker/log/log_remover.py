"""Taking records out of a partition's log: by offset, by retention, by compaction, and by truncation.

From its beginning and its middle the files of whole segments go ``file.delete.delay.ms`` later, for somebody may read
them still; from its end, where others are appended next, at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress

from broker.log import recovery
from broker.log.log_appender import LogAppender
from broker.log.retention import TIME_AND_SIZE, RetentionPolicy, deletable
from broker.log.segment import Segment
from kafkalog.protocol.errors import KafkaStorageError, OffsetOutOfRangeError
from kafkalog.storage import names


class LogRemover(LogAppender):
    """A log that shrinks."""

    __slots__ = ()

    def delete_records(self, before_offset: int) -> int:
        """Move the log start offset up to ``before_offset`` (-1: the high watermark); returns the log start
        offset.

        Raises:
            OffsetOutOfRangeError: it lies after the high watermark.
        """
        offset = self._high_watermark if before_offset == -1 else before_offset
        if offset > self._high_watermark or offset < 0:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {offset} of partition {self._label} since it is larger "
                f"than the high watermark {self._high_watermark}"
            )
        if offset > self.log_start_offset:
            self._raise_log_start(offset)
        return self.log_start_offset

    def _raise_log_start(self, offset: int) -> None:
        # The recovery point stays: what is gone from here on may be back after a power failure, to be checked then.
        self.log_start_offset = offset
        self._high_watermark = max(self._high_watermark, offset)
        self.producers.on_log_start_offset(offset)
        self.epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int, policy: RetentionPolicy = TIME_AND_SIZE) -> list[Segment]:
        """Take the segments that retention no longer wants out of the log; their files go
        ``file.delete.delay.ms`` later.

        Raises:
            KafkaStorageError: the disk failed.
            Exception: whatever a policy of somebody's own raises.
        """
        segments = self._segments
        try:
            count = deletable(
                segments,
                self._config,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=self._high_watermark,
                now_ms=now_ms,
                policy=policy,
            )
            if count == 0:
                return []
            if count == len(segments):
                self._roll(self.log_end_offset, now_ms)
            gone = segments[:count]
            for segment in gone:
                self._dir_unsynced = True
                self._set_segments(self._segments[1:])
                self._raise_log_start(max(self.log_start_offset, self._bases[0]))
                self._deletions.append((now_ms + self._config.file_delete_delay_ms, self._detach(segment)))
            # Once more: a flush beside it may have found the names before they changed.
            self._dir_unsynced = True
        except OSError as error:
            raise self._storage_error("apply retention to", error) from error
        return gone

    def replace_segments(self, new: Segment, old: Sequence[Segment], now_ms: int) -> bool:
        """Let ``new``, whose files end with ``.cleaned`` and are on the device, take the place of ``old``.

        Whoever reads the old ones goes on; their files go ``file.delete.delay.ms`` later. The names are safe once the
        caller has forced the directory to the device, and before that a crash leaves the old or the new ones: see
        `recovery`.

        Returns:
            Whether it did: not when ``old`` are no longer in the log one after another, or the log is offline.

        Raises:
            KafkaStorageError: files could not be renamed; the log is offline, and its next opening completes it.
        """
        segments = self._segments
        at = bisect_left(self._bases, old[0].base_offset)
        after = at + len(old)
        same = [segment is wanted for segment, wanted in zip(segments[at:after], old, strict=False)]
        if self.offline is not None or after >= len(segments) or len(same) < len(old) or not all(same):
            return False
        # Held: a flush beside this must not look for the file under a name that it has no more.
        held = new.file
        paths: list[str] = []
        try:
            new.rename_to(names.SWAP)
            self._set_segments([*segments[:at], new, *segments[after:]])
            for segment in old:
                paths += segment.mark_deleted()
                snapshot = self.producers.detach_snapshot(segment.base_offset) if segment is not old[0] else None
                if snapshot:
                    paths.append(snapshot)
            new.rename_to("")
        except OSError as error:
            self._go_offline(f"cannot replace segments of it: {error}")
            raise KafkaStorageError(f"Cannot compact {self._label}: {error}") from error
        finally:
            del held
        self._deletions.append((now_ms + self._config.file_delete_delay_ms, paths))
        return True

    def _detach(self, segment: Segment) -> list[str]:
        paths = segment.mark_deleted()
        snapshot = self.producers.detach_snapshot(segment.base_offset)
        return [*paths, snapshot] if snapshot else paths

    def remove_deleted(self, now_ms: int) -> int:
        """Unlink the files of deleted segments whose time has come; returns how many. May be slow on some
        disks.
        """
        removed = 0
        while (paths := self._due_deletion(now_ms)) is not None:
            for path in paths:
                self._ops.unlink(path)
                removed += 1
        return removed

    def _due_deletion(self, now_ms: int) -> list[str] | None:
        # On a worker: the loop's thread may delete the log, and empty the queue, at any moment.
        with suppress(IndexError):
            if self._deletions[0][0] <= now_ms:
                return self._deletions.popleft()[1]
        return None

    # -- truncation ----------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Drop every batch at or after ``offset``; returns whether there was one. Checkpoint recovery points
        after it.

        Raises:
            KafkaStorageError: the disk failed; the log is offline.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        self._begin_truncation()
        try:
            keep = bisect_right(self._bases, offset)
            gone = self._segments[keep:]
            self._set_segments(self._segments[:keep])
            # From the end: a failure, or a crash, in between leaves a log without a gap.
            for segment in reversed(gone):
                if segment.base_offset in self.producers.snapshot_offsets:
                    self.producers.remove_snapshot(segment.base_offset)
                segment.remove()
            if gone:
                self._ops.fsync_dir(str(self.dir))
            self._active.truncate_to(offset)
            end = self._active.next_offset()
            self.epochs.truncate_from_end(end)
            self._end_at(end, min(self.log_start_offset, end))
            self.producers.reload(self.log_start_offset, self.log_end_offset, now_ms)
            recovery.replay(self._segments, self.producers, self.log_end_offset)
        except OSError as error:
            self._go_offline(f"cannot truncate it to {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._label}: {error}") from error
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything and begin anew at ``offset``.

        Raises:
            KafkaStorageError: the disk failed; the log is offline.
        """
        self._begin_truncation()
        try:
            for segment in reversed(self._segments):
                segment.remove()
            self._ops.fsync_dir(str(self.dir))
            self._set_segments([Segment.create(str(self.dir), offset, self._config, now_ms, self._ops)])
            self.epochs.clear()
            self.producers.start_at(offset)
        except OSError as error:
            self._go_offline(f"cannot begin it anew at {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._label}: {error}") from error
        self._end_at(offset, offset)

    def _begin_truncation(self) -> None:
        """From here to ``_end_at`` files go and offsets do not say so yet: a flush beside it must not be believed."""
        with self._recovery_lock:
            self._truncations += 1

    def _end_at(self, end: int, start: int) -> None:
        self.log_end_offset = end
        self.log_start_offset = start
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, end)
        with self._recovery_lock:
            self.recovery_point = min(self.recovery_point, end)
            self._truncations += 1
        self._high_watermark = min(max(self._high_watermark, start), end)
        self._dir_unsynced = True
