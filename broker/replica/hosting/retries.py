"""Retries of partitions that could not be hosted, because their log could not be created or opened.

The cause may be temporary, such as a lack of file descriptors that ends when clients disconnect. So such a partition is
retried after a second, then after longer and longer times, and soon after a client asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

logger = logging.getLogger(__name__)

FIRST_SECONDS, LAST_SECONDS = 1.0, 60.0
"""The shortest and the longest pause after a round in which nothing succeeded."""
TRIED_AT_ONCE = 8
"""Partitions that are tried before the loop's other work gets its turn. Each of them creates files."""

Key = tuple[str, int]


class HostingRetries:
    """Retries offline partitions. Used on the event loop's thread only.

    Args:
        retry: tries to host a partition, and returns whether the retries can end. It may call `add` for one that fails.

    Attributes:
        on_ended: called after retries of some partitions have ended, once for all that end one after another.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, retry: Callable[[Key], bool]) -> None:
        self._loop = loop
        self._retry = retry
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._delay = FIRST_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        """True if retries have ended since the last call of `on_ended`."""
        self.on_ended: Callable[[], None] = lambda: None

    def add(self, key: Key) -> None:
        """Retry the partition from now on."""
        self._waiting[key] = None
        if self._timer is None:
            self._schedule(self._delay)

    def discard(self, key: Key) -> None:
        """Stop retrying a partition that is hosted, or need not be."""
        self._waiting.pop(key, None)

    def asked(self, key: Key) -> None:
        """Move a partition that a client asks for to the front, and start the next round soon."""
        if key not in self._waiting:
            return
        self._waiting.move_to_end(key, last=False)
        if self._timer is not None and self._timer.when() > self._loop.time() + FIRST_SECONDS:
            self._timer.cancel()
            self._schedule(FIRST_SECONDS)

    def close(self) -> None:
        """Stop all retries."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, delay: float) -> None:
        self._timer = self._loop.call_later(delay, self._run)

    def _run(self) -> None:
        succeeded = False
        # The timer is kept until the round is over: `add` would begin another one beside that of the next round.
        for key in list(self._waiting)[:TRIED_AT_ONCE]:
            if self._try(key):
                self._waiting.pop(key, None)
                succeeded = True
            elif key in self._waiting:
                self._waiting.move_to_end(key)
        self._timer = None
        self._has_ended |= succeeded
        if succeeded and self._waiting:
            self._delay = FIRST_SECONDS
            self._schedule(0)
            return
        if self._waiting:
            self._schedule(self._delay)
            self._delay = min(2 * self._delay, LAST_SECONDS)
        else:
            self._delay = FIRST_SECONDS
        if self._has_ended:
            self._has_ended = False
            self.on_ended()

    def _try(self, key: Key) -> bool:
        try:
            return self._retry(key)
        except Exception:
            # A defect that one partition meets must not keep the others from being tried.
            logger.exception("%s-%d cannot be hosted. Trying again", *key)
            return False
