"""Hold back the full collections of Python's garbage collector: the interface, and its implementation for this process.

The collector's thresholds belong to the process. So there is one `PROCESS_COLLECTOR`, which counts who holds full
collections back: several brokers of one process may do so at a time.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Protocol

NEVER = 1 << 30


class Collector(Protocol):
    """Any thread may call it."""

    def hold_full(self) -> None:
        """Hold full collections back, until `resume_full` was called as often."""

    def resume_full(self) -> None:
        """End one `hold_full`."""

    def collect(self) -> None:
        """Make a full collection now."""


class ProcessCollector:
    """See the module."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._thresholds = gc.get_threshold()

    def hold_full(self) -> None:
        with self._lock:
            if not self._holders:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(*self._thresholds[:2], NEVER)
            self._holders += 1

    def resume_full(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                gc.set_threshold(*self._thresholds)

    def collect(self) -> None:
        gc.collect()


PROCESS_COLLECTOR = ProcessCollector()
