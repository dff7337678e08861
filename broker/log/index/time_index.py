"""The time index of a segment, `.timeindex`; `kafkalog.storage.index_entries` describes the format."""

from __future__ import annotations

import os

from broker.log.index.index_file import BLOCK_BYTES, CorruptIndexError, IndexFile
from broker.log.resources import LogResources
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET, TIME_ENTRY

NO_TIMESTAMP = -1


class TimeIndex(IndexFile):
    """Look up offsets by timestamp in one segment. Entries are in the order of their timestamps."""

    ENTRY_SIZE = TIME_ENTRY.size

    __slots__ = ("_last",)

    def __init__(
        self,
        path: str,
        base_offset: int,
        max_bytes: int,
        resources: LogResources | None = None,
    ) -> None:
        super().__init__(path, base_offset, max_bytes, resources)
        self._last: tuple[int, int] | None = None
        """The last entry. An append compares with it, and must not fail because the system refuses to map the file."""

    def create(self) -> None:
        super().create()
        self._last = None

    def load(self) -> None:
        self._last = None
        super().load()

    def truncate_entries(self, count: int) -> None:
        self._last = None
        super().truncate_entries(count)

    def _check_loaded(self) -> None:
        """Check that a trimmed index can end with the last entry.

        Raises:
            CorruptIndexError: none can.
        """
        if count := self.entries:
            check_ends(self.path, count, self._entry(0), self._entry(count - 1))

    def has_no_room(self, entries: int) -> bool:
        """Return whether fewer than `entries` slots are free, not counting the one kept for the closing entry."""
        return self.entries + entries > self.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is later than the last one.

        Raises:
            CorruptIndexError: `offset` lies outside of the segment's range.
        """
        if timestamp <= self.last()[0]:
            return
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise CorruptIndexError(f"{self.path}: offset {offset} cannot be relative to {self.base_offset}")
        self._last = timestamp, offset
        pending = self._tail[1]
        pending += TIME_ENTRY.pack(timestamp, relative)
        if len(pending) >= BLOCK_BYTES:
            self._spill()

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return `(timestamp, offset)` of the last entry at or before `timestamp`.

        Return `(NO_TIMESTAMP, base offset)` if there is none.
        """
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if self._entry(middle)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return NO_TIMESTAMP, self.base_offset
        found, relative = self._entry(low - 1)
        return found, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """Return `(timestamp, offset)` of the last entry, or `(NO_TIMESTAMP, base offset)` if there is none."""
        last = self._last
        if last is None:
            last = NO_TIMESTAMP, self.base_offset
            if count := self.entries:
                timestamp, relative = self._entry(count - 1)
                last = timestamp, self.base_offset + relative
            self._last = last
        return last

    def last_before(self, offset: int) -> tuple[int, int]:
        """Return what `last` would return after `truncate_to(offset)`."""
        count = self._count_before(offset)
        if count == 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self._entry(count - 1)
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Remove the entries for `offset` and later ones."""
        self.truncate_entries(self._count_before(offset))

    def _count_before(self, offset: int) -> int:
        low, high = 0, self.entries
        target = offset - self.base_offset
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] < target:
                low = middle + 1
            else:
                high = middle
        return low

    def items(self) -> list[tuple[int, int]]:
        """Return every `(timestamp, offset)`, in order."""
        base = self.base_offset
        return [(timestamp, base + relative) for timestamp, relative in map(self._entry, range(self.entries))]

    def _entry(self, slot: int) -> tuple[int, int]:
        view, written, pending = self._view()
        at = slot * 12
        timestamp, relative = (
            TIME_ENTRY.unpack_from(view, at) if at < written else TIME_ENTRY.unpack_from(pending, at - written)
        )
        return timestamp, relative


def check_ends(path: str, count: int, first: tuple[int, int], last: tuple[int, int]) -> None:
    """Check that a trimmed index of `count` entries can begin with the entry `first` and end with `last`.

    Raises:
        CorruptIndexError: it cannot.
    """
    timestamp, relative = last
    # An entry of zeros was lost. If it was a true entry of 1970, rebuilding finds it again in the log.
    if timestamp < first[0] or relative < 0 or (count > 1 and timestamp == first[0]) or last == (0, 0):
        raise CorruptIndexError(f"{path}: last of {count} entries is ({timestamp}, {relative})")


def read_last(path: str, base_offset: int) -> tuple[int, int]:
    """Return what `TimeIndex.last` returns of a trimmed file, by two reads of the file. Call it on any thread.

    A map of the file would end the process with SIGBUS if the event loop cut the file meanwhile.

    Raises:
        CorruptIndexError: the size is no multiple of an entry's, or the last entry is not valid.
        FileNotFoundError: there is no file.
        OSError: the file cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return NO_TIMESTAMP, base_offset
        whole = size % TIME_ENTRY.size == 0
        ends = [os.pread(fd, TIME_ENTRY.size, at) for at in (0, size - TIME_ENTRY.size) if whole]
    finally:
        os.close(fd)
    if not whole or any(len(end) < TIME_ENTRY.size for end in ends):
        raise CorruptIndexError(f"{path}: {size} bytes are not whole entries of {TIME_ENTRY.size}")
    first, (timestamp, relative) = map(TIME_ENTRY.unpack, ends)
    check_ends(path, size // TIME_ENTRY.size, first, (timestamp, relative))
    return timestamp, base_offset + relative
