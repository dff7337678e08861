"""A disk that loses unsynced data at a power failure.

`RecordingOps` carries out a broker's file operations and records them in order. From the record a `Disk` makes images
of what a power failure leaves: any number of images, at any moment of one run.

The rules are POSIX's, which are harsher than those of any one file system. After a crash a file has the content of its
last fsync. Of each later write and truncation, independently, all, some of its sectors or nothing survives. A directory
has the names of its last fsync, and the first few of the later creations, renames and removals.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from broker.log.files.file_ops import Buffer, FileOps

Choose = Callable[[int], int]
"""`choose(n)` draws a number from 0 to n - 1, for the test."""

Entry = tuple[Any, ...]
"""One line of the record: an operation and its arguments. Files are named by inode, directories by path."""

SECTOR = 512


class _File:
    """The content at the last fsync, and later writes (position, bytes) and truncations (size, None)."""

    __slots__ = ("pending", "synced")

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = bytearray(synced)
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        for at, data in self.pending:
            _apply(self.synced, at, data)
        self.pending.clear()

    def surviving(self, choose: Choose) -> bytes:
        content = bytearray(self.synced)
        for at, data in self.pending:
            fate = choose(4)
            if fate == 0:
                continue
            if data is None or fate == 3:
                _apply(content, at, data)
                continue
            # Its first sectors, or its last ones behind a hole.
            middle = choose(-(-len(data) // SECTOR) + 1) * SECTOR
            part, start = (data[:middle], at) if fate == 1 else (data[middle:], at + middle)
            if part:
                _apply(content, start, part)
        return bytes(content)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is not None:
        content[at : at + len(data)] = data


class _Directory:
    """The current names, those at the last fsync, and the changes since; a change may have several names."""

    __slots__ = ("names", "pending", "synced")

    def __init__(self) -> None:
        self.names: dict[str, _File | _Directory] = {}
        self.synced: dict[str, _File | _Directory] = {}
        self.pending: list[dict[str, _File | _Directory | None]] = []

    def change(self, names: dict[str, _File | _Directory | None]) -> None:
        _change(self.names, names)
        self.pending.append(names)

    def sync(self) -> None:
        for names in self.pending:
            _change(self.synced, names)
        self.pending.clear()

    def surviving(self, choose: Choose) -> dict[str, _File | _Directory]:
        found = dict(self.synced)
        for names in self.pending[: choose(len(self.pending) + 1)]:
            _change(found, names)
        return found


def _change(names: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """The contents of `root` on a device, computed from the record of file operations."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._top = _Directory()
        self._files: dict[int, _File] = {}

    def play(self, entries: Iterable[Entry]) -> None:
        """Apply entries of the record; entries called `note` belong to the test."""
        for what, *arguments in entries:
            if what != "note":
                getattr(self, "_" + what)(*arguments)

    def image(self, target: Path, content: Choose, names: Choose | None = None) -> None:
        """Make `target`, which is not there yet, what is found of the directory after a power failure now.

        Args:
            content: draws what survives in files; for each write and cut a number below 4: 0 nothing, 1 its first
                sectors, 2 its last ones, 3 all.
            names: draws how many changes of names survive in each directory; `content` if it is not given.
        """
        self._write(self._top, target, content, names or content)

    def _write(self, directory: _Directory, target: Path, content: Choose, names: Choose) -> None:
        target.mkdir()
        for name, node in directory.surviving(names).items():
            if isinstance(node, _Directory):
                self._write(node, target / name, content, names)
            else:
                (target / name).write_bytes(node.surviving(content))

    # -- entries of the record -------------------------------------------------------------------------------

    def _find(self, path: str) -> _Directory:
        node: _Directory | _File = self._top
        relative = os.path.relpath(path, self.root)
        for part in relative.split(os.sep) if relative != "." else ():
            assert isinstance(node, _Directory)
            node = node.names[part]
        assert isinstance(node, _Directory), path
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        return self._find(os.path.dirname(path)), os.path.basename(path)

    def _adopt(self, path: str, inode: int, content: bytes | None) -> None:
        """Add a file, or with None a directory, that was on the device before the record began."""
        directory, name = self._parent(path)
        node: _File | _Directory = _Directory() if content is None else _File(content)
        if isinstance(node, _File):
            self._files[inode] = node
        directory.names[name] = directory.synced[name] = node

    def _create(self, path: str, inode: int) -> None:
        directory, name = self._parent(path)
        file = self._files[inode] = _File()
        directory.change({name: file})

    def _write_at(self, inode: int, position: int, data: bytes) -> None:
        self._files[inode].pending.append((position, data))

    def _cut(self, inode: int, size: int) -> None:
        self._files[inode].pending.append((size, None))

    def _fsync(self, inode: int) -> None:
        self._files[inode].sync()

    def _fsync_dir(self, path: str) -> None:
        # What lies above the root is not lost.
        if path.startswith(self.root):
            self._find(path).sync()

    def _rename(self, source: str, target: str) -> None:
        directory, old = self._parent(source)
        other, new = self._parent(target)
        assert directory is other, "a rename from one directory to another is not kept account of"
        # Both names in one change: a rename is atomic.
        directory.change({old: None, new: directory.names[old]})

    def _unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        directory.change({name: None})

    def _mkdir(self, path: str) -> None:
        directory, name = self._parent(path)
        directory.change({name: _Directory()})

    def _rmtree(self, path: str) -> None:
        directory, name = self._parent(path)
        self._empty(self._find(path))
        directory.change({name: None})

    def _empty(self, directory: _Directory) -> None:
        for name, node in list(directory.names.items()):
            if isinstance(node, _Directory):
                self._empty(node)
            directory.change({name: None})


class RecordingOps(FileOps):
    """Real file operations, written down; the real fsyncs are left out, for the record says what they are worth.

    Knows the files that were made through it and those found by `adopt`. May be used by several threads: what
    they do is done one at a time.

    Args:
        record: given each entry, in order.
    """

    __slots__ = ("_lock", "record")

    def __init__(self, record: Callable[[Entry], object]) -> None:
        self.record = record
        self._lock = Lock()

    def adopt(self, root: Path) -> None:
        """Regard everything in `root` as stored on the device."""
        for directory, directories, files in os.walk(root):
            for name in sorted(directories):
                self.record(("adopt", os.path.join(directory, name), 0, None))
            for name in sorted(files):
                path = os.path.join(directory, name)
                self.record(("adopt", path, os.stat(path).st_ino, Path(path).read_bytes()))

    def note(self, *what: Any) -> None:
        """Add an entry of the test to the record."""
        with self._lock:
            self.record(("note", *what))

    # -- the operations --------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        with self._lock:
            new = not os.path.exists(path)
            fd = super().open(path, flags, mode)
            if new:
                self.record(("create", path, os.fstat(fd).st_ino))
            elif flags & os.O_TRUNC:
                self.record(("cut", os.fstat(fd).st_ino, 0))
        return fd

    def pwrite(self, fd: int, data: Buffer, position: int, /) -> int:
        with self._lock:
            written = super().pwrite(fd, data, position)
            self.record(("write_at", os.fstat(fd).st_ino, position, bytes(memoryview(data)[:written])))
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        with self._lock:
            super().ftruncate(fd, size)
            self.record(("cut", os.fstat(fd).st_ino, size))

    def fsync(self, fd: int) -> None:
        with self._lock:
            self.record(("fsync", os.fstat(fd).st_ino))

    def fsync_dir(self, path: str) -> None:
        with self._lock:
            os.stat(path)
            self.record(("fsync_dir", path))

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            super().rename(source, target)
            self.record(("rename", source, target))

    def unlink(self, path: str) -> None:
        with self._lock:
            existed = os.path.exists(path)
            super().unlink(path)
            if existed:
                self.record(("unlink", path))

    def mkdir(self, path: str) -> None:
        with self._lock:
            super().mkdir(path)
            self.record(("mkdir", path))

    def rmtree(self, path: str) -> None:
        with self._lock:
            # First the record: afterwards it is not known what there was.
            self.record(("rmtree", path))
            super().rmtree(path)


class NoSync(FileOps):
    """Real file operations without fsync, for brokers whose disk does not fail."""

    __slots__ = ()

    def fsync(self, fd: int) -> None:
        return

    def fsync_dir(self, path: str) -> None:
        os.stat(path)


def write_record(path: Path) -> Callable[[Entry], None]:
    """Return a function that appends entries to a file, each in one write. A kill damages at most the last entry."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def record(entry: Entry) -> None:
        data = pickle.dumps(entry)
        os.write(fd, len(data).to_bytes(4, "big") + data)

    return record


def read_record(path: Path) -> Iterator[tuple[int, Entry]]:
    """Return `(position in the file after it, entry)` of each whole entry."""
    data = path.read_bytes()
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            return
        yield end, pickle.loads(data[at + 4 : end])
        at = end
