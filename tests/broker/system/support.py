"""Files that are dropped from the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path

from broker.system.page_cache import resident


def evict(path: Path) -> bool:
    """Drop the file from the page cache; whether that could be done. Asking has the kernel read the asked for ahead."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return found_cold(path, lambda: not resident(fd, 0, os.fstat(fd).st_size))
    finally:
        os.close(fd)


def found_cold(path: Path, ask: Callable[[], bool]) -> bool:
    """Return whether `ask` finds the dropped file to be on the disk, at one of some attempts.

    The kernel begins to read what it was asked for, so where the disk is quick or the test is put aside in between, a
    file on the disk is found in memory.
    """
    return any(drop(path) and ask() for _ in range(20))


def drop(path: Path) -> bool:
    """Drop the file from the page cache and see that no page is left; false for tmpfs, and pages that are mapped."""
    if not hasattr(os, "posix_fadvise"):
        return False
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        for _ in range(20):
            # What is being read ahead is not dropped, nor is it counted: have it arrive first.
            while os.read(fd, 1 << 20):
                pass
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if not pages_in_memory(fd):
                return True
        return False
    finally:
        os.close(fd)


def pages_in_memory(fd: int) -> int:
    """By mincore(2), which has nothing read ahead."""
    size = os.fstat(fd).st_size
    if not size:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    found = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    with mmap.mmap(fd, size) as mapped:
        view = (ctypes.c_char * size).from_buffer(mapped)
        try:
            if libc.mincore(ctypes.addressof(view), size, found) != 0:
                raise OSError(ctypes.get_errno(), "mincore")
        finally:
            del view
    return sum(page & 1 for page in found.raw)
