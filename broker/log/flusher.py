"""The recovery point of a log, and forcing the log to the device.

The recovery point moves up with each flush and down with each truncation. A flush runs on a worker's thread while the
event loop's thread appends, rolls, deletes and truncates. Each of these notes here what it does, in an order which
ensures that a concurrent flush either covers the change or notices it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import AbstractContextManager
from threading import Lock

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS
from broker.log.index.index_file import NoSpaceError
from broker.log.log_config import MAX_LONG, LogConfig
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.resources import Chores
from broker.log.segment.segment import Segment
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from kafkalog.protocol.errors import KafkaStorageError


class Flusher:
    """Flush one log.

    Attributes:
        config: the log's settings; only the log replaces them.
        recovery_point: everything before it is on the device.
        names_unsynced: whether a power failure may undo that files were made, renamed or removed.
        truncations: a number that changes with each truncation.
        leaving: whether the directory is being renamed, so that files may be missing under its old name.
        lock: held during a flush. A worker that holds it keeps the recovery point where it is.
    """

    __slots__ = (
        "_chores", "_config", "_directory", "_errors", "_flushed_rolls", "_last_append_ms", "_offsets", "_producers",
        "_recovery_lock", "_rolls", "_segments", "_unflushed_since_ms", "leaving", "lock", "names_unsynced",
        "recovery_point", "truncations",
    )  # fmt: skip

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        offsets: LogOffsets,
        producers: ProducerStateManager,
        errors: StorageErrors,
        config: LogConfig,
        *,
        recovery_point: int,
        created: bool,
        clean: bool,
        lock: AbstractContextManager[object],
        chores: Chores,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._offsets = offsets
        self._producers = producers
        self._errors = errors
        self._chores = chores
        self.config = config
        self.recovery_point = recovery_point
        # A process that was killed may have left names, and trimmed ends of files, that never reached the device.
        self.names_unsynced = created or not clean
        self._rolls = 0
        self._flushed_rolls = 0 if created or clean else -1
        """Rolls, counted by the event loop's thread, and how many of them a flush has covered, counted by the flushing
        thread: neither writes the other's count. -1: a process that was killed may have rolled without a flush."""
        self._last_append_ms = 0
        self._unflushed_since_ms = 0
        self.lock = lock
        self._recovery_lock = Lock()
        """Held to change the recovery point: a flush on a worker must not raise it past a concurrent truncation."""
        self.truncations = 0
        self.leaving = False

    @property
    def config(self) -> LogConfig:
        """The log's settings."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._chores.flushes = True

    # -- what the event loop's thread notes --------------------------------------------------------------------

    def appended(self, first: int, now_ms: int) -> None:
        """Note that records from `first` on were appended."""
        if self.recovery_point >= first:
            self._unflushed_since_ms = now_ms
            self._chores.flushes = True
        self._last_append_ms = now_ms

    def rolled(self) -> None:
        """Note that a segment was closed and trimmed; the next flush covers it once more."""
        self._rolls += 1
        self._chores.flushes = True

    def begin_truncation(self) -> None:
        """Note that a truncation begins; a concurrent flush will not move the recovery point.

        From here to `truncated`, files are removed while the offsets do not show it yet.
        """
        with self._recovery_lock:
            self.truncations += 1

    def truncated(self, end: int) -> None:
        """Note that the log ends at `end` now, and lower the recovery point to it."""
        with self._recovery_lock:
            self.recovery_point = min(self.recovery_point, end)
            self.truncations += 1
        self.names_unsynced = True

    # -- flushing --------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> int | None:
        """Return the offset up to which `flush.messages`, `flush.ms` or a roll makes a flush due, or None."""
        unflushed = self._offsets.end - self.recovery_point
        config = self._config
        if unflushed >= config.flush_messages:
            return self._offsets.end
        if unflushed and now_ms - self._unflushed_since_ms >= config.flush_ms:
            return self._offsets.end
        return self._segments.active.base_offset if self._has_rolled else None

    @property
    def _has_rolled(self) -> bool:
        return self._rolls > max(self._flushed_rolls, 0)

    @property
    def _becomes_due(self) -> bool:
        """True if a flush is due, or will be without another record."""
        has_interval = min(self._config.flush_messages, self._config.flush_ms) < MAX_LONG
        return self._has_rolled or (has_interval and self._offsets.end > self.recovery_point)

    def flush_if_due(self, now_ms: int) -> bool:
        """Flush if that is due; return whether it was. As long as it may become due, workers go on to look.

        Raises:
            KafkaStorageError: see `flush`.
        """
        if self._errors.offline is not None:
            return False
        if self._becomes_due:
            self._chores.flushes = True
        upto = self.due(now_ms)
        if upto is None:
            return False
        self.flush(upto)
        return True

    def flush(self, upto: int | None = None) -> None:
        """Force everything before `upto` (default: the log end offset) to the device, then move the recovery point.

        May run on a worker's thread. The log end offset is taken at the start; records appended meanwhile may or may
        not be on the device afterwards.

        Raises:
            KafkaStorageError: something could not be forced to the device. The log is offline from then on, because
                nobody knows what the kernel kept of the data, and a second fsync would not tell. The log stays online
                when there was no room for index entries, or no descriptor left.
        """
        # One at a time: a second flush would find `names_unsynced` cleared and vouch for names that are not safe yet.
        with self.lock:
            if self._errors.offline is not None:
                raise self._errors.offline_error()
            self._flush(upto)

    def _flush(self, upto: int | None) -> None:
        # In this order, so that what the event loop's thread does in between is either covered here or noticed.
        truncations, since = self.truncations, self._last_append_ms
        rolls = self._rolls
        rolled = rolls != self._flushed_rolls
        end = self._offsets.end if upto is None else min(upto, self._offsets.end)
        segments, start = self._segments.all, self.recovery_point
        if end <= start and not self.names_unsynced and not rolled:
            return
        # After a roll, flush the closed segment once more: its indexes have been closed and trimmed since.
        find = bisect_left if rolled else bisect_right
        label = self._directory.label
        try:
            for segment in segments[max(find([s.base_offset for s in segments], start) - 1, 0) :]:
                if segment.base_offset < end:
                    self.flush_segment(segment, truncations)
            self._producers.sync_snapshots()
            if self.names_unsynced:
                self.names_unsynced = False
                self._directory.sync()
        except NoSpaceError as error:
            # The records are safe, but not their index entries: the recovery point stays until there is room.
            self._errors.complain(f"Cannot flush {self._directory.path}: {error}")
            raise KafkaStorageError(f"Cannot flush {label}: {error}") from error
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                self.names_unsynced = True
                self._errors.complain(f"Cannot flush {self._directory.path}: {error}")
                raise KafkaStorageError(f"Cannot flush {label}: {error}") from error
            if self.leaving and isinstance(error, FileNotFoundError):
                raise KafkaStorageError(f"{label} was deleted while it was flushed") from error
            self._errors.go_offline(f"cannot flush it: {error}")
            raise KafkaStorageError(f"Cannot flush {label}: {error}") from error
        self._flushed_rolls = rolls
        with self._recovery_lock:
            if truncations == self.truncations:
                self._unflushed_since_ms = since
                self.recovery_point = max(self.recovery_point, end)

    def flush_segment(self, segment: Segment, truncations: int) -> None:
        """Force one segment to the device, unless it was removed from the log since `truncations` was read.

        Raises:
            OSError: that could not be done.
        """
        try:
            segment.flush()
        except FileNotFoundError:
            # The event loop's thread has deleted or truncated it meanwhile, so it need not be on the device.
            if segment in self._segments.all and truncations == self.truncations:
                raise
