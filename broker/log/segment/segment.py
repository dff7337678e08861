"""One segment of a log: a `.log` file of record batches and its indexes.

A segment holds the batches from its base offset, which is its name, up to the base offset of the next segment. Only the
last segment, the active one, takes appends. Files are opened and indexes are loaded on first use, so opening a
partition reads none of them. `segment_files` knows the names of the files, `segment_indexes` holds the indexes, and
`aborted_transactions` the transaction index.

The position of an offset is found in three steps, the cheapest first: the remembered positions of the newest batches
(`batch_positions`), the sparse offset index, and a walk over batch headers from the index's entry.
"""

from __future__ import annotations

import logging
import os
from zlib import crc32

from broker.log.files.file_ops import write_all
from broker.log.index.aborted_transactions import AbortedTransactions
from broker.log.index.index_file import CorruptIndexError
from broker.log.index.offset_index import OffsetIndex
from broker.log.index.segment_indexes import SegmentIndexes
from broker.log.index.time_index import NO_TIMESTAMP, TimeIndex
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from broker.log.segment.batch_positions import BatchPositions
from broker.log.segment.batch_scan import batch_size, find_batch, headers, last_end, may_be_found
from broker.log.segment.file_slices import FileSlice, SegmentFile
from broker.log.segment.index_scan import IndexScan, misfit
from broker.log.segment.segment_files import SegmentFiles, SegmentWriteError
from kafkalog.records.errors import CorruptRecordError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

logger = logging.getLogger(__name__)

UNKNOWN_TIMESTAMP = -2
"""Stands for a largest timestamp that has not been looked up yet."""


class Segment:
    """Append to, search, read and shorten one segment.

    Only `flush` may be called on another thread than the rest.

    Attributes:
        base_offset: the offset of the first batch, which names the files.
        size: bytes of the batches.
        config: the log's settings; only the log replaces them.
        created_ms: when this object was made, in milliseconds since the epoch.
        jitter_ms: what this segment subtracts from `segment.ms`.
        bytes_since_index: bytes appended since the last index entry.
        max_timestamp: the largest timestamp in ms, or `UNKNOWN_TIMESTAMP`.
        aborted: the aborted transactions whose markers the segment holds.
        indexes: the offset index and the time index, as far as they are loaded.
        positions: positions of the newest batches.
        rebuilt: whether both indexes were built anew from the log. If they do not fit it even so, the log is damaged.
        writable: whether both indexes are in memory and have room for what is appended.
    """

    __slots__ = (
        "_files", "_resources", "_roll_timestamp", "aborted", "base_offset", "bytes_since_index", "config",
        "created_ms", "indexes", "jitter_ms", "max_timestamp", "max_timestamp_offset", "positions", "rebuilt", "size",
        "writable",
    )  # fmt: skip

    def __init__(
        self,
        directory: str,
        base_offset: int,
        size: int,
        config: LogConfig,
        now_ms: int,
        resources: LogResources | None = None,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self._resources = resources = resources or LogResources()
        self._files = SegmentFiles(directory, base_offset, resources, suffix)
        self.indexes = SegmentIndexes(self._files, resources)
        self.writable = False
        self.aborted = AbortedTransactions(self._files, resources.ops)
        self.size = size
        self.config = config
        self.created_ms = now_ms
        # Differs by partition and segment, so that segments are not all rolled at once.
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self.jitter_ms = crc32(f"{directory}/{base_offset}".encode()) % jitter if jitter else 0
        self.bytes_since_index = 0
        self.max_timestamp = NO_TIMESTAMP if size == 0 else UNKNOWN_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._roll_timestamp: int | None = None
        self.positions = BatchPositions()
        self.rebuilt = False

    @classmethod
    def create(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        resources: LogResources | None = None,
        suffix: str = "",
    ) -> Segment:
        """Make the files of an empty segment, preallocated as configured and ready for appends.

        Args:
            suffix: what the names of the files end with.

        Raises:
            OSError: the files could not be made; none is left.
            SegmentWriteError: the files could neither be made nor removed.
        """
        segment = cls(directory, base_offset, 0, config, now_ms, resources, suffix)
        ops = segment._resources.ops
        file = segment._files.create()
        try:
            if config.preallocate:
                ops.ftruncate(file.fd, config.segment_bytes)
            ops.unlink(segment.path(names.TXN_INDEX))
            segment.reset_indexes()
        except OSError:
            segment.discard()
            raise
        return segment

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size}, max_timestamp={self.max_timestamp})"

    # -- its files -------------------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """Path of the directory that holds the files."""
        return self._files.directory

    @property
    def file(self) -> SegmentFile:
        """The open `.log` file. Hold it while you use its descriptor; see `open_files`."""
        return self._files.log

    def path(self, kind: str) -> str:
        """Return the path of the file with this ending."""
        return self._files.path(kind)

    def close_idle(self) -> None:
        """Close the descriptor; the next use opens the file again."""
        self._files.close_idle()

    def release(self) -> None:
        """Close the descriptor and drop the maps; slices in flight keep the file open."""
        self._files.release()
        self.indexes.unload()
        self.writable = False

    def move(self, directory: str) -> None:
        """Use the new name of the directory, which is being renamed.

        A concurrent flush must not find the files of a new log under the old name.
        """
        self._files.directory = directory
        self.indexes.follow_rename()

    def relocate(self, directory: str) -> None:
        """Use the copies of the files in `directory` from now on; slices in flight keep the old files.

        Index entries that are in memory stay there.
        """
        self._files.directory = directory
        self._files.release()
        self.indexes.relocate()

    def rename_to(self, suffix: str) -> None:
        """Give the files names that end with `suffix`, the `.log` file first; drop the loaded indexes.

        Raises:
            OSError: a file could not be renamed; the files before it have their new names.
        """
        self.indexes.unload()
        self._files.rename_to(suffix)

    def mark_deleted(self) -> list[str]:
        """Rename the files for later removal and return their new paths; slices in flight stay readable."""
        paths = self._files.mark_deleted()
        self.release()
        return paths

    def remove(self) -> None:
        """Unlink the files; slices in flight stay readable."""
        self.release()
        self._files.remove()

    def discard(self) -> None:
        """Unlink the files of a new segment that is given up; recovery would take them for the end of the log.

        Raises:
            SegmentWriteError: the files could not be removed.
        """
        try:
            self.remove()
        except OSError as error:
            raise SegmentWriteError(error.errno, f"cannot remove {self.path(names.LOG)}") from error

    # -- indexes, on first use ----------------------------------------------------------------------------

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index; both indexes are rebuilt from the log if its file is missing or damaged."""
        if (index := self.indexes.offset) is not None:
            return index
        try:
            return self.indexes.load_offset(self.config, self.size)
        except (CorruptIndexError, FileNotFoundError) as error:
            return self.rebuild_indexes(self.scan_log(error))[0]

    @property
    def time_index(self) -> TimeIndex:
        """The time index; both indexes are rebuilt from the log if its file is missing or damaged."""
        if (index := self.indexes.time) is not None:
            return index
        try:
            return self.indexes.load_time(self.config.segment_index_bytes)
        except (CorruptIndexError, FileNotFoundError) as error:
            return self.rebuild_indexes(self.scan_log(error))[1]

    def scan_log(self, reason: object = None) -> IndexScan:
        """Return a scan of the log for `rebuild_indexes`; log the reason, if there is one."""
        if reason is not None:
            logger.warning("Rebuilding the indexes of %s: %s", self.path(names.LOG), reason)
        return IndexScan(self.file, self.base_offset, self.size, self.config.index_interval_bytes, self.indexes.builds)

    def rebuild_indexes(self, scan: IndexScan) -> tuple[OffsetIndex, TimeIndex]:
        """Write both indexes anew from a scan of the log, which is run if it was not, and trim them.

        Raises:
            RecordsError: the log is damaged; the entries up to there are in memory. The largest timestamp stays as it
                was known: retention must not take the segment for an older one.
            OSError: the disk failed.
        """
        scan.run()
        known = self.max_timestamp, self.max_timestamp_offset
        if scan.error is not None and self.max_timestamp == UNKNOWN_TIMESTAMP:
            known = self.indexes.stated_largest()
        index, time_index = self.reset_indexes()
        self.rebuilt = True
        index.extend(scan.offsets)
        time_index.extend(scan.times)
        largest = scan.largest if scan.error is None else max(scan.largest, known, key=lambda each: each[0])
        self.max_timestamp, self.max_timestamp_offset = largest
        self.bytes_since_index, self._roll_timestamp = scan.since_entry, scan.first
        if scan.error is not None:
            raise scan.error
        self.finish()
        return index, time_index

    def reset_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Empty both indexes; the caller then notes each batch of the log and calls `finish`."""
        indexes = self.indexes.create(self.config.segment_index_bytes)
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.bytes_since_index, self._roll_timestamp = 0, None
        self.positions.clear()
        self.writable = True
        return indexes

    def activate(self) -> None:
        """Make a loaded segment ready for appends: look up its largest timestamp, and preallocate its indexes."""
        if self.writable:
            return
        index, time_index = self.offset_index, self.time_index
        self.largest_timestamp()
        time_index.last()
        index.resize_to_max()
        time_index.resize_to_max()
        self.writable = True

    # -- appending -------------------------------------------------------------------------------------------

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int, batches: int = 1) -> bool:
        """Return whether batches of `size` bytes in all, ending at `last_offset`, do not all fit this segment."""
        if self.size + size > self.config.segment_bytes or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self.size == 0:
            return False
        if not self.writable:
            self.activate()
        index = self.offset_index
        return (
            index.entries + batches > index.max_entries
            or self.time_index.has_no_room(batches)
            or self._waited(now_ms, max_timestamp) > self.config.max_segment_ms - self.jitter_ms
        )

    def _waited(self, now_ms: int, max_timestamp: int) -> int:
        """Return the segment's age in ms by the records' timestamps, or by the clock if they have none."""
        return max_timestamp - first if (first := self.first_timestamp()) >= 0 else now_ms - self.created_ms

    def first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, or -1 when there is none."""
        if self._roll_timestamp is None:
            file = self.file
            self._roll_timestamp = next((h.max_timestamp for _, h in headers(file.fd, 0, self.size)), NO_TIMESTAMP)
        return self._roll_timestamp

    @property
    def knows_first_timestamp(self) -> bool:
        """True if `first_timestamp` reads nothing."""
        return self._roll_timestamp is not None or self.size == 0

    def append(self, data: memoryview, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Write one whole batch at the end and note it.

        Raises:
            OSError: the batch could not be written; the file has not changed.
            SegmentWriteError: the batch could not be written, and the file could not be cut back.
        """
        self.write(data)
        self.note_batch(self.size - len(data), len(data), base_offset, last_offset, max_timestamp)

    def write(self, data: memoryview) -> None:
        """Write whole batches at the end; the caller notes each. Raises as `append` does."""
        if not self.writable:
            self.activate()
        file, position, ops = self._files.log, self.size, self._resources.ops
        try:
            write_all(ops, file.fd, data, position)
        except OSError:
            try:
                ops.ftruncate(file.fd, position)
            except OSError as error:
                raise SegmentWriteError(error.errno, f"cannot cut {self.path(names.LOG)} back to {position}") from error
            raise
        self.size = position + len(data)

    def note_batch(self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Note a batch at `position`: index it, and update timestamps and positions of recent batches."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self._roll_timestamp = max_timestamp
        if self.bytes_since_index > self.config.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index = 0
        self.bytes_since_index += size
        self.positions.note(base_offset, position)

    # -- finding and reading ---------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int | None:
        """Return the position of the batch that holds `offset`, or of the next one; None past the last batch.

        Raises:
            CorruptRecordError: the log does not read as batches.
        """
        return self._search(offset) if (position := self.positions.get(offset)) is None else position

    def _search(self, offset: int) -> int | None:
        """Search the index and the log; rebuild an index that does not fit the log, but only once."""
        file, start = self.file, self.offset_index.lookup(offset)[1]
        try:
            found = find_batch(file.fd, start, self.size, offset)
            if self.fits(offset, start, found):
                return found[1] if found else None
        except CorruptRecordError:
            if start == 0 or self.rebuilt:
                raise
        if not self.rebuilt:
            self.rebuild_indexes(self.scan_log(misfit(self.path(names.INDEX), offset, start)))
            start = self.offset_index.lookup(offset)[1]
            found = find_batch(file.fd, start, self.size, offset)
        return found[1] if found else None

    def fits(self, offset: int, start: int, found: tuple[int, int, int] | None) -> bool:
        """Return whether the index fits the log, which it led to `start` for `offset`; see `may_be_found`."""
        file = self.file
        return may_be_found(file.fd, self.base_offset, self.size, offset, start, found)

    def limit_for(self, offset: int) -> int:
        """Return the position before which every batch lies before `offset`."""
        if (limit := self.positions.limit(offset)) is not None:
            return limit
        position = self.position_of(offset)
        if position is None:
            return self.size
        self.positions.note_limit(offset, position)
        return position

    def read(self, offset: int, max_bytes: int, limit: int, *, min_one: bool) -> FileSlice | None:
        """Return a slice from the batch that holds `offset` on, before position `limit`; None if there is none.

        The slice has at most `max_bytes`. If the first batch is larger, the slice is that batch with `min_one`, and
        empty without it.
        """
        position = self.position_of(offset)
        if position is None or position >= limit:
            return None
        file, length = self._files.log, limit - position
        if length > max_bytes:
            whole = batch_size(file.fd, position, limit)
            # A reader cannot use a part of the first batch: it would conclude that the batch is too large for it.
            length = max(max_bytes, whole) if min_one else max_bytes if max_bytes >= whole else 0
        return FileSlice(file, position, length)

    def next_offset(self) -> int:
        """Return the offset after the last batch, found from the last index entry on.

        Raises:
            CorruptRecordError: the log does not end with a whole batch.
        """
        if self.size == 0:
            return self.base_offset
        file, position = self.file, self.offset_index.last()[1]
        end, following = last_end(file.fd, position, self.size, self.base_offset)
        if end != self.size:
            raise CorruptRecordError(f"{self.path(names.LOG)}: {self.size - end} bytes after the last whole batch")
        return following

    def largest_timestamp(self) -> int:
        """Return the largest timestamp of the records, or -1 if none has a timestamp."""
        if self.max_timestamp == UNKNOWN_TIMESTAMP:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        return self.max_timestamp

    def learn(self, largest: tuple[int, int] | None, first: int | None = None) -> None:
        """Take over times that a worker has read, unless they are known: the largest and its offset, the first."""
        if largest is not None and self.max_timestamp == UNKNOWN_TIMESTAMP:
            self.max_timestamp, self.max_timestamp_offset = largest
        if not self.knows_first_timestamp:
            self._roll_timestamp = first

    def retention_timestamp(self) -> int:
        """Return the time that retention goes by, in ms: the largest timestamp, or else the file's last change."""
        timestamp = self.largest_timestamp()
        return timestamp if timestamp >= 0 else os.stat(self.path(names.LOG)).st_mtime_ns // 1_000_000

    # -- cutting, syncing, closing ---------------------------------------------------------------------------

    def truncate_to(self, offset: int, position: int, latest: tuple[int, int]) -> None:
        """Remove the batch at `position`, which holds `offset`, and everything after it.

        The caller cuts the transaction index.

        Args:
            latest: the largest timestamp of what stays, and its offset.

        Raises:
            OSError: the file could not be cut.
        """
        self.activate()
        self.cut(position)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.bytes_since_index = 0
        self.positions.clear()
        if self.size == 0:
            self._roll_timestamp = None
        self.max_timestamp, self.max_timestamp_offset = latest

    def cut(self, position: int) -> None:
        """Cut the `.log` file at `position`, on the device too; the caller cuts the indexes.

        It is forced at once: the bytes must not come back after what is appended next. A scan for indexes is given up.
        """
        if position < self.size:
            file, self.indexes.scan = self.file, None
            self._resources.ops.ftruncate(file.fd, position)
            self.size, self.aborted.cuts = position, self.aborted.cuts + 1
            self._resources.ops.fsync(file.fd)

    def flush(self) -> None:
        """Force the log and then the indexes to the device. May run on a worker's thread.

        Raises:
            OSError: something could not be forced; the segment may not be on the device.
        """
        began = self._resources.seconds()
        # Hold the file: if it were released meanwhile, its descriptor would be closed and reused for another file.
        file = self.file
        self._resources.ops.fsync(file.fd)
        self.indexes.sync()
        self.aborted.index.sync()
        self._resources.flush_stats.add(self._resources.seconds() - began)

    def finish(self) -> bool:
        """End the appends: write the closing time-index entry, trim the indexes, give reserved space back.

        Return whether there was anything to do.
        """
        if not self.writable:
            return False
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.trim()
        self.time_index.trim()
        if self.config.preallocate:
            file = self.file
            self._resources.ops.ftruncate(file.fd, self.size)
        self.writable = False
        return True
