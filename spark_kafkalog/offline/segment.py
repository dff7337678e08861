"""Iterates over the batches of one segment file, whole or damaged.

A batch is valid if its header is plausible, all its bytes exist and its checksum is right. Otherwise the file ends
within a batch (None) or is damaged (CorruptRecordError). A message of formats v0 and v1 counts as a batch, too, with a
header made for it (`kafkalog.records.any_format`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from kafkalog.records.any_format import header_is_there, read_any_header, verify_any_crc
from kafkalog.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchHeader
from kafkalog.records.errors import CorruptRecordError, RecordsError, UnsupportedMagicError
from kafkalog.records.legacy.message_set import MIN_SIZES
from kafkalog.storage import batch_walk
from spark_kafkalog.fs.interface import File

WINDOW = 128 * 1024
"""Bytes read at a time if only headers are needed."""
SMALL_BYTES = 256
"""Batches up to this size are verified even if only headers are needed: transaction markers have 78 bytes."""
SEARCH_BYTES = 64 << 20
"""The number of bytes behind damage that are searched for valid batches."""


class Batches:
    """Reads the batches in the first `end` bytes of an open segment file."""

    def __init__(self, file: File, path: str, end: int | None = None) -> None:
        self.file = file
        self.path = path
        self.end = file.size if end is None else min(end, file.size)
        self._window = memoryview(b"")
        self._at = 0

    def bytes_at(self, at: int, size: int) -> memoryview:
        """Return up to `size` bytes at `at`, from the window if it has them."""
        size = min(size, self.end - at)
        if not self._at <= at or at + size > self._at + len(self._window):
            self._window = self.file.read(at, min(max(size, WINDOW), self.end - at))
            self._at = at
        return self._window[at - self._at : at - self._at + size]

    def header(self, at: int) -> BatchHeader | None:
        """Return the header of the batch at `at`; None if the file ends before the batch does.

        Raises:
            CorruptRecordError: The bytes cannot be a batch.
        """
        head = self.bytes_at(at, HEADER_SIZE) if at < self.end else memoryview(b"")
        if not header_is_there(head, 0, len(head)):
            return None
        try:
            header = read_any_header(head)
        except UnsupportedMagicError:
            raise CorruptRecordError("no record batch begins here") from None
        if header.last_offset_delta < 0 or header.base_offset < 0:
            raise CorruptRecordError(f"offsets from {header.base_offset} on with a delta of {header.last_offset_delta}")
        return header if at + header.size <= self.end else None

    def checked(self, at: int) -> BatchHeader | None:
        """Return the header and verify the batch's checksum.

        Raises:
            CorruptRecordError: The checksum is wrong.
        """
        header = self.header(at)
        if header is not None:
            verify_any_crc(self.bytes_at(at, header.size), 0, header)
        return header

    def is_batch(self, at: int, least: int, most: int) -> BatchHeader | None:
        """Return the header at `at` if a valid batch with `least` <= base offset < `most` begins there."""
        if not 0 <= at < self.end:
            return None
        try:
            header = self.header(at)
            if header is None or not least <= header.base_offset < most:
                return None
            return self.checked(at)
        except RecordsError:
            return None

    def headers(self, at: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each whole batch from `at` on, until one is invalid.

        Only the checksums of batches up to SMALL_BYTES are verified.
        """
        walk = batch_walk.headers(self._read, at, self.end, chunk_bytes=WINDOW, verified_bytes=SMALL_BYTES)
        with suppress(RecordsError):
            for place, header in walk:
                if header.last_offset_delta < 0 or header.base_offset < 0:
                    return
                yield place, header

    def _read(self, size: int, at: int) -> memoryview:
        return self.file.read(at, size)


def after_damage(batches: Batches, at: int, least: int, most: int, index: list[int], stop: int) -> int | None:
    """Find the next valid batch behind the damaged one at `at` and before `stop`; None if none is found.

    `index` has the positions in the offset index. Base offsets lie within [`least`, `most`).
    """
    try:
        header = batches.header(at)
        if header is not None and at + header.size < stop and batches.is_batch(at + header.size, least, most):
            return at + header.size
    except RecordsError:
        pass
    behind = (position for position in index if at < position < stop)
    known = next((position for position in behind if batches.is_batch(position, least, most)), None)
    # An index has entries for some batches only: there may be valid ones before the next entry.
    found = _search(batches, at + 1, least, most, stop if known is None else known)
    return known if found is None else found


def _search(batches: Batches, at: int, least: int, most: int, stop: int) -> int | None:
    """Search SEARCH_BYTES for the next valid batch.

    A candidate must have the magic, a plausible offset, for v0 and v1 a plausible size, and a valid checksum.
    """
    stop = min(stop, batches.end)
    for begin in range(at, min(stop, at + SEARCH_BYTES), WINDOW):
        window = np.frombuffer(batches.file.read(begin, min(WINDOW + HEADER_SIZE, batches.end - begin)), np.uint8)
        starts = len(window) - MAGIC_AT
        if starts <= 0:
            return None
        magics = window[MAGIC_AT:]
        # Runs of zeros are common, and look like magic 0 and most of an offset. So such a match needs a size, too.
        sizes = np.zeros(starts, np.int64)
        for byte in range(8, 12):
            sizes = sizes << 8 | window[byte : byte + starts]
        alike = (magics == MAGIC) | ((magics < MAGIC) & (sizes >= MIN_SIZES[0]) & (sizes <= batches.end - begin))
        alike[window[:starts] != least >> 56] = False
        for found in (np.flatnonzero(alike) + begin).tolist():
            if found < min(stop, begin + WINDOW) and batches.is_batch(found, least, most) is not None:
                return int(found)
    return None
