"""A setting of the C library: keep freed memory in the process, for the next batch that is decompressed.

A codec's output is a new block of a megabyte or so, freed once its records are decoded. glibc returns large blocks to
the system when they are freed and takes them anew, and the system clears every page each time. It keeps some: its limit
becomes twice the largest block that was freed. A process that mostly decompresses may ask for more. The cost is that up
to as much freed memory stays with the process until it ends, whatever freed it.
"""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
HEAP_BLOCK_BYTES = 32 << 20
"""The largest block that glibc can be told to take from the heap. It maps larger ones, and gives them back."""
MOST_BYTES = (1 << 31) - 1
"""The largest setting: `mallopt` takes an int."""


def keep_freed_memory(most: int) -> bool:
    """Keep up to `most` bytes of freed memory at the end of the heap, for the rest of this process.

    Returns:
        Whether that could be set; only glibc has the setting.
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
