"""Objects that a process keeps from one task to the next, such as connections and cluster metadata.

Spark reuses its Python workers for tasks of many queries, so a new connection for each task would be wasteful. The
process owns such objects, in one `ProcessCache` for each kind, which the module that uses them declares.
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
    """Keep at most `most` objects by key, and drop the least recently used one to make room.

    Dropped objects are closed, and so are all the others when the process exits. A forked process begins with none: it
    lacks the threads of its parent's objects, and must not use their connections.

    Create one for a module, not one for an object: it is referenced until the process ends.

    Args:
        most: the largest number of objects to keep.
        close: function that closes an object; by default an object is only dropped.
    """

    def __init__(self, most: int, close: Callable[[V], object] | None = None) -> None:
        self._most = most
        self._close = close
        self._lock = threading.Lock()
        self._kept: dict[K, V] = {}
        self._of_parents: list[dict[K, V]] = []
        """The parents' objects. These references keep them from being finalized in this process."""
        os.register_at_fork(after_in_child=self._begin_anew)
        atexit.register(self.clear)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the object of a key; call `make` to create it if there is none."""
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
