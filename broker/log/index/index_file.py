"""A sparse index file of sorted entries of one size: what the offset index and the time index have in common.

While its segment is active, an index file is preallocated to `segment.index.bytes` (rounded down to whole entries),
and its tail reads as zeros. When the segment is rolled or closed, the file is trimmed to its entries. An index is a
cache of the log: after an unclean stop the indexes of every segment past the recovery point are rebuilt from the log.

Entries gather in memory and are written in blocks, and always before the segment is flushed, rolled or closed. They
are written with `pwrite` and never through a memory map: on a full disk, a store into a hole of a mapped file kills
the process with SIGBUS, while a `pwrite` raises ENOSPC. Look-ups map the written part read-only on first use, and the
map may be dropped at any time (`open_files`).

Everything runs on the event loop's thread, except that a worker may call `IndexFile.sync` at the same time: it
writes the entries that are in memory to their place in the file and changes no attribute that describes them. A lock
prevents that the file is cut or made anew between that read of the entries and the write, which would bring back
removed entries.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from broker.log.files.file_ops import NO_SPACE, write_all
from broker.log.resources import LogResources
from broker.system import page_cache

BLOCK_BYTES = 4096
"""Entries are written to the file when so many bytes of them have gathered."""

RESIDENT_SECONDS = 1.0
"""The time for which an index that was in memory is assumed to be in memory still."""
_MMAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class NoSpaceError(OSError):
    """There is no room on the disk for index entries. They are kept in memory, and nothing is lost."""


class CorruptIndexError(Exception):
    """An index file is damaged. It is rebuilt from the log."""


class IndexFile:
    """Hold entries of `ENTRY_SIZE` bytes: the written ones in the file, the newest ones in memory.

    Args:
        path: the file, which `create` makes or `load` reads.
        base_offset: the base offset of the segment.
        max_bytes: the size to which the file is preallocated, `segment.index.bytes`.
        resources: of the broker: file operations, a clock, and the budget to which maps of the file count.
    """

    ENTRY_SIZE = 0

    __slots__ = (
        "__weakref__", "_cutting", "_map", "_ops", "_resident_until", "_resources", "_tail", "_unsynced",
        "base_offset", "max_entries", "path", "used",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        base_offset: int,
        max_bytes: int,
        resources: LogResources | None = None,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.ENTRY_SIZE
        resources = resources or LogResources()
        self._resources = resources
        self._ops = resources.ops
        self._tail = (0, bytearray())
        """The number of bytes of entries in the file, and the entries after them. The pair is replaced as one; the
        bytearray grows."""
        self._map: Any = None
        self.used = False
        self._resident_until = 0.0
        self._unsynced = False
        self._cutting = Lock()

    @property
    def entries(self) -> int:
        """Number of entries, written or not."""
        written, pending = self._tail
        return (written + len(pending)) // self.ENTRY_SIZE

    @property
    def written(self) -> int:
        """Bytes of entries in the file; the other entries are in memory."""
        return self._tail[0]

    @property
    def is_unsynced(self) -> bool:
        """Return whether something of the file may not be on the device."""
        return bool(self._tail[1]) or self._unsynced

    def relocate(self, path: str) -> None:
        """Use the copy of the file at `path`, which has all entries written so far, from now on."""
        self.path = path
        self._map = None
        self._unsynced = True

    # -- life of the file --------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file anew, empty and preallocated."""
        fd = self._ops.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._ops.ftruncate(fd, self.max_entries * self.ENTRY_SIZE)
        finally:
            os.close(fd)
        self._tail = (0, bytearray())
        self._map = None
        self._unsynced = True

    def load(self) -> None:
        """Take over the entries of a trimmed file.

        Raises:
            CorruptIndexError: the size is no multiple of an entry's, or the last entry is not valid.
            FileNotFoundError: there is no file.
        """
        size = os.stat(self.path).st_size
        if size % self.ENTRY_SIZE:
            raise CorruptIndexError(f"{self.path}: {size} bytes are not whole entries of {self.ENTRY_SIZE}")
        self._tail = (size, bytearray())
        self._map = None
        self._check_loaded()

    def _check_loaded(self) -> None:
        raise TypeError("an index checks its entries")

    def resize_to_max(self) -> None:
        """Preallocate a trimmed file again, because its segment becomes active.

        A file that has more entries already stays as it is: `segment.index.bytes` may have been lowered.
        """
        self._set_size(max(self.max_entries * self.ENTRY_SIZE, self.written))

    def trim(self) -> None:
        """Write the entries that are in memory and cut the file to its entries.

        If the disk is full, the entries stay in memory: look-ups find them there, and `sync` tries again.

        Raises:
            OSError: writing or cutting failed for another reason.
        """
        try:
            self.write_pending()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
        self._set_size(self._tail[0])

    def _set_size(self, size: int) -> None:
        fd = self._ops.open(self.path, os.O_RDWR)
        try:
            self._ops.ftruncate(fd, size)
        finally:
            os.close(fd)
        self._map = None
        self._unsynced = True

    # -- entries -----------------------------------------------------------------------------------------------------

    def extend(self, entries: bytes | bytearray) -> None:
        """Add packed entries, which `trim` writes."""
        written, pending = self._tail
        self._tail = (written, pending + entries)

    def _spill(self) -> None:
        """Write a full block, or keep it in memory if the disk is full; the next flush reports that."""
        with suppress(OSError):
            self.write_pending()

    def write_pending(self) -> None:
        """Write the entries that are in memory to the file.

        Raises:
            OSError: they could not be written; they stay in memory.
        """
        written, pending = self._tail
        if pending:
            self._write(bytes(pending), written)
            self._unsynced = True
            self._tail = (written + len(pending), bytearray())

    def sync(self) -> None:
        """Write every entry to the file and force the file to the device. May run on a worker's thread.

        Raises:
            NoSpaceError: there is no room for the entries; they stay in memory, and a later call may succeed.
            OSError: the file could not be written or forced.
        """
        if not self.is_unsynced:
            return
        self._unsynced = False
        try:
            fd = self._ops.open(self.path, os.O_RDWR)
        except OSError:
            self._unsynced = True
            raise
        try:
            with self._cutting:
                written, pending = self._tail
                if pending:
                    try:
                        write_all(self._ops, fd, bytes(pending), written)
                    except OSError as error:
                        if error.errno not in NO_SPACE:
                            raise
                        self._unsynced = True
                        raise NoSpaceError(error.errno, f"{error.strerror}: {self.path}") from error
            self._ops.fsync(fd)
        finally:
            os.close(fd)

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Make the file anew in this block, by another object. Afterwards this one writes nothing more to it.

        A worker that has begun `sync` of this object would write old entries over new ones.
        """
        with self._cutting:
            yield
            self._tail = (0, bytearray())
            self._map = None

    def _write(self, data: bytes, at: int) -> None:
        fd = self._ops.open(self.path, os.O_RDWR)
        try:
            write_all(self._ops, fd, data, at)
        finally:
            os.close(fd)

    def truncate_entries(self, count: int) -> None:
        """Keep the first `count` entries. Afterwards the file is preallocated, and its tail reads as zeros."""
        keep = count * self.ENTRY_SIZE
        written, pending = self._tail
        with self._cutting:
            self._tail = (min(written, keep), pending[: max(keep - written, 0)])
            # Cut the file before it is preallocated: the old entries must not come back in its tail.
            self._set_size(self._tail[0])
        self.resize_to_max()

    def _view(self) -> tuple[Any, int, bytearray]:
        """Return `(map of the file, bytes of entries in the file, entries in memory)`."""
        written, pending = self._tail
        view = self._map
        if written and (view is None or len(view) < written):
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                view = mmap.mmap(fd, 0, access=mmap.ACCESS_READ, **_MMAP_OPTIONS)
            finally:
                os.close(fd)
            if len(view) < written:
                raise CorruptIndexError(f"{self.path}: {len(view)} bytes where {written} were written")
            self._map = view
            self._resources.open_files.admit(self)
        self.used = True
        return view, written, pending

    def resident(self) -> bool:
        """Return whether every page that a look-up may touch is in memory."""
        now = self._resources.seconds()
        if now < self._resident_until:
            return True
        written = self._tail[0]
        if written and not page_cache.file_resident(self.path, written):
            return False
        self._resident_until = now + RESIDENT_SECONDS
        return True

    def close_idle(self) -> None:
        """Drop the map; the next look-up maps the file again."""
        self._map = None
