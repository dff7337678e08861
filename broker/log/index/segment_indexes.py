"""The offset index and the time index of one segment, each loaded on first use.

An index that is not loaded is None: `Segment` loads it, or rebuilds both from the log if a file is missing or damaged.
On the event loop's thread, except that a worker may call `SegmentIndexes.sync`.
"""

from __future__ import annotations

from contextlib import ExitStack

from broker.log.index.index_file import CorruptIndexError, IndexFile
from broker.log.index.offset_index import OffsetIndex
from broker.log.index.time_index import NO_TIMESTAMP, TimeIndex, read_last
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from broker.log.segment.batch_scan import headers
from broker.log.segment.index_scan import IndexScan
from broker.log.segment.segment_files import SegmentFiles
from broker.system import page_cache
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

CERTAIN_INTERVALS = 4
"""An offset index without entries is damaged if a batch begins after so many times `index.interval.bytes`. Without
entries, each look-up would walk over the whole log.
"""
MOST_CHECKED = 32 << 10
"""It is not checked if `index.interval.bytes` is more than this, because the check walks over that part of the log."""


class SegmentIndexes:
    """Hold both indexes of one segment.

    Attributes:
        offset: the offset index, or None while it is not loaded.
        time: the time index, or None while it is not loaded.
        builds: how often both were begun anew.
        scan: a scan of the log that a worker makes, so that both can be built anew; None if there is none.
    """

    __slots__ = ("_files", "_resources", "builds", "offset", "scan", "time")

    def __init__(self, files: SegmentFiles, resources: LogResources) -> None:
        self._files = files
        self._resources = resources
        self.offset: OffsetIndex | None = None
        self.time: TimeIndex | None = None
        self.builds = 0
        self.scan: IndexScan | None = None

    def load_offset(self, config: LogConfig, log_size: int) -> OffsetIndex:
        """Load the offset index of a `.log` file of `log_size` bytes.

        Raises:
            CorruptIndexError: it is damaged, its last entry points past the end of the log, or it has lost all entries.
            FileNotFoundError: there is no file.
        """
        index = self._new_offset(config.segment_index_bytes)
        index.load()
        interval = config.index_interval_bytes
        if index.entries == 0 and self._has_lost_entries(log_size, interval):
            raise CorruptIndexError(f"{index.path}: no entries for a log of {log_size} bytes")
        if index.last()[1] >= max(log_size, 1):
            raise CorruptIndexError(f"{index.path}: last entry points past the log's {log_size} bytes")
        self.offset = index
        return index

    def _has_lost_entries(self, log_size: int, interval: int) -> bool:
        """Return whether the offset index of a `.log` file of `log_size` bytes cannot be empty.

        The first batch that begins after `interval` bytes has an entry, or a later one if the log was truncated.
        """
        least = CERTAIN_INTERVALS * interval
        if log_size <= least or interval > MOST_CHECKED:
            return False
        file = self._files.log
        try:
            return any(position > least for position, _ in headers(file.fd, 0, log_size))
        except RecordsError:
            # The scan of the log tells of the damage.
            return True

    def stated_largest(self) -> tuple[int, int]:
        """Return the largest timestamp and its offset by the file of the time index; NO_TIMESTAMP if it has none.

        It says nothing of an index that cannot be read, either.
        """
        try:
            return read_last(self._files.path(names.TIME_INDEX), self._files.base_offset)
        except (CorruptIndexError, OSError):
            return NO_TIMESTAMP, self._files.base_offset

    def load_time(self, max_bytes: int) -> TimeIndex:
        """Load the time index.

        Raises:
            CorruptIndexError: it is damaged.
            FileNotFoundError: there is no file.
        """
        index = self._new_time(max_bytes)
        index.load()
        self.time = index
        return index

    def create(self, max_bytes: int) -> tuple[OffsetIndex, TimeIndex]:
        """Make both files anew, empty and preallocated to `max_bytes`.

        Raises:
            OSError: a file could not be made.
        """
        index, time_index = self._new_offset(max_bytes), self._new_time(max_bytes)
        with ExitStack() as replacing:
            for _, old in self._loaded():
                replacing.enter_context(old.replacing())
            index.create()
            time_index.create()
        self.offset, self.time = index, time_index
        self.builds += 1
        return index, time_index

    def _new_offset(self, max_bytes: int) -> OffsetIndex:
        return OffsetIndex(self._files.path(names.INDEX), self._files.base_offset, max_bytes, self._resources)

    def _new_time(self, max_bytes: int) -> TimeIndex:
        return TimeIndex(self._files.path(names.TIME_INDEX), self._files.base_offset, max_bytes, self._resources)

    def unload(self) -> None:
        """Forget what is in memory; the next use loads the files again."""
        self.offset = self.time = None

    def follow_rename(self) -> None:
        """Use the new path of the files, whose directory was renamed."""
        for kind, index in self._loaded():
            index.path = self._files.path(kind)

    def relocate(self) -> None:
        """Use the copies of the files in the segment's new directory, and keep what is in memory."""
        for kind, index in self._loaded():
            index.relocate(self._files.path(kind))

    def _loaded(self) -> list[tuple[str, IndexFile]]:
        both = ((names.INDEX, self.offset), (names.TIME_INDEX, self.time))
        return [(kind, index) for kind, index in both if index is not None]

    def sync(self) -> None:
        """Force both files to the device. May run on a worker's thread.

        Raises:
            OSError: that could not be done.
        """
        builds = -1
        # The event loop may make them anew meanwhile.
        while builds != (builds := self.builds):
            for index in (self.offset, self.time):
                if index is not None:
                    index.sync()

    def on_disk(self, *kinds: str) -> str | None:
        """Return the path of the first of these files (`names.INDEX`, `TIME_INDEX`) that is not in memory."""
        for kind in kinds:
            index: IndexFile | None = self.offset if kind == names.INDEX else self.time
            path = self._files.path(kind)
            if not (page_cache.file_resident(path) if index is None else index.resident()):
                return path
        return None
