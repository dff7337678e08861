"""Where batches of a segment lie, as far as that is known without its index: the newest, and what was found last."""

from __future__ import annotations

RECENT_BATCHES = 64
"""Newest batches whose positions are kept, twice this many at most (two generations)."""


class BatchPositions:
    """Positions in bytes by base offset. Readers at the tail, which most are, find theirs here."""

    __slots__ = ("_found_offset", "_found_position", "_limit_offset", "_limit_position", "_older", "_recent")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the log was cut or read anew."""
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._found_offset = self._limit_offset = -1
        self._found_position = self._limit_position = 0

    def note(self, base_offset: int, position: int) -> None:
        """A batch was appended."""
        recent = self._recent
        if len(recent) >= RECENT_BATCHES:
            self._older = recent
            self._recent = recent = {}
        recent[base_offset] = position

    def remembers(self, base_offset: int) -> bool:
        """Whether a batch that begins there is among the newest."""
        return base_offset in self._recent or base_offset in self._older

    def get(self, offset: int) -> int | None:
        """Position of the batch that begins at ``offset``, or that was found last to hold it; None if unknown."""
        position = self._recent.get(offset)
        if position is None:
            position = self._older.get(offset)
            if position is None and offset == self._found_offset:
                return self._found_position
        return position

    def note_found(self, offset: int, position: int) -> None:
        """A look-up has found the batch that holds ``offset``."""
        self._found_offset, self._found_position = offset, position

    def limit(self, offset: int) -> int | None:
        """Position of the batch that holds ``offset``, where `note_limit` was told of it last."""
        return self._limit_position if offset == self._limit_offset else None

    def note_limit(self, offset: int, position: int) -> None:
        """Readers may not go past the batch that holds ``offset``, and ask again and again where it is."""
        self._limit_offset, self._limit_position = offset, position
