"""Stops serving a client that is above a quota for a time (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable

from broker.net.sockets.event_loop import Clock, Timer


class Throttle:
    """Hold one connection back.

    Attributes:
        active: whether the client is held back now.
    """

    __slots__ = ("_clock", "_on_over", "_timer", "_until", "active")

    def __init__(self, clock: Clock, on_over: Callable[[], None]) -> None:
        self._clock = clock
        self._on_over: Callable[[], None] | None = on_over
        self._timer: Timer | None = None
        self._until = 0.0
        self.active = False

    def hold_back(self, seconds: float) -> None:
        """Hold the client back for `seconds` from now, or as long as it already is, if that is longer."""
        until = self._clock.time() + seconds
        if self._timer is not None:
            if until <= self._until:
                return
            self._timer.cancel()
        self._until = until
        self.active = True
        self._timer = self._clock.call_later(seconds, self._over)

    def close(self) -> None:
        """Cancel the current period; `on_over` is not called any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_over = None

    def _over(self) -> None:
        self._timer = None
        self.active = False
        if self._on_over is not None:
            self._on_over()
