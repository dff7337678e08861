"""The number of flushes of segments to the device, and the time that they took: Kafka's LogFlushStats."""

from __future__ import annotations

import threading


class FlushStats:
    """Count the flushes of one broker. May be used on any thread.

    Attributes:
        count: flushes of segments.
        seconds: the sum of the time that they took.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one flush of a segment that took so many seconds."""
        with self._lock:
            self.count += 1
            self.seconds += seconds
