"""Control Python's garbage collector: the interface, and its implementation for this process.

The collector's thresholds belong to the process. So there is one `PROCESS_COLLECTOR`, which counts who holds full
collections back: several brokers of one process may do so at a time. It freezes nothing, because the process may be of
others; `OWN_COLLECTOR` is that of a process which only runs a broker.
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

    def freeze(self) -> None:
        """Exempt what is alive from full collections, for as long as it lives, where the process is the broker's own.

        A full collection walks over everything: it takes 0.3 s of the interpreter's lock where there are 10,000
        partitions. What is frozen is still freed when nothing refers to it any more. Only a cycle that becomes garbage
        later stays, so the garbage of the last moments is collected first.
        """


class ProcessCollector:
    """Controls the garbage collector of this process."""

    def __init__(self, own: bool) -> None:
        self._own = own
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

    def freeze(self) -> None:
        if self._own:
            gc.collect(1)
            gc.freeze()


PROCESS_COLLECTOR = ProcessCollector(own=False)
OWN_COLLECTOR = ProcessCollector(own=True)


def pause_at_start() -> None:
    """Do without the collector while modules are imported and a broker starts, until `resume_after_start`.

    Almost nothing of that becomes garbage, and the collector would visit it again and again, for a fifth of the time
    until a broker serves.
    """
    gc.disable()


def resume_after_start() -> None:
    """Exempt from collections what has been made since the start, and collect from now on."""
    gc.freeze()
    resume()


def resume() -> None:
    """End the pause, if there is one."""
    gc.enable()
