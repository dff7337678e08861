"""Keeping to a rate of bytes, as `log.cleaner.io.max.bytes.per.second` asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable

INTERVAL_S = 0.3
"""Seconds over which the average rate is kept."""


class Throttle:
    """Compute how long to wait so that all threads together keep to a rate.

    Args:
        rate: bytes a second; 0 or less for no limit. The attribute may be changed.
        clock: a monotonic clock in seconds, called on any thread.
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._since = clock()
        self._bytes = 0

    def delay(self, size: int) -> float:
        """Return how many seconds to wait after `size` more bytes; 0 while the rate is kept."""
        with self._lock:
            self._bytes += size
            elapsed = self._clock() - self._since
            in_bounds = self.rate <= 0 or self._bytes <= self.rate * INTERVAL_S
            if self._bytes == 0 or (elapsed < INTERVAL_S and in_bounds):
                return 0.0
            wait = max(self._bytes / self.rate - elapsed, 0.0) if self.rate > 0 else 0.0
            # The wait belongs to the interval that ends here.
            self._since += elapsed + wait
            self._bytes = 0
            return wait
