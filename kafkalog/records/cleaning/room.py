"""Memory to decompress batches to, and the uncompressed records of one batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.records.batch import HEADER_SIZE, MIN_RECORD_SIZE, BatchHeader, read_header, records_section
from kafkalog.records.compression import Codec, decompress_into
from kafkalog.records.errors import InvalidRecordError
from kafkalog.records.kernels.abi import clean_layout as c

ROOM_BYTES = 1 << 20
"""Initial memory to decompress to: enough for batches of the usual sizes, and for the records that stay."""
MOST_ROOM_BYTES = 32 << 20
"""Memory that is kept from one batch to the next; a larger batch gets memory of its own."""


class Room:
    """Memory that one batch after another is decompressed to, with as much again for the rewritten batch.

    It stays in the processor's caches that way, and its pages are not requested again.
    """

    def __init__(self) -> None:
        # numpy does not write zeros to the pages of an empty array, so unused pages take no memory.
        self.array = np.empty(ROOM_BYTES, np.uint8)
        self._view = self.array.data
        self._rest = np.empty(0, np.uint8)

    def reserve(self, size: int) -> memoryview:
        """Return memory of so many bytes."""
        if size > len(self.array):
            memory = np.empty(size, np.uint8)
            if size > MOST_ROOM_BYTES:
                return memory.data
            self.array, self._view = memory, memory.data
        return self._view[:size]

    def expect(self, size: int, count: int) -> None:
        """Grow so that the kernels can handle a batch of this many bytes and records, unless that is too large."""
        needed = 2 * (size + c.SLACK) + c.GROWTH * count
        if len(self.array) < needed <= MOST_ROOM_BYTES:
            # Take more than this batch needs, since the next one may be a little larger.
            self.reserve(min(needed + needed // 4, MOST_ROOM_BYTES))

    def rest(self, size: int) -> Any:
        """Return other memory than `reserve`, of at least so many bytes."""
        if size > len(self._rest):
            memory = np.empty(max(size, ROOM_BYTES), np.uint8)
            if size > MOST_ROOM_BYTES:
                return memory
            self._rest = memory
        return self._rest


def uncompressed(data: Any, pos: int, header: BatchHeader, room: Room) -> tuple[Any, int, int]:
    """Return a buffer with the batch's uncompressed records, and their start and end.

    For some codecs the buffer is `room`'s.
    """
    start, end = pos + HEADER_SIZE, pos + header.size
    if header.codec in (Codec.SNAPPY, Codec.ZSTD) and start < end:
        # The other codecs' libraries allocate memory in any case.
        into: list[memoryview] = []

        def reserve(size: int) -> memoryview:
            into.append(room.reserve(size))
            return into[0]

        size = decompress_into(header.codec, memoryview(data)[start:end], reserve)
        section: Any = into[0]
        start, end = 0, size
    else:
        section, start, end = records_section(data, pos, header)
    if header.codec in (Codec.SNAPPY, Codec.LZ4):
        room.expect(end - start, header.records_count)
    if not 0 <= header.records_count * MIN_RECORD_SIZE <= end - start:
        raise InvalidRecordError(f"{header.records_count} records cannot be in {end - start} bytes")
    return section, start, end


def not_records(data: Any, pos: int) -> InvalidRecordError:
    header = read_header(data, pos)
    return InvalidRecordError(f"the batch at offset {header.base_offset} does not hold the records it states")
