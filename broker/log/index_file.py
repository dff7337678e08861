"""A sparse index file of fixed-size entries, sorted by construction: what the offset and the time index
share.

While its segment is active, an index file is preallocated to ``segment.index.bytes`` (rounded down to whole
entries) and its tail reads as zeros; when the segment is rolled or closed it is trimmed to the entries it
has. It is a cache of what
the log says: after an unclean stop the indexes of every segment past the recovery point are rebuilt from the
    log.

Entries are gathered in memory and written in blocks, and always before the segment is flushed, rolled or
closed. They are written with ``pwrite``, never through a memory map: on a full disk a store into a hole of a
mapped file kills the process with SIGBUS, a ``pwrite`` raises ENOSPC. Look-ups map the written part
read-only, on first use. No descriptor is kept open.

``append`` and look-ups run on the loop's thread; ``flush`` may run on a worker's. The lock is held only for
moves in memory, never across a system call.
"""

from __future__ import annotations

import mmap
import os
import sys
from threading import Lock
from typing import Any

from broker.log.file_ops import OS, FileOps, write_all

# Entries are written to the file when this many bytes of them have gathered.
BLOCK_BYTES = 4096

_MMAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class CorruptIndexError(Exception):
    """An index file that cannot be what we wrote; it is rebuilt from the log."""


class IndexFile:
    """Entries of ``ENTRY_SIZE`` bytes: the written ones in the file, the newest ones in memory.

    Args:
        path: the file; created by :meth:`create`, or present.
        base_offset: the segment's.
        max_bytes: what the file is preallocated to, ``segment.index.bytes``.
    """

    ENTRY_SIZE = 0

    __slots__ = (
        "_generation", "_lock", "_map", "_ops", "_pending", "_unsynced", "_written", "base_offset", "max_entries", "path",
    )  # fmt: skip

    def __init__(self, path: str, base_offset: int, max_bytes: int, ops: FileOps = OS) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.ENTRY_SIZE
        self._ops = ops
        self._lock = Lock()
        self._pending = bytearray()
        self._written = 0  # bytes of entries in the file
        self._map: Any = None
        self._generation = 0  # counts truncations, so that a flush under way notices one
        self._unsynced = False

    @property
    def entries(self) -> int:
        """How many entries there are, written or not."""
        return (self._written + len(self._pending)) // self.ENTRY_SIZE

    # -- life of the file ------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file anew, empty and preallocated."""
        fd = self._ops.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._ops.ftruncate(fd, self.max_entries * self.ENTRY_SIZE)
        finally:
            os.close(fd)
        self._forget(0)
        self._unsynced = True

    def load(self) -> None:
        """Take over the entries of a trimmed file.

        Raises:
            CorruptIndexError: the size is not whole entries, or the subclass's check of the last entry
            failed. FileNotFoundError: there is no file.
        """
        size = os.stat(self.path).st_size
        if size % self.ENTRY_SIZE:
            raise CorruptIndexError(f"{self.path}: {size} bytes are not whole entries of {self.ENTRY_SIZE}")
        self._forget(size)
        self._check_loaded()

    def _check_loaded(self) -> None:
        raise TypeError("an index checks its entries")

    def resize_to_max(self) -> None:
        """Preallocate again, when a trimmed file's segment becomes active."""
        self._set_size(self.max_entries * self.ENTRY_SIZE)

    def trim(self) -> None:
        """Write what is in memory and cut the file to its entries."""
        self.write_pending()
        self._set_size(self._written)

    def reset(self) -> None:
        """Drop every entry and preallocate: the start of a rebuild."""
        self.create()

    def close(self) -> None:
        """Drop the map. The file is left as it is."""
        self._map = None

    def _set_size(self, size: int) -> None:
        fd = self._ops.open(self.path, os.O_RDWR)
        try:
            self._ops.ftruncate(fd, size)
        finally:
            os.close(fd)
        self._map = None
        self._unsynced = True

    def _forget(self, written: int) -> None:
        with self._lock:
            self._pending = bytearray()
            self._written = written
            self._generation += 1
        self._map = None

    # -- entries ---------------------------------------------------------------------------------------------

    def _add(self, entry: bytes) -> None:
        with self._lock:
            self._pending += entry
            full = len(self._pending) >= BLOCK_BYTES
        if full:
            try:
                self.write_pending()
            except OSError:
                # The entry is kept in memory and is written later; a flush that cannot write it will say so.
                return

    def write_pending(self, *, sync: bool = False) -> None:
        """Write gathered entries to the file; with ``sync`` force the file to the device."""
        with self._lock:
            data = bytes(self._pending)
            at = self._written
            generation = self._generation
            sync = sync and (self._unsynced or bool(data))
            self._unsynced = not sync and (self._unsynced or bool(data))
        if not data and not sync:
            return
        fd = self._ops.open(self.path, os.O_RDWR)
        try:
            if data:
                write_all(self._ops, fd, data, at)
            if sync:
                self._ops.fsync(fd)
        finally:
            os.close(fd)
        with self._lock:
            if generation == self._generation and at == self._written:
                # A new object: a look-up under way keeps the old pair of written and pending.
                self._pending = self._pending[len(data) :]
                self._written = at + len(data)

    def truncate_entries(self, count: int) -> None:
        """Keep the first ``count`` entries; the file keeps its size, its tail is zeroed when it is trimmed or
        grown.
        """
        keep = count * self.ENTRY_SIZE
        with self._lock:
            if keep >= self._written:
                del self._pending[keep - self._written :]
            else:
                self._pending = bytearray()
                self._written = keep
            self._generation += 1
            written = self._written
        # Cut, then preallocate: the old entries must not come back as the new tail.
        self._set_size(written)
        self.resize_to_max()

    def _view(self) -> tuple[Any, int, bytearray]:
        """``(map of the file, bytes of entries in it, entries in memory)``, consistent with each other."""
        with self._lock:
            written, pending = self._written, self._pending
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
        return view, written, pending
