"""The time that micro-batches take: it tells whether the planner reads small ones, or tasks do. Pure.

All rows of a batch that the planner reads are in one partition. If a query spends its time on the rows, tasks are
better: they work on several partitions at once.

The time of a batch is that from its plan to Spark's next call for offsets. It also has what does not depend on the
rows, such as the wait for the next trigger, or a slow output. So a batch that takes long says nothing by itself. Tasks
read some batches for comparison.
"""

from __future__ import annotations

from statistics import median

BATCHES = 4
"""Batches of each side that are compared. The first ones of a query are always slow."""
QUICK_S = 0.5
"""While one of the last batches took no longer than this, there is nothing to compare."""
CLEARLY_LESS = 0.75
"""Tasks read all batches if theirs take at most this share of the time."""
REST = 100
"""Batches that the planner reads before the next comparison."""


class Pace:
    """The times of the small batches of a query."""

    def __init__(self) -> None:
        self._planner: list[float] = []
        self._tasks: list[float] = []
        self._rest = 0
        self._left_to_tasks = False

    @property
    def wants_tasks(self) -> bool:
        """True if tasks are to read the next small batch."""
        slow = len(self._planner) == BATCHES and min(self._planner) > QUICK_S
        return self._left_to_tasks or (slow and not self._rest)

    def took(self, seconds: float, *, by_tasks: bool) -> None:
        """Note the time of a small batch."""
        if not by_tasks:
            self._planner = [*self._planner, seconds][-BATCHES:]
            self._rest = max(self._rest - 1, 0)
            return
        self._tasks.append(seconds)
        if len(self._tasks) == BATCHES and not self._left_to_tasks:
            self._left_to_tasks = median(self._tasks) <= CLEARLY_LESS * median(self._planner)
            self._rest = REST
            self._tasks.clear()
