"""A disk that forgets, at a power failure, what was not forced to it.

The rules are POSIX's, so harsher than those of any one file system: after a crash a file has the content of its last
fsync, and of each write and each cut after that, independently, all, a part, or nothing; a directory has the names of
its last fsync, and of the creations, renames and removals after that some first ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from broker.log.file_ops import Buffer, FileOps

Choose = Callable[[int], int]
"""``choose(n)``: a number from 0 to n - 1, drawn by the test."""

SECTOR = 512


class _File:
    """Content as of the last fsync, and the writes (position, bytes) and cuts (size, None) after it."""

    __slots__ = ("pending", "synced")

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = synced
        self.pending: list[tuple[int, bytes | None]] = []


class LossyOps(FileOps):
    """Real file operations on real files that are kept account of; :meth:`crash` leaves what a power failure would.

    Knows the files that were made through it.
    """

    __slots__ = ("_files", "_names", "_pending", "_synced_names")

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        # Paths now, and those of the last fsync of their directory with what has happened there since.
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self._pending: dict[str, list[tuple[str, _File | None]]] = {}

    # -- the operations --------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        new = not os.path.exists(path)
        # Readable too: an fsync takes the file's content down.
        fd = super().open(path, flags & ~os.O_WRONLY | os.O_RDWR, mode)
        if new:
            self._set_name(path, _File())
            self._files[os.fstat(fd).st_ino] = self._names[path]
        elif flags & os.O_TRUNC:
            self._names[path].pending.append((0, None))
        return fd

    def pwrite(self, fd: int, data: Buffer, position: int, /) -> int:
        written = super().pwrite(fd, data, position)
        self._file(fd).pending.append((position, bytes(data[:written])))
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self._file(fd).pending.append((size, None))

    def fsync(self, fd: int) -> None:
        # The real one is left out: the account says what it is worth, and it is slow.
        file = self._file(fd)
        file.synced = os.pread(fd, os.fstat(fd).st_size, 0) if os.fstat(fd).st_size else b""
        file.pending.clear()

    def fsync_dir(self, path: str) -> None:
        for name, file in self._pending.pop(path, []):
            self._apply(name, file)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        file = self._names[source]
        # Both names in one entry of the journal: a rename is atomic.
        self._set_name(target, file, gone=source)

    def unlink(self, path: str) -> None:
        existed = os.path.exists(path)
        super().unlink(path)
        if existed:
            self._set_name(path, None)

    def adopt(self, path: Path) -> None:
        """Take the file at ``path`` as being on the disk."""
        file = _File(path.read_bytes())
        self._files[path.stat().st_ino] = file
        self._names[str(path)] = self._synced_names[str(path)] = file

    # -- the account -----------------------------------------------------------------------------------------

    def _file(self, fd: int) -> _File:
        return self._files[os.fstat(fd).st_ino]

    def _set_name(self, path: str, file: _File | None, gone: str = "") -> None:
        if file is None:
            del self._names[path]
        else:
            self._names[path] = file
        if gone:
            del self._names[gone]
        entry = f"{gone}\0{path}" if gone else path
        self._pending.setdefault(os.path.dirname(path), []).append((entry, file))

    def _apply(self, entry: str, file: _File | None) -> None:
        gone, _, path = entry.rpartition("\0")
        if gone:
            self._synced_names.pop(gone, None)
        if file is None:
            self._synced_names.pop(path, None)
        else:
            self._synced_names[path] = file

    def crash(self, root: Path, target: Path, choose: Choose) -> None:
        """Make ``target`` what is found of ``root`` after a power failure."""
        for entries in self._pending.values():
            for entry, file in entries[: choose(len(entries) + 1)]:
                self._apply(entry, file)
        for directory, _, _ in os.walk(root):
            (target / os.path.relpath(directory, root)).mkdir(parents=True, exist_ok=True)
        for path, file in self._synced_names.items():
            (target / os.path.relpath(path, root)).write_bytes(self._surviving(file, choose))

    def _surviving(self, file: _File, choose: Choose) -> bytes:
        content = bytearray(file.synced)
        for at, data in file.pending:
            fate = choose(4)
            if data is None:
                if fate:
                    content[at:] = bytes(max(at - len(content), 0))
            elif fate:
                sectors = -(-len(data) // SECTOR)
                # All of it, its first sectors, or its last ones behind a hole.
                first = choose(sectors + 1) * SECTOR if fate == 2 else 0
                last = choose(sectors + 1) * SECTOR if fate == 1 else len(data)
                part = data[first:last]
                if part:
                    content.extend(bytes(max(at + first + len(part) - len(content), 0)))
                    content[at + first : at + first + len(part)] = part
        return bytes(content)
