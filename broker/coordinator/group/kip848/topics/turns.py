"""Work that is done one piece at a time, for groups that take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A lock that groups get in turn: after each piece of work the next group gets it, for its oldest request.

    A group waits for at most one piece of each other group, however many those have.
    """

    def __init__(self) -> None:
        self._taken = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The waiters of each group; the group that had its turn last is at the end."""

    @asynccontextmanager
    async def turn(self, group_id: str) -> AsyncIterator[None]:
        """Hold the lock, once it is the group's turn."""
        if self._taken:
            await self._wait(group_id)
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, group_id: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group_id, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                # The turn came just before the wait was cancelled: pass it on.
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            group_id = next(iter(self._waiting))
            waiters = self._waiting.pop(group_id)
            waiter = waiters.popleft()
            if waiters:
                self._waiting[group_id] = waiters
            if not waiter.done():
                waiter.set_result(None)
                return
        self._taken = False
