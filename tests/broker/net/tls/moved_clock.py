"""A loop whose clock the test moves."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from tests.broker.net.simulated import Timer


class Loop:
    """A clock that a test moves, and calls that it makes."""

    def __init__(self) -> None:
        self.now = 0.0
        self._soon: list[Callable[[], None]] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (self.now + delay, next(self._numbers), timer))
        return timer

    def turn(self) -> None:
        """Make the calls that are due; those that they ask for come in the next turn."""
        due, self._soon = self._soon, []
        for callback in due:
            callback()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()
