"""A loop whose clock the test moves."""

from __future__ import annotations

import heapq
from collections import deque

from tests.broker.net.timers import Timers


class Loop(Timers):
    """A clock that a test moves, and calls that it makes."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def turn(self) -> None:
        """Make the calls that are due; those that they ask for come in the next turn."""
        due, self._soon = self._soon, deque()
        for callback in due:
            callback()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()
