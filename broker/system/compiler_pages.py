"""Gives back the memory that loading compiled kernels leaves resident.

Loading compiled kernels touches some 80 MB of LLVM's code and constants once. Those pages belong to the
library's file and are mapped read-only. The operating system would drop them under memory pressure; `release` tells it
to drop them now. A page that is needed later is read from the file again.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_LIBRARY = "llvmlite"
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)")


def release() -> int:
    """Drop the resident pages of LLVM's code and constants; return the size of the ranges dropped (0 if not Linux)."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        libc = ctypes.CDLL(None)
        maps = Path("/proc/self/smaps").read_text()
    except OSError:
        return 0
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    told = 0
    for start, end in _unchanged(maps):
        if libc.madvise(start, end - start, _MADV_DONTNEED) == 0:
            told += end - start
    return told


def _unchanged(maps: str) -> Iterator[tuple[int, int]]:
    """Yield the mappings of the library that are read-only and unchanged, so that their pages equal the file's.

    Relocated data is also read-only after relocation, but its pages are anonymous and belong to the process.
    """
    found: tuple[int, int] | None = None
    for line in maps.splitlines():
        mapping = _MAPPING.fullmatch(line)
        if mapping is not None:
            start, end, access, name = mapping.groups()
            found = (int(start, 16), int(end, 16)) if access in ("r-xp", "r--p") and _LIBRARY in name else None
        elif found is not None and line.startswith("Anonymous:") and line.split()[1] == "0":
            yield found
