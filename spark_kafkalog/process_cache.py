"""Objects that a process keeps from one task to the next: connections, and what is known about clusters.

Spark reuses its Python workers for tasks of many queries, so that a new connection for each task would be a waste. The
owner of such objects is the process, through one `ProcessCache` for each kind, declared in the module that uses it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ProcessCache(Generic[K, V]):
    """At most ``most`` objects by key; the least recently used one makes room for the next.

    Objects are closed when they make room and at the process's exit. A process that was forked off begins with none: it
    has neither the threads of its parent's objects nor a right to their connections.

    Make one for a module, not one for an object: it is referenced until the process ends.

    Args:
        most: how many objects are kept.
        close: what ends an object; by default it is only dropped.
    """

    def __init__(self, most: int, close: Callable[[V], object] | None = None) -> None:
        self._most = most
        self._close = close
        self._lock = threading.Lock()
        self._kept: dict[K, V] = {}
        self._of_parents: list[dict[K, V]] = []
        """Referenced, so that nothing in them is finalized here."""
        os.register_at_fork(after_in_child=self._begin_anew)
        atexit.register(self.clear)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the object of a key; ``make`` makes it where there is none."""
        with self._lock:
            found = self._kept.pop(key) if key in self._kept else make()
            self._kept[key] = found
            crowded_out = [self._kept.pop(each) for each in list(self._kept)[: -self._most]]
        self._end(crowded_out)
        return found

    def clear(self) -> None:
        """Close and forget all objects."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), {}
        self._end(kept)

    def __len__(self) -> int:
        return len(self._kept)

    def _end(self, objects: list[V]) -> None:
        if self._close is not None:
            for each in objects:
                self._close(each)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._of_parents.append(self._kept)
        self._kept = {}
