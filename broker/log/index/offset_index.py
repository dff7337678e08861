"""The offset index of a segment, `.index`; `kafkalog.storage.index_entries` describes the format."""

from __future__ import annotations

from broker.log.index.index_file import BLOCK_BYTES, CorruptIndexError, IndexFile
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, RELATIVE_OFFSET


class OffsetIndex(IndexFile):
    """Look up positions by offset in one segment. Entries are in the order of their offsets."""

    ENTRY_SIZE = OFFSET_ENTRY.size

    __slots__ = ()

    def _check_loaded(self) -> None:
        """Check that a trimmed index can end with the last entry.

        Raises:
            CorruptIndexError: none can.
        """
        count = self.entries
        if count == 0:
            return
        relative, position = self._entry(count - 1)
        # A file that was not trimmed ends with zeros, and so does one whose last block was lost. No entry is all zeros,
        # because the first batch has none.
        if relative <= 0 or position <= 0:
            raise CorruptIndexError(f"{self.path}: last of {count} entries is ({relative}, {position})")

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch at `position` ends with `offset`.

        Raises:
            CorruptIndexError: `offset` lies outside of the segment's range.
        """
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise CorruptIndexError(f"{self.path}: offset {offset} cannot be relative to {self.base_offset}")
        pending = self._tail[1]
        pending += OFFSET_ENTRY.pack(relative, position)
        if len(pending) >= BLOCK_BYTES:
            self._spill()

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return `(offset, position)` of the last entry at or before `offset`; `(base offset, 0)` if none is."""
        view, written, pending = self._view()
        target = offset - self.base_offset
        if pending and RELATIVE_OFFSET.unpack_from(pending, 0)[0] <= target:
            slot = _floor(pending, len(pending), target)
            relative, position = OFFSET_ENTRY.unpack_from(pending, slot)
        else:
            slot = _floor(view, written, target) if written else -1
            if slot < 0:
                return self.base_offset, 0
            relative, position = OFFSET_ENTRY.unpack_from(view, slot)
        return self.base_offset + relative, position

    def lookup_position_after(self, position: int) -> int | None:
        """Return the offset of the first entry whose batch begins at or after `position`; None if none does."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.base_offset + self._entry(low)[0] if low < self.entries else None

    def last(self) -> tuple[int, int]:
        """Return `(offset, position)` of the last entry, or `(base offset, 0)` if there is none."""
        count = self.entries
        if count == 0:
            return self.base_offset, 0
        relative, position = self._entry(count - 1)
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after `offset`."""
        low, high = 0, self.entries
        target = offset - self.base_offset
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] < target:
                low = middle + 1
            else:
                high = middle
        self.truncate_entries(low)

    def items(self) -> list[tuple[int, int]]:
        """Return every `(offset, position)`, in order."""
        base = self.base_offset
        return [(base + relative, position) for relative, position in map(self._entry, range(self.entries))]

    def _entry(self, slot: int) -> tuple[int, int]:
        view, written, pending = self._view()
        at = slot * 8
        relative, position = (
            OFFSET_ENTRY.unpack_from(view, at) if at < written else OFFSET_ENTRY.unpack_from(pending, at - written)
        )
        return relative, position


def _floor(entries: bytearray, size: int, target: int) -> int:
    """Return the byte position of the last entry in `entries[:size]` with a relative offset up to `target`.

    Return a negative number if there is none.
    """
    low, high = 0, size // 8
    unpack = RELATIVE_OFFSET.unpack_from
    while low < high:
        middle = (low + high) >> 1
        if unpack(entries, middle << 3)[0] <= target:
            low = middle + 1
        else:
            high = middle
    return (low << 3) - 8
