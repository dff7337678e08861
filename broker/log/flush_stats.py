"""How often segments were forced to the device, and how long that took: Kafka's LogFlushStats, one a broker."""

from __future__ import annotations

import threading


class FlushStats:
    """Added to on any thread.

    Attributes:
        count: flushes of a segment.
        seconds: time they took, summed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """A segment was flushed."""
        with self._lock:
            self.count += 1
            self.seconds += seconds
