"""One segment of a log: a ``.log`` file of record batches and its indexes.

A segment holds the batches from its base offset (its name) up to the next segment's. Only the last one, the
active segment, is appended to. Files are opened and indexes loaded on first use: opening a partition reads
none of them. Where they lie and what they are called: `segment_files`. Aborted transactions: `aborted_transactions`.

Positions are found in three steps, cheapest first: those of the newest batches, which are kept (`batch_positions`);
the sparse offset index; a walk over batch headers from the index's entry.
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
from broker.log.segment.batch_scan import batch_size, find_batch, headers, may_be_found
from broker.log.segment.file_slices import FileSlice, SegmentFile
from broker.log.segment.segment_files import SegmentFiles, SegmentWriteError
from kafkalog.records.errors import CorruptRecordError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

logger = logging.getLogger(__name__)

# A largest timestamp that has not been looked up yet.
UNKNOWN_TIMESTAMP = -2


class Segment:
    """See the module. Not safe for use from several threads, but for :meth:`flush`.

    Attributes:
        base_offset: of its first batch, and its name.
        size: bytes of its batches.
        config: of the log; only the log replaces it.
        aborted: the aborted transactions whose markers it holds.
        indexes: the offset index and the time index, as far as they are loaded.
        writable: whether both are in memory and have room for what is appended.
    """

    __slots__ = (
        "_distrusted", "_files", "_positions", "_resources", "_roll_timestamp", "aborted", "base_offset",
        "bytes_since_index", "config", "created_ms", "indexes", "jitter_ms", "max_timestamp", "max_timestamp_offset",
        "size", "writable",
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
        resources = resources or LogResources()
        self._resources = resources
        self._files = SegmentFiles(directory, base_offset, resources, suffix)
        self.indexes = SegmentIndexes(self._files, resources)
        self.writable = False
        self.aborted = AbortedTransactions(self._files, resources.ops)
        self.size = size
        self.config = config
        self.created_ms = now_ms
        # What this segment takes off segment.ms: a share that differs by partition and segment.
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        self.jitter_ms = crc32(f"{directory}/{base_offset}".encode()) % jitter if jitter else 0
        self.bytes_since_index = 0
        self.max_timestamp = NO_TIMESTAMP if size == 0 else UNKNOWN_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._roll_timestamp: int | None = None
        self._positions = BatchPositions()
        # Its index was found not to fit the log, and was built anew.
        self._distrusted = False

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
        """Make the files of an empty segment, preallocated as configured, and make it ready for appends; their names
        end with ``suffix``.

        Raises:
            OSError: they could not be made; none is left.
            SegmentWriteError: nor could they be removed.
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
        """Where its files lie."""
        return self._files.directory

    @property
    def file(self) -> SegmentFile:
        """The open ``.log`` file; whoever uses its descriptor holds it meanwhile (`open_files`)."""
        return self._files.log

    def path(self, kind: str) -> str:
        """Path of one of its files, by ending."""
        return self._files.path(kind)

    def files(self) -> list[str]:
        """Paths of the files it has or may have."""
        return self._files.paths()

    def close_idle(self) -> None:
        """Let go of the descriptor; the next use opens the file again."""
        self._files.close_idle()

    def release(self) -> None:
        """Let go of the descriptor and the maps; slices in flight keep the file open."""
        self._files.release()
        self.indexes.unload()
        self.writable = False

    def move(self, directory: str) -> None:
        """Its directory gets another name: a flush beside this must not find a new log's files under the old one."""
        self._files.directory = directory
        self.indexes.follow_rename()

    def relocate(self, directory: str) -> None:
        """Copies of its files are in ``directory``, and those are its files from now on; slices in flight keep theirs.

        What is in memory of its indexes stays there.
        """
        self._files.directory = directory
        self._files.release()
        self.indexes.relocate()

    def rename_to(self, suffix: str) -> None:
        """Give its files names that end with ``suffix``, the ``.log`` file first; its indexes are loaded anew.

        Raises:
            OSError: a file could not be renamed; those before it have their new names.
        """
        self.indexes.unload()
        self._files.rename_to(suffix)

    def mark_deleted(self) -> list[str]:
        """Rename its files for later removal and return their new paths; slices in flight stay readable."""
        paths = self._files.mark_deleted()
        self.release()
        return paths

    def remove(self) -> None:
        """Unlink its files; slices in flight stay readable."""
        self.release()
        self._files.remove()

    def discard(self) -> None:
        """Unlink the files of a new segment that is not to be: found later, it would seem to be the log's end.

        Raises:
            SegmentWriteError: they could not be removed.
        """
        try:
            self.remove()
        except OSError as error:
            raise SegmentWriteError(error.errno, f"cannot remove {self.path(names.LOG)}") from error

    # -- indexes, on first use ----------------------------------------------------------------------------

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index; rebuilt from the log if its file is missing or cannot be right."""
        index = self.indexes.offset
        if index is None:
            try:
                return self.indexes.load_offset(self.config.segment_index_bytes, self.size)
            except (CorruptIndexError, FileNotFoundError) as error:
                logger.warning("Rebuilding the indexes of %s: %s", self.path(names.LOG), error)
                return self.rebuild_indexes()[0]
        return index

    @property
    def time_index(self) -> TimeIndex:
        """The time index; rebuilt from the log if its file is missing or cannot be right."""
        index = self.indexes.time
        if index is None:
            try:
                return self.indexes.load_time(self.config.segment_index_bytes)
            except (CorruptIndexError, FileNotFoundError) as error:
                logger.warning("Rebuilding the indexes of %s: %s", self.path(names.LOG), error)
                return self.rebuild_indexes()[1]
        return index

    def rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Write both indexes anew from the batch headers of the log, trimmed."""
        index, time_index = self.reset_indexes()
        file = self.file
        for position, header in headers(file.fd, 0, self.size):
            self.note_batch(position, header.size, header.base_offset, header.last_offset, header.max_timestamp)
        self.finish()
        return index, time_index

    def reset_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Empty both indexes and forget what they said; the caller notes each batch and calls :meth:`finish`."""
        indexes = self.indexes.create(self.config.segment_index_bytes)
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.bytes_since_index = 0
        self._roll_timestamp = None
        self._positions.clear()
        self.writable = True
        return indexes

    def activate(self) -> None:
        """Make a loaded segment ready for appends: indexes at full size, largest timestamp known."""
        if self.writable:
            return
        index, time_index = self.offset_index, self.time_index
        self.largest_timestamp()
        time_index.last()
        index.resize_to_max()
        time_index.resize_to_max()
        self.writable = True

    # -- appending -------------------------------------------------------------------------------------------

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch of ``size`` bytes up to ``last_offset`` must begin a new segment."""
        if self.size + size > self.config.segment_bytes:
            return True
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self.size == 0:
            return False
        if not self.writable:
            self.activate()
        index = self.offset_index
        return (
            index.entries >= index.max_entries
            or self.time_index.is_full
            or self._waited(now_ms, max_timestamp) > self.config.max_segment_ms - self.jitter_ms
        )

    def _waited(self, now_ms: int, max_timestamp: int) -> int:
        """How old the segment is in the records' time, or in the clock's when they carry none."""
        first = self.first_timestamp()
        return max_timestamp - first if first >= 0 else now_ms - self.created_ms

    def first_timestamp(self) -> int:
        """Largest timestamp of the first batch, or -1 when there is none."""
        first = self._roll_timestamp
        if first is None:
            file = self.file
            first = self._roll_timestamp = next(
                (header.max_timestamp for _, header in headers(file.fd, 0, self.size)), NO_TIMESTAMP
            )
        return first

    def append(self, data: memoryview, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Write one whole batch at the end and note it.

        Raises:
            OSError: it could not be written; the file is as it was.
            SegmentWriteError: it could not be written, and the file could not be cut back.
        """
        position = self.size
        self.write(data)
        self.note_batch(position, len(data), base_offset, last_offset, max_timestamp)

    def write(self, data: memoryview) -> None:
        """Write whole batches at the end; the caller notes each. Raises as :meth:`append` does."""
        if not self.writable:
            self.activate()
        file = self._files.log
        fd = file.fd
        position = self.size
        try:
            write_all(self._resources.ops, fd, data, position)
        except OSError:
            try:
                self._resources.ops.ftruncate(fd, position)
            except OSError as error:
                raise SegmentWriteError(error.errno, f"cannot cut {self.path(names.LOG)} back to {position}") from error
            raise
        self.size = position + len(data)

    def note_batch(self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch into account that lies at ``position``: indexes, timestamps, positions of recent batches."""
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
        self._positions.note(base_offset, position)

    # -- finding and reading ---------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int | None:
        """Position of the batch that holds ``offset``, or of the next one; None past the last batch.

        Raises:
            CorruptRecordError: the log does not read as batches.
        """
        position = self._positions.get(offset)
        return self._search(offset) if position is None else position

    def _search(self, offset: int) -> int | None:
        """What the index and the log say; an index that does not fit the log is built anew, once."""
        start = self.offset_index.lookup(offset)[1]
        file = self.file
        try:
            found = find_batch(file.fd, start, self.size, offset)
            if self.fits(offset, start, found):
                return found[1] if found else None
        except CorruptRecordError:
            if start == 0 or self._distrusted:
                raise
        if not self._distrusted:
            self._distrusted = True
            logger.warning(
                "The offset index %s leads to position %d for offset %d, where the log has no such batch; the indexes "
                "are built anew from the log", self.path(names.INDEX), start, offset,
            )  # fmt: skip
            self.rebuild_indexes()
            start = self.offset_index.lookup(offset)[1]
            found = find_batch(file.fd, start, self.size, offset)
        return found[1] if found else None

    def fits(self, offset: int, start: int, found: tuple[int, int, int] | None) -> bool:
        """Whether a look-up of ``offset`` that the index led to ``start`` may have found this, or nothing.

        An index entry is no later than the offset: the batch that it leads to cannot begin after it.
        """
        file = self.file
        return may_be_found(file.fd, self.base_offset, self.size, offset, start, found)

    def remembers(self, offset: int) -> bool:
        """Whether a batch that begins at ``offset`` is among the newest, whose positions are known."""
        return self._positions.remembers(offset)

    def note_position(self, offset: int, position: int) -> None:
        """A look-up done elsewhere has found the batch that holds ``offset``; the next :meth:`position_of` is told."""
        self._positions.note_found(offset, position)

    def limit_for(self, offset: int) -> int:
        """Position up to which everything lies before ``offset``."""
        limit = self._positions.limit(offset)
        if limit is not None:
            return limit
        position = self.position_of(offset)
        if position is None:
            return self.size
        self._positions.note_limit(offset, position)
        return position

    def read(self, offset: int, max_bytes: int, limit: int, *, min_one: bool) -> FileSlice | None:
        """A slice from the batch that holds ``offset`` on, before position ``limit``; None when there is
        none.

        At most ``max_bytes``, but with ``min_one`` at least the whole first batch; without it, nothing where that does
        not fit.
        """
        position = self.position_of(offset)
        if position is None or position >= limit:
            return None
        file = self._files.log
        length = limit - position
        if length > max_bytes:
            whole = batch_size(file.fd, position, limit)
            # A piece of its first batch is of no use to a reader, who would take it for one too large for him.
            length = max(max_bytes, whole) if min_one else max_bytes if max_bytes >= whole else 0
        return FileSlice(file, position, length)

    def next_offset(self) -> int:
        """Offset after the last batch, found from the last index entry on.

        Raises:
            CorruptRecordError: the log does not end with a whole batch.
        """
        if self.size == 0:
            return self.base_offset
        position = self.offset_index.last()[1]
        end, following = position, self.base_offset
        file = self.file
        for at, header in headers(file.fd, position, self.size):
            end, following = at + header.size, header.next_offset
        if end != self.size:
            raise CorruptRecordError(f"{self.path(names.LOG)}: {self.size - end} bytes after the last whole batch")
        return following

    def largest_timestamp(self) -> int:
        """Largest timestamp of its records, or -1 when none has one."""
        if self.max_timestamp == UNKNOWN_TIMESTAMP:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        return self.max_timestamp

    def learn(self, found: tuple[int, int] | None) -> None:
        """Take over the largest timestamp that a worker has read, unless it is known by now."""
        if found is not None and self.max_timestamp == UNKNOWN_TIMESTAMP:
            self.max_timestamp, self.max_timestamp_offset = found

    def retention_timestamp(self) -> int:
        """The time retention goes by: the largest record timestamp, or the file's last change where there is
        none.
        """
        timestamp = self.largest_timestamp()
        if timestamp >= 0:
            return timestamp
        return os.stat(self.path(names.LOG)).st_mtime_ns // 1_000_000

    # -- cutting, syncing, closing ---------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds ``offset`` and everything after it.

        Raises:
            OSError: the file could not be cut.
        """
        position = self.position_of(offset)
        self.activate()
        if position is not None:
            self.cut(position)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.aborted.index.truncate_to(offset)
        self.bytes_since_index = 0
        self._positions.clear()
        if self.size == 0:
            self._roll_timestamp = None
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        start = self.offset_index.lookup(self.max_timestamp_offset)[1]
        file = self.file
        for _, header in headers(file.fd, start, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset

    def cut(self, position: int) -> None:
        """Cut the ``.log`` file at ``position``, on the device too; the caller sees to the indexes.

        Forced at once, for what was cut off must not come back after what is appended next.
        """
        if position < self.size:
            file = self.file
            self._resources.ops.ftruncate(file.fd, position)
            self.size = position
            self._resources.ops.fsync(file.fd)

    def flush(self) -> None:
        """Force log and indexes to the device, in this order. May run on a worker's thread.

        Raises:
            OSError: something could not be forced; the segment must not be trusted to be on the device.
        """
        began = self._resources.seconds()
        # Held: released meanwhile, it would close the descriptor, and another file could get its number.
        file = self.file
        self._resources.ops.fsync(file.fd)
        self.indexes.sync()
        self.aborted.index.sync()
        self._resources.flush_stats.add(self._resources.seconds() - began)

    def finish(self) -> bool:
        """No more appends: the closing time-index entry, indexes trimmed, reserved space given back.

        Returns whether there was anything to do.
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
