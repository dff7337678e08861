"""A setting of the C library: keep the memory that decompressing needs again and again.

A codec's output is a fresh block of a megabyte or so, freed once its records are decoded. glibc gives large blocks back
to the system when they are freed and takes them anew, and the system clears every page each time. It keeps some: its
limit becomes twice the largest block that was freed. A process that does little else than decompress may ask for more.
The cost: up to as much freed memory stays with the process for as long as it lives, whatever freed it.
"""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
HEAP_BLOCK_BYTES = 32 << 20
"""Larger blocks are mapped on their own, and given back; the most that glibc allows."""
MOST_BYTES = (1 << 31) - 1
"""The largest setting: ``mallopt`` takes an int."""


def keep_freed_memory(most: int) -> bool:
    """Keep up to ``most`` bytes of freed memory at the end of the heap, for the rest of this process.

    Returns:
        Whether that could be set: glibc alone has the setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    return bool(mallopt(_M_TRIM_THRESHOLD, min(most, MOST_BYTES))) and bool(
        mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
    )
