"""Calls that a test makes at its time, soon or later."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable


class Timer:
    """A future call."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """The part of a loop that takes calls. It makes none.

    Attributes:
        now: the time, which the test moves.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self._soon: deque[Callable[[], None]] = deque()
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
