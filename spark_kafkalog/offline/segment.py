"""Walking over the batches of one segment file, whole or damaged.

A batch is believed once its header can be one, its bytes are all there and its checksum is right. Where that fails,
the file ends within a batch (None), is damaged (CorruptRecordError), or holds a message set of before Kafka 0.11
(OldFormatError).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

import numpy as np

from kafkalog.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_magic,
    read_header,
    verify_crc,
)
from kafkalog.records.checksum import crc32c
from kafkalog.records.errors import CorruptRecordError, RecordsError, UnsupportedMagicError

from .files import File

WINDOW = 128 * 1024
"""Bytes read at a time where only headers are wanted."""
SMALL_BYTES = 256
"""Batches up to this size are verified where only headers are wanted: markers that end transactions have 78 bytes."""
SEARCH_BYTES = 64 << 20
"""How far behind damage sound batches are searched for."""

_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_OLD_CRC = Struct(">I")
_OLD_HEADER_SIZE = 26


class OldFormatError(ValueError):
    """A segment holds message sets of format v0 or v1."""


class CorruptLogError(RuntimeError):
    """A segment is damaged before its end; the message names the file and the position."""


class Batches:
    """The batches of an open segment file of which ``end`` bytes count."""

    def __init__(self, file: File, path: str, end: int | None = None) -> None:
        self.file = file
        self.path = path
        self.end = file.size if end is None else min(end, file.size)
        self._window = memoryview(b"")
        self._at = 0

    def bytes_at(self, at: int, size: int) -> memoryview:
        """Up to ``size`` bytes at ``at``, from the window where they are in it."""
        size = min(size, self.end - at)
        if not self._at <= at or at + size > self._at + len(self._window):
            self._window = self.file.read(at, min(max(size, WINDOW), self.end - at))
            self._at = at
        return self._window[at - self._at : at - self._at + size]

    def header(self, at: int) -> BatchHeader | None:
        """The header of the batch at ``at``; None where the file ends before the batch does.

        Raises CorruptRecordError where no batch can be, OldFormatError for a whole message set of v0 or v1.
        """
        if self.end - at < HEADER_SIZE:
            self._refuse_old(at)
            return None
        try:
            header = read_header(self.bytes_at(at, HEADER_SIZE))
        except UnsupportedMagicError:
            self._refuse_old(at)
            raise CorruptRecordError("no record batch begins here") from None
        if header.last_offset_delta < 0 or header.base_offset < 0:
            raise CorruptRecordError(f"offsets from {header.base_offset} on with a delta of {header.last_offset_delta}")
        return header if at + header.size <= self.end else None

    def checked(self, at: int) -> BatchHeader | None:
        """``header``, once the batch's checksum was found right; CorruptRecordError where it is wrong."""
        header = self.header(at)
        if header is not None:
            verify_crc(self.bytes_at(at, header.size), 0, header)
        return header

    def is_batch(self, at: int, least: int, most: int) -> BatchHeader | None:
        """The header at ``at`` if a sound batch with ``least`` <= base offset < ``most`` begins there."""
        if not 0 <= at < self.end:
            return None
        try:
            header = self.header(at)
            if header is None or not least <= header.base_offset < most:
                return None
            return self.checked(at)
        except (RecordsError, OldFormatError):
            return None

    def headers(self, at: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each whole batch from ``at`` on, up to the first place where none is. Checksums are
        verified of batches up to SMALL_BYTES only."""
        while self.end - at >= HEADER_SIZE:
            window = self.file.read(at, min(WINDOW, self.end - at))
            last, pos = len(window) - HEADER_SIZE, 0
            while pos <= last:
                header = BatchHeader._make(_HEADER.unpack_from(window, pos))
                size = LOG_OVERHEAD + header.batch_length
                if header.magic != MAGIC or not HEADER_SIZE <= size <= self.end - at - pos:
                    return
                if header.last_offset_delta < 0 or header.base_offset < 0:
                    return
                if size <= SMALL_BYTES:
                    if pos + size > len(window):
                        break
                    if crc32c(window[pos + ATTRIBUTES_AT : pos + size]) != header.crc:
                        return
                yield at + pos, header
                pos += size
            at += pos
            if not pos:
                return

    def _refuse_old(self, at: int) -> None:
        """OldFormatError where a message of v0 or v1 with its checksum begins: a damaged batch looks like one, too."""
        if self.end - at < _OLD_HEADER_SIZE:
            return
        head = self.bytes_at(at, _OLD_HEADER_SIZE)
        magic = head[MAGIC_AT]
        size = LOG_OVERHEAD + _LENGTH.unpack_from(head, 8)[0]
        if magic not in (0, 1) or not _OLD_HEADER_SIZE <= size <= self.end - at:
            return
        if zlib.crc32(self.bytes_at(at, size)[MAGIC_AT:]) != _OLD_CRC.unpack_from(head, LOG_OVERHEAD)[0]:
            return
        try:
            check_magic(magic)
        except UnsupportedMagicError as error:
            raise OldFormatError(f"{self.path}: {error}") from None


def after_damage(batches: Batches, at: int, least: int, most: int, index: list[int], stop: int) -> int | None:
    """Where sound batches begin again behind the damaged one at ``at``, before ``stop``; None if nowhere known.

    ``index`` are positions that the offset index tells. Base offsets lie within [``least``, ``most``).
    """
    try:
        header = batches.header(at)
        if header is not None and at + header.size < stop and batches.is_batch(at + header.size, least, most):
            return at + header.size
    except (RecordsError, OldFormatError):
        pass
    behind = (position for position in index if at < position < stop)
    known = next((position for position in behind if batches.is_batch(position, least, most)), None)
    # An index has an entry for some batches only: there may be sound ones before the next.
    found = _search(batches, at + 1, least, most, stop if known is None else known)
    return known if found is None else found


def _search(batches: Batches, at: int, least: int, most: int, stop: int) -> int | None:
    """The next sound batch by its looks, within SEARCH_BYTES: the magic, an offset near by, then the checksum."""
    stop = min(stop, batches.end)
    for begin in range(at, min(stop, at + SEARCH_BYTES), WINDOW):
        window = np.frombuffer(batches.file.read(begin, min(WINDOW + HEADER_SIZE, batches.end - begin)), np.uint8)
        starts = len(window) - MAGIC_AT
        if starts <= 0:
            return None
        alike = window[MAGIC_AT:] == MAGIC
        alike[window[:starts] != least >> 56] = False
        for found in (np.flatnonzero(alike) + begin).tolist():
            if found < min(stop, begin + WINDOW) and batches.is_batch(found, least, most) is not None:
                return int(found)
    return None
