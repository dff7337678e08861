"""Turns for handshakes: each computes for up to a few milliseconds, and many clients may connect at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker.net.sockets.event_loop import Clock

STEPS_A_TURN = 32
SECONDS_A_TURN = 0.005
"""The time for which steps of handshakes are done before other connections get their turn, beside the last step."""


class HandshakeTurns:
    """Does steps of handshakes in the order in which they come, some in each round of the event loop.

    Args:
        clock: the event loop.
        seconds: the clock that measures how long steps take.
    """

    def __init__(self, clock: Clock, seconds: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, step: Callable[[], None]) -> None:
        """Do a step soon."""
        if not self._waiting:
            self._clock.call_soon(self._turn)
        self._waiting.append(step)

    def _turn(self) -> None:
        until = self._seconds() + SECONDS_A_TURN
        try:
            for _ in range(STEPS_A_TURN):
                try:
                    self._waiting[0]()
                finally:
                    self._waiting.popleft()
                if not self._waiting or self._seconds() >= until:
                    break
        finally:
            # Others get their turn even if a step has failed.
            if self._waiting:
                self._clock.call_soon(self._turn)
