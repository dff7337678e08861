"""Checks whether bytes of a file are in the page cache, and reads them into it.

Reading pages that are not in the page cache, by `pread`, `sendfile` or a memory map, waits for the disk. On the
event loop, every client would wait with it. So the loop checks first, and a worker thread reads what is missing
(docs/architecture.md, decision 3).
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from functools import cache

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_TELL = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
_PIECE = 1 << 20
_SMALL_WINDOW = 1 << 20
"""If the kernel's read-ahead (128 KiB by default) is smaller than this, `read_in` announces the range to the kernel."""
_REFUSED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_KERNEL_PIECE = 128 << 10
_STEP = 128 << 10
"""The kernel reads ahead at least this many bytes, and more for sequential reads."""


class _Scratch(threading.local):
    """A buffer for each thread. Its contents are never used, and new memory for each read costs more than the copy."""

    def __init__(self) -> None:
        self.buffer = bytearray(0)


_scratch = _Scratch()


def resident(fd: int, position: int, length: int) -> bool:
    """Return whether the bytes can be read without waiting for the disk.

    Checks the first byte, the last, and one in each range of `_STEP` bytes. Returns True if the system cannot tell: on
    macOS, and on file systems without RWF_NOWAIT.
    """
    if not _NOWAIT or length <= 0:
        return True
    probe = [bytearray(1)]
    last = position + length - 1
    try:
        for at in range(position, last, _STEP):
            os.preadv(fd, probe, at, _NOWAIT)
        os.preadv(fd, probe, last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def file_resident(path: str, length: int | None = None) -> bool:
    """Return whether all of the first `length` bytes of a small file (default: the whole file) are in memory.

    The check reads them. Returns True for a file that cannot be opened, because reading it will report the error.
    """
    if not _NOWAIT:
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        length = os.fstat(fd).st_size if length is None else length
        buffer = _buffer(min(length, _PIECE))
        position = 0
        while position < length:
            count = os.preadv(fd, [buffer[: length - position]], position, _NOWAIT)
            if count == 0:
                return True
            position += count
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
    return True


def pread_resident(fd: int, length: int, position: int) -> bytes:
    """Read like `os.pread`, but only from the page cache; the result may be shorter than requested.

    Raises:
        BlockingIOError: the bytes are not in the page cache.
        OSError: the disk failed.
    """
    if _NOWAIT:
        data = bytearray(length)
        try:
            count = os.preadv(fd, [data], position, _NOWAIT)
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
        else:
            return bytes(memoryview(data)[:count])
    return os.pread(fd, length, position)


def read_in(fd: int, position: int, length: int) -> None:
    """Read the bytes into the page cache. Blocks; call it on a worker's thread.

    Raises:
        OSError: the disk failed.
    """
    end = position + length
    if hasattr(os, "posix_fadvise") and _kernel_window(os.fstat(fd).st_dev) < _SMALL_WINDOW:
        # In pieces, because the kernel reads at most the device's optimal size for each call.
        for at in range(position, end, _KERNEL_PIECE):
            os.posix_fadvise(fd, at, min(_KERNEL_PIECE, end - at), os.POSIX_FADV_WILLNEED)
    sink = _sink()
    if sink >= 0:
        try:
            while position < end and (count := os.sendfile(sink, fd, position, end - position)):
                position += count
            return
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
    if not hasattr(os, "preadv"):
        while position < end and (count := len(os.pread(fd, min(_PIECE, end - position), position))):
            position += count
        return
    buffer = _buffer(min(length, _PIECE))
    while position < end:
        count = os.preadv(fd, [buffer[: end - position]], position)
        if count == 0:
            return
        position += count


@cache
def _sink() -> int:
    """Open /dev/null as a target of `sendfile`; -1 if `sendfile` can only send to sockets.

    Sending pages there reads them without a copy, at a tenth of the processor time of a read.
    """
    if not sys.platform.startswith("linux"):
        return -1
    try:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return -1


@cache
def _kernel_window(device: int) -> int:
    """Return how many bytes the kernel reads ahead on a device; 0 if unknown."""
    try:
        with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb", "rb") as file:
            return int(file.read()) << 10
    except (OSError, ValueError):
        return 0


def read_in_file(path: str) -> None:
    """Read a whole file into the page cache; do nothing if it no longer exists.

    Raises:
        OSError: the disk failed.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        read_in(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _buffer(size: int) -> memoryview:
    if len(_scratch.buffer) < size:
        _scratch.buffer = bytearray(size)
    return memoryview(_scratch.buffer)[:size]
