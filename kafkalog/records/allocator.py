"""Having the C library keep the memory that decompressing needs again and again.

A codec's output is a fresh block of a megabyte or so, freed once its records are decoded. By default glibc gives such
blocks back to the system and takes them anew, and the system clears every page each time: with lz4 in batches of
1 MiB that was 45 % of the time of a decode (183 ns a record, 100 ns without). Processes that do little else, such as
Spark's Python workers, ask for the memory to be kept.
"""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
KEPT_BYTES = 256 << 20
"""Freed memory at the end of the heap beyond this goes back to the system."""
HEAP_BLOCK_BYTES = 32 << 20
"""Larger blocks are mapped on their own, and given back; the most that glibc allows."""


def keep_freed_memory() -> bool:
    """Set it for this process; whether that could be done (glibc alone has the setting)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES))
