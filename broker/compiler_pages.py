"""Giving back the memory that loading compiled kernels leaves resident.

Taking the kernels from numba's cache runs through some 50 MB of LLVM's code once. Those pages are the file's, mapped
read-only; the kernel would drop them under pressure, and here it is told at once that they are no longer wanted. A
page that is wanted after all is read from the file again.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_MADV_DONTNEED = 4
_LIBRARY = "llvmlite"


def release() -> int:
    """Drop the resident pages of LLVM's code; returns the bytes of code that were told. Linux only, else 0.

    Only mappings that can be executed and not written are told: their pages are as in the file, which relocated data
    is not.
    """
    if not sys.platform.startswith("linux"):
        return 0
    try:
        libc = ctypes.CDLL(None)
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return 0
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    told = 0
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1] == "r-xp" and _LIBRARY in fields[5]:
            start, end = (int(bound, 16) for bound in fields[0].split("-"))
            if libc.madvise(start, end - start, _MADV_DONTNEED) == 0:
                told += end - start
    return told
