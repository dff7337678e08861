"""Member ids that were given out and have not joined yet (KIP-394).

Clients that never come back may ask for many of them, so a group must not look at all when one is due.
"""

from __future__ import annotations

import heapq

SPARE = 64
"""This many ids that have joined may be left among the deadlines, or as many as still wait if those are more."""


class GivenIds:
    """The ids, each with its deadline on the clock of `Moment.ms`."""

    __slots__ = ("_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        """The deadlines, earliest first, some of them of ids that are not in `_deadlines` any more."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._deadlines

    def add(self, member_id: str, deadline: int) -> None:
        """Add an id that was never given out before."""
        self._deadlines[member_id] = deadline
        heapq.heappush(self._heap, (deadline, member_id))

    def discard(self, member_id: str) -> None:
        """Remove an id, if it is there: its client has joined or left."""
        if self._deadlines.pop(member_id, None) is None:
            return
        if len(self._heap) > 2 * len(self._deadlines) + SPARE:
            self._heap = [(deadline, waiting) for waiting, deadline in self._deadlines.items()]
            heapq.heapify(self._heap)

    @property
    def next_deadline(self) -> int | None:
        """The time when the next id is due."""
        self._skip_gone()
        return self._heap[0][0] if self._heap else None

    def end(self, now_ms: int) -> None:
        """Remove the ids whose deadlines have passed."""
        while self._heap and self._heap[0][0] <= now_ms:
            self._deadlines.pop(heapq.heappop(self._heap)[1], None)

    def _skip_gone(self) -> None:
        while self._heap and self._heap[0][1] not in self._deadlines:
            heapq.heappop(self._heap)
