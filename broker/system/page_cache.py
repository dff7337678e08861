"""Whether bytes of a file are in memory, and getting them there.

A read of pages that are not in the page cache waits for the disk, be it by ``pread``, ``sendfile`` or a map, and with
it would wait the event loop and every client on it. So the loop asks first, and has a worker thread read what is
missing (docs/architecture.md, decision 3).
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
"""Where the kernel reads no further ahead than this (128 KiB unless told otherwise), it is told what will be wanted."""
_REFUSED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_KERNEL_PIECE = 128 << 10
_STEP = 128 << 10
"""The kernel reads ahead in stretches of so many bytes, and more where a file is read on and on."""


class _Scratch(threading.local):
    """A buffer a thread: nobody looks at what is read in, and fresh memory for each piece costs more than the copy."""

    def __init__(self) -> None:
        self.buffer = bytearray(0)


_scratch = _Scratch()


def resident(fd: int, position: int, length: int) -> bool:
    """Whether the bytes can be read without waiting for the disk.

    Looked at are the first, the last, and one of each stretch that the kernel reads ahead. True where the system cannot
    tell: macOS, and file systems without RWF_NOWAIT.
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
    """`resident` for every page of the first ``length`` bytes of a small file, all by default; it is read for it.

    True for a file that cannot be opened: who reads it learns why.
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
    """What ``os.pread`` gives, if the disk is not needed for it; it may be less than there is.

    Raises:
        BlockingIOError: the disk is needed.
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
    """Have the bytes read into the page cache. Blocks: for a worker's thread.

    Raises:
        OSError: the disk failed.
    """
    end = position + length
    if hasattr(os, "posix_fadvise") and _kernel_window(os.fstat(fd).st_dev) < _SMALL_WINDOW:
        # In pieces, for of each no more than the device's optimal size is read.
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
    """/dev/null, for ``sendfile``: pages are read and not copied, at a tenth of a read's processor time. -1 where
    ``sendfile`` goes to sockets only.
    """
    if not sys.platform.startswith("linux"):
        return -1
    try:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return -1


@cache
def _kernel_window(device: int) -> int:
    """Bytes that the kernel reads ahead on a device; 0 if it does not tell."""
    try:
        with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb", "rb") as file:
            return int(file.read()) << 10
    except (OSError, ValueError):
        return 0


def read_in_file(path: str) -> None:
    """`read_in` of a whole file; one that is gone is no error.

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
