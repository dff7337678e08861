"""Hosting again what could not be hosted: partitions whose log could not be made or opened.

What was in the way may pass, as a want of file descriptors does when clients leave. So such a partition is tried again
after a second, then after longer and longer times, and soon when somebody asks for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

FIRST_SECONDS, LAST_SECONDS = 1.0, 60.0
"""The shortest and the longest time between two rounds of which nothing succeeds."""
TRIED_AT_ONCE = 8
"""Partitions that are tried before other work of the loop gets its turn, for each makes files."""

Key = tuple[str, int]


class HostingRetries:
    """See the module. Used on the event loop's thread only.

    Args:
        retry: tries to host a partition; whether it need not be tried again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, retry: Callable[[Key], bool]) -> None:
        self._loop = loop
        self._retry = retry
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._delay = FIRST_SECONDS
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Key) -> None:
        """Have the partition tried again."""
        self._waiting[key] = None
        if self._timer is None:
            self._schedule(self._delay)

    def discard(self, key: Key) -> None:
        """The partition is hosted, or is not to be."""
        self._waiting.pop(key, None)

    def asked(self, key: Key) -> None:
        """A client asks for the partition: let it be among the next ones, and these be soon."""
        if key not in self._waiting:
            return
        self._waiting.move_to_end(key, last=False)
        if self._timer is not None and self._timer.when() > self._loop.time() + FIRST_SECONDS:
            self._timer.cancel()
            self._schedule(FIRST_SECONDS)

    def close(self) -> None:
        """Try nothing from now on."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, delay: float) -> None:
        self._timer = self._loop.call_later(delay, self._run)

    def _run(self) -> None:
        self._timer = None
        succeeded = False
        for key in list(self._waiting)[:TRIED_AT_ONCE]:
            if self._retry(key):
                self._waiting.pop(key, None)
                succeeded = True
            elif key in self._waiting:
                self._waiting.move_to_end(key)
        if not self._waiting:
            self._delay = FIRST_SECONDS
            return
        if succeeded:
            self._delay = FIRST_SECONDS
            self._schedule(0)
        else:
            self._schedule(self._delay)
            self._delay = min(2 * self._delay, LAST_SECONDS)
