"""The few things that a load needs of a file system, and the local one. HDFS is in ``hdfs``.

What exactly-once stands on is :meth:`Files.rename`: it happens at once or not at all, and fails where the target
exists, be it an empty directory. ``rename(2)`` alone would replace an empty directory, therefore Linux is asked by
``renameat2(RENAME_NOREPLACE)`` and macOS by ``renamex_np(RENAME_EXCL)``. A file system without these flags (some NFS)
gets the check and then ``rename``: a directory that holds anything makes that fail as well, and every published load
holds its ``_offsets.json``, so that two loads can still not publish under one name.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import io
import os
import shutil
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from typing_extensions import Buffer

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class Entry(NamedTuple):
    """One name of a directory. ``modified_ms`` by the file system's own clock."""

    name: str
    is_dir: bool
    size: int
    modified_ms: int


class Files(ABC):
    """A file system. Paths are absolute within it; objects go to the executors by pickle.

    Failures are OSErrors: FileNotFoundError, FileExistsError, PermissionError, or a plain one with the reason.
    """

    @abstractmethod
    def url(self, path: str) -> str:
        """How Spark names ``path``."""

    @abstractmethod
    def create(self, path: str) -> io.RawIOBase:
        """A new file to write; what is written is on the device once ``close`` returns.

        FileExistsError where there is one; FileNotFoundError where its directory is missing.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Write a small file anew, by which it gets a new modification time. Its directory must be there."""

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """A file to read, with ``seek``."""

    @abstractmethod
    def make_directories(self, path: str) -> None:
        """A directory and those above it, where they are missing."""

    @abstractmethod
    def list(self, path: str) -> list[Entry]:
        """The names in a directory, in their order; none where it is missing."""

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """What is known of a path; None where nothing is there."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Move a file or directory at once. FileExistsError where the target exists, in which case nothing changes."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it. Nothing happens where it is missing."""

    @abstractmethod
    def remove_empty(self, path: str) -> None:
        """Remove a directory if it is there and empty."""

    @abstractmethod
    def sync_tree(self, path: str) -> None:
        """Have the names in a directory, and in those below it, on the device."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """Have the names in one directory on the device."""

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self.open(path) as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """A new small file with this content."""
        with self.create(path) as file:
            file.write(data)


class UnsupportedUrlError(ValueError):
    """A target that no loads can go to."""


def open_files(to: str) -> tuple[Files, str]:
    """The file system of ``--to`` and the path in it; UnsupportedUrlError for other kinds of targets."""
    if "://" not in to and not to.startswith("file:"):
        if not to:
            raise UnsupportedUrlError("--to is empty; name a directory or hdfs://host:port/directory")
        return LocalFiles(), str(Path(to).absolute())
    parts = urlsplit(to)
    path = unquote(parts.path).rstrip("/") or "/"
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UnsupportedUrlError(f"{to}: names the host {parts.netloc}; write file:///directory")
        return LocalFiles(), path
    if parts.scheme == "hdfs":
        from .hdfs import HdfsFiles

        # As Hadoop's Path takes it: nothing is encoded in it, and nothing ends it.
        address, _, path = to.partition("://")[2].partition("/")
        return HdfsFiles(f"hdfs://{address}"), "/" + path.strip("/")
    raise UnsupportedUrlError(
        f"{to}: loads go to hdfs://host:port/directory, file:///directory or /directory. They stand on a rename of "
        f"directories that happens at once and fails where the target exists, which {parts.scheme}:// is not known for"
    )


class _Output(io.RawIOBase):
    """A new local file that is forced to the device when it is closed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.write(self._file, view[done:])
        return done

    def close(self) -> None:
        if self.closed:
            return
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
            super().close()


@dataclass(frozen=True)
class LocalFiles(Files):
    """Directories of this machine, or mounted on it; executors on other machines must see the same."""

    def url(self, path: str) -> str:
        return Path(path).as_uri()

    def create(self, path: str) -> io.RawIOBase:
        return _Output(path)

    def replace(self, path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb")

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def list(self, path: str) -> list[Entry]:
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    found.append(_entry(entry.name, entry.stat()))
        return sorted(found)

    def stat(self, path: str) -> Entry | None:
        try:
            return _entry(os.path.basename(path), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def rename(self, source: str, target: str) -> None:
        try:
            _rename_without_replacing(source, target)
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target) from None
            raise

    def delete(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def remove_empty(self, path: str) -> None:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def sync_tree(self, path: str) -> None:
        for directory, _, _ in os.walk(path):
            self.sync(directory)

    def sync(self, path: str) -> None:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(name, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime_ns // 1_000_000)


# ---------------------------------------------------------------------------------------------- rename


def _rename_without_replacing(source: str, target: str) -> None:
    by_flag = _by_flag()
    if by_flag is not None:
        code = by_flag(os.fsencode(source), os.fsencode(target))
        if code == 0:
            return
        if code not in _UNSUPPORTED:
            raise OSError(code, os.strerror(code), source, None, target)
    rename_with_check(source, target)


def rename_with_check(source: str, target: str) -> None:
    """Where there is no flag for it: look, and rename. Another's empty directory may be replaced, a full one never."""
    if os.path.lexists(target):
        if _is_half_done(source, target):
            os.unlink(source)
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    if os.path.isdir(source):
        os.rename(source, target)
    else:
        # A file would be replaced; a second link is not made where the name is taken.
        os.link(source, target)
        os.unlink(source)


def _is_half_done(source: str, target: str) -> bool:
    """Whether whoever renamed this file was killed between its two steps: both names are links to it."""
    try:
        first, second = os.lstat(source), os.lstat(target)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(first.st_mode) and first.st_nlink > 1 and os.path.samestat(first, second)


@functools.cache
def _by_flag() -> Callable[[bytes, bytes], int] | None:
    """The rename of this system that does not replace; it returns the error's number."""
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):

        def rename_on_macos(source: bytes, target: bytes) -> int:
            return ctypes.get_errno() if library.renamex_np(source, target, ctypes.c_uint(_RENAME_EXCL)) else 0

        return rename_on_macos
    if sys.platform.startswith("linux") and hasattr(library, "renameat2"):

        def rename_on_linux(source: bytes, target: bytes) -> int:
            failed = library.renameat2(_AT_FDCWD, source, _AT_FDCWD, target, ctypes.c_uint(_RENAME_NOREPLACE))
            return ctypes.get_errno() if failed else 0

        return rename_on_linux
    return None
