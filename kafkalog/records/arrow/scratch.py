"""Memory for decompressed batches; one group of batches after another uses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.compression import decompress_into
from kafkalog.records.kernels.abi import table as t

SCRATCH_BYTES = 512 * 1024
LIKELY_RATIO = 4
"""Few batches of any size expand to more times their size; memory for those is taken when they come."""
_NONE = np.empty(0, np.uint8)


class Scratch:
    """Decompressed sections, which stay until `clear` lets their memory be used again.

    Memory that is used again stays in the processor's cache and spares allocations: decoding snappy in batches of 16
    KiB takes two thirds of the time that it takes with a block of memory each.
    """

    def __init__(self, words: memoryview[int]) -> None:
        """Start without memory. `words` has the memory's address and used bytes; `unpack_batches` updates it too."""
        self._words = words
        self._full: list[Any] = []
        self._memory: np.ndarray[Any, np.dtype[np.uint8]] = _NONE
        self._view = self._memory.data

    def _take_memory(self, size: int) -> None:
        self._memory = np.empty(size, np.uint8)
        self._view = self._memory.data
        self._words[t.ROOM], self._words[t.ROOM_SIZE], self._words[t.ROOM_USED] = self._memory.ctypes.data, size, 0

    def _reserve(self, size: int) -> memoryview:
        used = self._words[t.ROOM_USED]
        if size > len(self._memory) - used:
            self._full.append(self._memory)
            # Take more than needed, since the next batch may be a little larger than this one.
            self._take_memory(max(size + size // 4 + t.SLACK, SCRATCH_BYTES))
            used = 0
        return self._view[used : used + size]

    def expect(self, codec: int, packed: int, max_size: int) -> None:
        """Reserve memory for batches like the first one, which has `packed` bytes; their true size is not known yet."""
        if codec:
            self._take_memory(min(max(LIKELY_RATIO * packed, SCRATCH_BYTES), max_size) + t.SLACK)

    def decompress(self, codec: int, packed: memoryview, max_size: int) -> tuple[int, int]:
        """Decompress `packed`; return the address and size of the result.

        Raises:
            RecordTooLargeError, CorruptRecordError, UnsupportedCompressionTypeError: `compression.decompress` raises
                them.
        """
        size = decompress_into(codec, packed, self._reserve, max_size)
        address = self._words[t.ROOM] + self._words[t.ROOM_USED]
        self._words[t.ROOM_USED] += size
        return address, size

    def clear(self) -> None:
        """Let the memory be used again."""
        self._full.clear()
        self._words[t.ROOM_USED] = 0
