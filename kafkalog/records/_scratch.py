"""Memory that batches are decompressed to, one group of them after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compression import Buffer, Codec, decompress, decompress_into, decompressed_bound

SCRATCH_BYTES = 512 * 1024
"""Two groups of `arrow.GROUP_BYTES`, so that batches of ordinary size never end a group early."""


class Scratch:
    """Decompressed sections side by side, until `clear` lets the memory be used again.

    Using the same memory again keeps it in the processor's cache, and spares allocations: decoding snappy in batches of
    16 KiB takes two thirds of the time that it takes with a block of memory each.
    """

    def __init__(self) -> None:
        self._take_memory(0)
        self._packed = memoryview(b"")
        self._codec = self._needed = 0
        self._plain: Buffer | None = None

    def _take_memory(self, size: int) -> None:
        memory = np.empty(size, np.uint8)
        # numpy's arrays are buffers, though mypy cannot see it.
        view: Any = memory
        self._view = memoryview(view)
        self._address: int = memory.ctypes.data
        self._size = size
        self._used = 0

    def prepare(self, codec: int, packed: memoryview, max_size: int) -> int:
        """Take `packed` to be decompressed next; how much room that needs. Raises as `compression.decompress` does."""
        self._codec, self._packed = codec, packed
        if codec in (Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            self._plain = None
            self._needed = decompressed_bound(codec, packed, max_size)
        else:
            # gzip says nothing of what comes out, and takes so long that a copy is nothing beside it.
            self._plain = decompress(codec, packed, max_size)
            self._needed = len(self._plain)
        return self._needed

    def has_room(self, needed: int) -> bool:
        return self._used + needed <= self._size

    def clear(self, needed: int = 0) -> None:
        """Use the memory again, and have so much."""
        self._used = 0
        if needed > self._size:
            self._take_memory(max(needed, SCRATCH_BYTES))

    def decompress(self) -> tuple[int, int]:
        """Address and size of what was prepared, decompressed."""
        room = self._view[self._used : self._used + self._needed]
        if self._plain is None:
            size = decompress_into(self._codec, self._packed, room)
        else:
            size = len(self._plain)
            room[:] = self._plain
        address = self._address + self._used
        self._used += size
        return address, size
