"""The positions of a segment's batches that are known without its index: the newest ones, and the one found last."""

from __future__ import annotations

RECENT_BATCHES = 64
"""The number of the newest batches that are remembered; at most twice this many (two generations)."""


class BatchPositions:
    """Remember positions in bytes by base offset. Most readers read at the tail and find their positions here."""

    __slots__ = ("_found_offset", "_found_position", "_limit_offset", "_limit_position", "_older", "_recent")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, because the log was cut or is read anew."""
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._found_offset = self._limit_offset = -1
        self._found_position = self._limit_position = 0

    def note(self, base_offset: int, position: int) -> None:
        """Remember the position of a batch that was appended."""
        recent = self._recent
        if len(recent) >= RECENT_BATCHES:
            self._older = recent
            self._recent = recent = {}
        recent[base_offset] = position

    def remembers(self, base_offset: int) -> bool:
        """Return whether a batch that begins at this offset is among the newest."""
        return base_offset in self._recent or base_offset in self._older

    def get(self, offset: int) -> int | None:
        """Return the position of the batch that begins at `offset` or was last found to hold it; None if unknown."""
        position = self._recent.get(offset)
        if position is None:
            position = self._older.get(offset)
            if position is None and offset == self._found_offset:
                return self._found_position
        return position

    def note_found(self, offset: int, position: int) -> None:
        """Remember the position at which a look-up has found the batch that holds `offset`."""
        self._found_offset, self._found_position = offset, position

    def limit(self, offset: int) -> int | None:
        """Return the position that the last `note_limit` gave for `offset`; None if that was for another offset."""
        return self._limit_position if offset == self._limit_offset else None

    def note_limit(self, offset: int, position: int) -> None:
        """Remember the position of `offset` as the limit of readers, who ask for it again and again."""
        self._limit_offset, self._limit_position = offset, position
