"""The times at which the tasks of a worker commit: soon where there is nothing more to read, seldom where there is.

Readers of committed records wait for the end of a transaction. A transaction costs the same whether it has one record
or a thousand: requests, and markers in each of its partitions. So a task that has read its partitions to their ends
commits at once. One that is behind goes on reading, and commits once in an interval. Nothing is read during commits: so
there are pauses between them, which limit their number, and their share of the time however slow the target is.
"""

from __future__ import annotations

PAUSE_S = 0.01
"""The shortest pause after commits; it allows a hundred transactions of a task each second."""
PAUSE_FOR_DURATION = 1.0
"""The length of the pause after commits, as a multiple of the time that they take."""
PAUSE_WHILE_BEHIND = 9.0
"""The same while other tasks are behind: reading has nine tenths of the time."""


class Pace:
    """The times of commits; for one thread. Times are those of one monotonic clock, in seconds.

    Args:
        interval: How long records of tasks that are behind wait for a commit, in seconds.
        eager: Whether tasks that are not behind commit before that.
        now: The time.

    Attributes:
        all_at: When all tasks commit.
        soonest_at: When tasks that are not behind may commit; infinity if they wait for all others.
    """

    def __init__(self, interval: float, *, eager: bool, now: float) -> None:
        self._interval, self._eager = interval, eager
        self.all_at = now + interval
        self.soonest_at = now if eager else float("inf")

    @property
    def gather_until(self) -> float:
        """The time until which what was fetched may wait to be sent, because it could not be committed before."""
        return self.soonest_at if self._eager else float("-inf")

    def next_at(self, *, ready: bool) -> float:
        """Return when there is something to commit; `ready` says whether a task that is not behind has something."""
        return min(self.all_at, self.soonest_at) if ready else self.all_at

    def committed(self, began: float, ended: float, *, behind: bool) -> None:
        """Note that some tasks committed between these times; `behind` says whether there is more to read."""
        if self._eager:
            factor = PAUSE_WHILE_BEHIND if behind else PAUSE_FOR_DURATION
            self.soonest_at = ended + max(PAUSE_S, factor * (ended - began))

    def committed_all(self, now: float) -> None:
        """Note that no task has anything to commit."""
        self.all_at = now + self._interval
