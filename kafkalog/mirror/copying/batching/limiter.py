"""Limit the bytes a second that a mirror sends."""

from __future__ import annotations


class Limiter:
    """A bucket that fills with `rate` bytes a second, up to one second's worth; a rate of 0 limits nothing.

    Times are those of one monotonic clock, in seconds.
    """

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._left = float(rate)
        self._at = now

    def take(self, size: int, now: float) -> float:
        """Take `size` bytes; return how many seconds to wait before the next ones. The bucket may go into debt."""
        if not self._rate:
            return 0.0
        self._left = min(self._left + (now - self._at) * self._rate, float(self._rate)) - size
        self._at = now
        return max(-self._left / self._rate, 0.0)
