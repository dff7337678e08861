"""Delayed operations: a produce that waits for its replicas, a fetch that waits for its minimum of bytes.

An operation watches partitions and has a deadline. Code that changes a partition calls `notify`. Its watchers are
checked once, at the end of the loop's current round, so a burst of appends wakes a waiting fetch once. All deadlines
share one heap and one timer of the loop; there is no timer and no thread for each operation. Many operations that end
at a time do so in several rounds of the loop.

An operation that raises is removed and its client gets an error; the other operations are not affected.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any

logger = logging.getLogger(__name__)

ROUND_SECONDS = 0.005
"""The time in which operations are checked, or expire, before requests get their turn."""


class DelayedOperation:
    """An operation that waits. Subclasses define its condition and what happens when it is met.

    `try_complete` returns True if the condition is met and the operation has been completed. `expire` is called
    instead if the deadline passes first. Exactly one of them ends an operation, unless it is cancelled. `fail` is
    called after one of them, or `noticed`, has raised.
    """

    __slots__ = ("_entry", "_keys", "_purgatory", "completed")

    def __init__(self) -> None:
        self.completed = False
        self._keys: tuple[Hashable, ...] = ()
        self._purgatory: Purgatory | None = None
        self._entry: list[Any] = []

    def noticed(self, key: Hashable, amount: int) -> None:
        """Note that `amount` (bytes, for an append) was added to the partition `key`.

        Called before `try_complete`.
        """

    def try_complete(self) -> bool:
        raise TypeError(f"{type(self).__name__} does not say when it is complete")

    def expire(self) -> None:
        raise TypeError(f"{type(self).__name__} does not say what its deadline does")

    def fail(self, error: Exception) -> None:
        """Answer the client with an error, because the operation raised. How far it got is unknown."""
        raise TypeError(f"{type(self).__name__} does not say how it fails")

    def watch_also(self, keys: Iterable[Hashable]) -> None:
        """Let the operation, which waits, wait for more keys."""
        if self._purgatory is not None and not self.completed:
            self._purgatory.add_keys(self, keys)

    def cancel(self) -> None:
        """End the operation without an answer, because the client no longer waits for one."""
        if not self.completed and self._purgatory is not None:
            self._purgatory.remove(self)


class Purgatory:
    """Holds the waiting operations of one kind. Used on the event loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        """In the order in which they came: who has waited longest is answered first."""
        self._deadlines: list[list[Any]] = []
        """A heap of [deadline, number, operation]; the operation is replaced by None when it ends."""
        self._sequence = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._dirty: dict[Hashable, int] = {}
        self._concerned: OrderedDict[DelayedOperation, None] = OrderedDict()
        """Operations to be checked, because of partitions that have changed."""
        self._is_scheduled = False
        """True while a check is due at the end of this round of the loop."""
        self._waiting = 0

    def __len__(self) -> int:
        """Return the number of waiting operations."""
        return self._waiting

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], delay: float) -> None:
        """Let `operation` wait for `keys` for at most `delay` seconds."""
        operation._keys = tuple(keys)
        operation._purgatory = self
        for key in operation._keys:
            self._watchers.setdefault(key, {})[operation] = None
        self._waiting += 1
        deadline = self._loop.time() + delay
        operation._entry = [deadline, next(self._sequence), operation]
        heapq.heappush(self._deadlines, operation._entry)
        if len(self._deadlines) > 1024 and len(self._deadlines) > 4 * self._waiting:
            # Most entries belong to operations that have ended: drop these.
            self._deadlines = [entry for entry in self._deadlines if entry[2] is not None]
            heapq.heapify(self._deadlines)
        self._arm()

    def add_keys(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        """Let a waiting operation wait for more keys."""
        added = tuple(keys)
        for key in added:
            self._watchers.setdefault(key, {})[operation] = None
        operation._keys += added

    def notify(self, key: Hashable, amount: int = 0) -> None:
        """Note that the partition `key` changed; check its watchers at the end of this round of the loop."""
        if key not in self._watchers:
            return
        self._dirty[key] = self._dirty.get(key, 0) + amount
        self._schedule()

    def remove(self, operation: DelayedOperation) -> None:
        """Forget `operation`; neither `try_complete` nor `expire` is called any more."""
        if operation.completed:
            return
        operation.completed = True
        # Its deadline may be days away, and the memory that it refers to must not be kept for so long.
        operation._entry[2] = None
        self._waiting -= 1
        for key in operation._keys:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self._watchers[key]

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_scheduled = False
        dirty, self._dirty = self._dirty, {}
        # Check each operation once, however many of its partitions changed: a check may visit all its partitions.
        concerned = self._concerned
        failed: dict[DelayedOperation, Exception] = {}
        for key, amount in dirty.items():
            for operation in self._watchers.get(key, ()):
                try:
                    operation.noticed(key, amount)
                except Exception as error:
                    failed[operation] = error
                else:
                    concerned[operation] = None
        for operation, raised in failed.items():
            self._fail(operation, raised)
        until = self._loop.time() + ROUND_SECONDS
        while concerned:
            operation, _ = concerned.popitem(last=False)
            if not operation.completed:
                self._check(operation)
                if self._loop.time() > until:
                    break
        if concerned:
            self._schedule()

    def _check(self, operation: DelayedOperation) -> None:
        try:
            is_complete = operation.try_complete()
        except Exception as error:
            self._fail(operation, error)
            return
        if is_complete:
            self.remove(operation)

    def _fail(self, operation: DelayedOperation, error: Exception) -> None:
        name = type(operation).__name__
        logger.error("%s failed while it waited; its client gets an error", name, exc_info=error)
        self.remove(operation)
        try:
            operation.fail(error)
        except Exception:
            logger.exception("the failure of %s could not be reported to its client", name)

    def _arm(self) -> None:
        deadlines = self._deadlines
        while deadlines and deadlines[0][2] is None:
            heapq.heappop(deadlines)
        if not deadlines:
            return
        first = deadlines[0][0]
        if self._timer is not None:
            if self._timer_at <= first:
                return
            self._timer.cancel()
        self._timer_at = first
        self._timer = self._loop.call_at(first, self._expire_due)

    def _expire_due(self) -> None:
        self._timer = None
        now = self._loop.time()
        deadlines = self._deadlines
        while deadlines and (deadlines[0][0] <= now or deadlines[0][2] is None):
            operation = heapq.heappop(deadlines)[2]
            if operation is not None:
                self.remove(operation)
                try:
                    operation.expire()
                except Exception as error:
                    self._fail(operation, error)
                if self._loop.time() > now + ROUND_SECONDS:
                    break
        self._arm()
