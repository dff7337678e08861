"""The few file-system calls that can lose data, behind one small object.

Everything in `broker.log` that writes, cuts, syncs, renames or removes goes through a `FileOps`. So a test can pass a
subclass that fails a chosen call (ENOSPC in the third write, EIO in the next fsync), or that loses what was not synced,
and run the real log with it. Reads call `os.pread` directly.

The callers keep these rules of durability:

* The bytes of a file are safe after `fsync` of the file; its name is safe after `fsync_dir` of its
  directory.
* A checkpoint that vouches for bytes is written only after those bytes were synced.
* A failed fsync is never retried: the kernel may have dropped the dirty pages, and the second call would succeed
  without them. The log goes offline.
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

Buffer = bytes | bytearray | memoryview

# Some file systems refuse fsync on a directory; their metadata is then synchronous or not syncable at all.
_DIR_SYNC_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write for which there is no room. The file has not changed, and a later write may succeed."""


class FileOps:
    """Make the calls of the operating system. All of them may raise `OSError`."""

    __slots__ = ()

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """Open `path` and return its descriptor, which child processes do not inherit."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    if TYPE_CHECKING:

        def pwrite(self, fd: int, data: Buffer, position: int, /) -> int:
            """Write at a position and return the number of bytes written, which may be less than all."""
            return os.pwrite(fd, data, position)

    else:
        # The call itself, without a Python frame around it, because every append makes it.
        pwrite = staticmethod(os.pwrite)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut or extend the file to `size` bytes; an extension is a hole that reads as zeros."""
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        """Force the file's bytes and size to the device."""
        os.fsync(fd)

    def fsync_dir(self, path: str) -> None:
        """Force the names in the directory `path` to the device."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _DIR_SYNC_UNSUPPORTED:
                raise
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing `target`."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file. It is no error if there is none."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def mkdir(self, path: str) -> None:
        """Make a directory whose parent exists. Its name is safe after `fsync_dir` of the parent."""
        os.mkdir(path)

    def rmtree(self, path: str) -> None:
        """Remove a directory and everything in it, as far as possible; errors are ignored."""
        shutil.rmtree(path, ignore_errors=True)


OS = FileOps()


def write_all(ops: FileOps, fd: int, data: Buffer, position: int) -> None:
    """Write every byte of `data` at `position`; go on after short writes."""
    written = ops.pwrite(fd, data, position)
    if written == len(data):
        return
    view: Any = memoryview(data)
    while written < len(view):
        count = ops.pwrite(fd, view[written:], position + written)
        if count == 0:
            raise OSError(errno.EIO, "write wrote nothing")
        written += count


def make_directories(ops: FileOps, path: str) -> None:
    """Make the directory `path` and its missing parents, and force each name to the device."""
    missing = []
    while not os.path.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        ops.mkdir(directory)
        ops.fsync_dir(os.path.dirname(directory))


def write_file_atomically(ops: FileOps, path: str, data: bytes, *, sync_dir: bool = True, sync: bool = True) -> None:
    """Replace the content of the file at `path`; a crash leaves the old or the new content and never a mixture.

    The data is written to `path + ".tmp"`, synced and renamed; with `sync_dir` the directory is synced, too.
    Without `sync` nothing is synced: a crash of the process leaves the old or the new content, but a power failure
    may leave an empty file.
    """
    temporary = path + ".tmp"
    fd = ops.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(ops, fd, data, 0)
        if sync:
            ops.fsync(fd)
    finally:
        os.close(fd)
    ops.rename(temporary, path)
    if sync and sync_dir:
        ops.fsync_dir(os.path.dirname(path) or ".")
