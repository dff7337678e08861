"""The file systems that log directories are read from: the few calls that reading needs.

Paths are as the user gives them: local ones, ``file:`` URIs, ``hdfs://`` (through ``hdfs-native``; install the extra
``hdfs``), and the other schemes that ``pyarrow.fs`` knows (``s3://``, ``gs://``, ``abfs://``). They travel to executors
as text, and each process opens a file system of its own.
"""

from __future__ import annotations

import errno
import fnmatch
import functools
import io
import os
import stat
import threading
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import numpy as np


class Entry(NamedTuple):
    """A file or directory; ``modified`` is in ns where the file system has them, 0 where it has no time."""

    name: str
    path: str
    is_directory: bool
    size: int
    modified: int


class File(Protocol):
    """A file open for reading."""

    size: int
    """Bytes when it was opened."""

    def read(self, at: int, size: int) -> memoryview:
        """Up to ``size`` bytes from ``at`` on; fewer only at the file's end."""

    def close(self) -> None:
        """Let go of it."""


class FileSystem(Protocol):
    """What log directories lie on. All paths begin with the scheme if the user gave one."""

    is_local: bool

    def entry(self, path: str) -> Entry | None:
        """What lies at a path; None where nothing does."""

    def entries(self, directory: str) -> list[Entry]:
        """A directory's files and directories; FileNotFoundError where it is gone."""

    def open(self, path: str) -> File:
        """Open for reading; FileNotFoundError where it is gone."""


def file_system(path: str) -> FileSystem:
    """The file system that a path names. ValueError for a scheme that none serves, ImportError without its library."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file") or path.startswith("/"):
        return LOCAL
    return _remote(parts.scheme, parts.netloc)


@functools.cache
def _remote(scheme: str, authority: str) -> FileSystem:
    root = f"{scheme}://{authority}"
    if scheme == "hdfs":
        return HdfsFiles(root)
    return ArrowFiles(root)


# ---------------------------------------------------------------------------------------------- local


class LocalFile:
    """``pread`` into memory of our own: a mapping would kill the process where a broker truncates the file."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def read(self, at: int, size: int) -> memoryview:
        size = max(min(size, self.size - at), 0)
        view = memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type]
        filled = 0
        while filled < size:
            count = os.preadv(self._fd, [view[filled:]], at + filled)
            if count == 0:
                break
            filled += count
        return view[:filled]

    def close(self) -> None:
        os.close(self._fd)


class LocalFiles:
    """Files of this machine, or of what is mounted there."""

    is_local = True

    def entry(self, path: str) -> Entry | None:
        # Absolute: executors have other working directories, and what lies beside a directory is looked for as well.
        real = os.path.abspath(_local(path))
        try:
            found = os.stat(real)
        except (FileNotFoundError, NotADirectoryError):
            return None
        name = os.path.basename(real)
        return Entry(name, real, stat.S_ISDIR(found.st_mode), found.st_size, found.st_mtime_ns)

    def entries(self, directory: str) -> list[Entry]:
        found = []
        with os.scandir(_local(directory)) as children:
            for child in children:
                try:
                    info = child.stat()
                except FileNotFoundError:
                    continue  # removed meanwhile, or a link to nowhere
                found.append(Entry(child.name, child.path, stat.S_ISDIR(info.st_mode), info.st_size, info.st_mtime_ns))
        return sorted(found)

    def open(self, path: str) -> File:
        return LocalFile(_local(path))


def _local(path: str) -> str:
    return unquote(_split(path)[1]) if path.startswith("file:") else path


def _split(path: str) -> tuple[str, str]:
    """Scheme and authority (none for a plain path), and the path: as Hadoop, which knows neither queries nor fragments,
    so that ``?`` and ``#`` are parts of names."""
    if path.startswith("/"):
        return "", path
    scheme, colons, rest = path.partition("://")
    if colons:
        authority, slash, inside = rest.partition("/")
        return f"{scheme}://{authority}", slash + inside
    return ("file:", path.removeprefix("file:")) if path.startswith("file:") else ("", path)


LOCAL = LocalFiles()


# ---------------------------------------------------------------------------------------------- HDFS


class _HdfsFile:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.size = file.seek(0, io.SEEK_END)

    def read(self, at: int, size: int) -> memoryview:
        # One thread reads ahead while another looks at what is damaged.
        with self._lock:
            self._file.seek(at)
            return memoryview(self._file.read(max(min(size, self.size - at), 0)))

    def close(self) -> None:
        self._file.close()


class HdfsFiles:
    """HDFS, with the client that loads write with: no JVM and no libhdfs."""

    is_local = False

    def __init__(self, root: str) -> None:
        from spark_kafkalog.load.hdfs import HdfsFiles as Client

        self._client = Client(root)

    def entry(self, path: str) -> Entry | None:
        inside = _beneath(path)
        found = self._client.stat(inside)
        return None if found is None else self._entry(inside, found)

    def entries(self, directory: str) -> list[Entry]:
        inside = _beneath(directory)
        found = self._client.list(inside)
        if not found and self._client.stat(inside) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        return [self._entry(f"{inside.rstrip('/')}/{each.name}", each) for each in found]

    def open(self, path: str) -> File:
        return _HdfsFile(self._client.open(_beneath(path)))

    def _entry(self, inside: str, found: Any) -> Entry:
        name = inside.rpartition("/")[2]
        return Entry(name, self._client.url(inside), found.is_dir, found.size, found.modified_ms * 1_000_000)


def _beneath(path: str) -> str:
    """The path within the file system, as it is: Hadoop decodes nothing in it."""
    return _split(path)[1].rstrip("/") or "/"


# ---------------------------------------------------------------------------------------------- pyarrow.fs


class _ArrowFile:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = file.size()

    def read(self, at: int, size: int) -> memoryview:
        size = max(min(size, self.size - at), 0)
        return memoryview(self._file.read_at(size, at))

    def close(self) -> None:
        self._file.close()


class ArrowFiles:
    """Any file system of ``pyarrow.fs``."""

    is_local = False

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        try:
            self._fs, self._base = fs.FileSystem.from_uri(root + "/")
        except Exception as error:
            raise ValueError(f"no file system for {root}: {error}") from None
        self._root = root

    def entry(self, path: str) -> Entry | None:
        info = self._fs.get_file_info(self._inside(path))
        return None if info.type.name == "NotFound" else self._entry(info)

    def entries(self, directory: str) -> list[Entry]:
        from pyarrow import fs

        return sorted(self._entry(each) for each in self._fs.get_file_info(fs.FileSelector(self._inside(directory))))

    def open(self, path: str) -> File:
        return _ArrowFile(self._fs.open_input_file(self._inside(path)))

    def _inside(self, path: str) -> str:
        inside: str = self._base.rstrip("/") + path[len(self._root) :]
        return inside.rstrip("/") or inside

    def _entry(self, info: Any) -> Entry:
        path = self._root + info.path[len(self._base.rstrip("/")) :]
        return Entry(info.base_name, path, info.type.name == "Directory", info.size or 0, info.mtime_ns or 0)


# ---------------------------------------------------------------------------------------------- globs


def expand(pattern: str) -> list[Entry]:
    """What a path names, or all that a pattern (``*``, ``?``, ``[…]`` within names) matches, in order."""
    fs = file_system(pattern)
    named = fs.entry(pattern)
    if named is not None:
        return [named]
    head, *rest = _steps(pattern)
    found = fs.entry(head)
    return [] if found is None else list(_matching(fs, found, rest))


def _steps(pattern: str) -> list[str]:
    """The part without wildcards, then the names below it."""
    prefix, inside = _split(pattern)
    names = inside.split("/")
    first = next((at for at, name in enumerate(names) if _is_pattern(name)), len(names))
    head = prefix + "/".join(names[:first])
    below = [unquote(name) if prefix.startswith("file:") else name for name in names[first:] if name]
    return [head or ("/" if inside.startswith("/") else "."), *below]


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")


def _matching(fs: FileSystem, entry: Entry, names: list[str]) -> Iterator[Entry]:
    if not names:
        yield entry
        return
    if not entry.is_directory:
        return
    for child in fs.entries(entry.path):
        hidden = child.name.startswith(".") and not names[0].startswith(".")
        if not hidden and fnmatch.fnmatchcase(child.name, names[0]):
            yield from _matching(fs, child, names[1:])
