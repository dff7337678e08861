"""The time for which a broker that is cut off from ZooKeeper may go on as if it were registered.

ZooKeeper ends a session that it has not heard of for the session's time-out, and the cluster elects other leaders. A
broker that is cut off learns of that only once it reaches ZooKeeper again. Until then it would go on as a leader that
nobody else knows, and what it acknowledges to producers with `acks=1` would be lost. So a broker asks ZooKeeper for
its own node now and then. A question that is answered was heard, so the session lives for a time-out after it was sent,
at least. That is how long the lease lasts. The time-out is the one that ZooKeeper grants, which may be less than what
the broker asks for.

The end of the lease is a timer of the event loop. When the process was stopped for a while, the loop serves what is in
its sockets before it comes to its timers. So a leader also compares the clock (`is_over`) before it appends.

The lease relies on a server of ZooKeeper that is in touch with its leader. One that has lost it answers until it
notices, for `syncLimit` ticks of ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.zookeeper.interface import SessionState, ZooKeeper, ZooKeeperError

logger = logging.getLogger(__name__)

QUESTIONS = 10
"""The number of questions that are asked in one time-out. The lease ends at most one interval too early."""


class Lease:
    """The lease of a broker's registration. Used on the event loop's thread only.

    Args:
        zookeeper: the session.
        loop: the event loop.
        path: the broker's node.
        on_end: called when the lease ends; the next answer begins another one.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        loop: asyncio.AbstractEventLoop,
        path: str,
        on_end: Callable[[], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._loop = loop
        self._path = path
        self._on_end = on_end
        self._heard_at = float("-inf")
        self._granted = zookeeper.session_timeout
        """The least time-out of the session since the last renewal."""
        self._end: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        zookeeper.listen(self._session_changed)

    @property
    def is_over(self) -> bool:
        """Return whether the lease has ended by the clock, even if `on_end` was not called yet."""
        return self._loop.time() >= self._until

    def begin(self) -> None:
        """Ask from now on."""
        self._asking = self._loop.create_task(self._ask())

    async def stop(self) -> None:
        """Stop asking ZooKeeper and do not call `on_end` any more. The lease still ends by the clock."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def renew(self, sent_at: float) -> None:
        """Note that a request was answered that was sent at this time of the loop's clock."""
        if sent_at <= self._heard_at:
            return
        self._heard_at, self._granted = sent_at, self._zookeeper.session_timeout
        self._set_timer()

    # Inside

    @property
    def _until(self) -> float:
        # A server that grants less than the one before may end the session sooner. One that grants more may do so to a
        # new session, which the loop has not heard of.
        return self._heard_at + min(self._granted, self._zookeeper.session_timeout)

    def _set_timer(self) -> None:
        if self._end is not None:
            self._end.cancel()
        # The end may have passed while the loop was busy, or the process was stopped.
        self._end = self._loop.call_at(self._until, self._ended)

    def _ended(self) -> None:
        self._end = None
        self._on_end()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._granted = min(self._granted, self._zookeeper.session_timeout)
            if self._end is not None:
                self._set_timer()

    async def _ask(self) -> None:
        while True:
            sent_at = self._loop.time()
            try:
                await self._zookeeper.get(self._path)
            except ZooKeeperError as error:
                logger.debug("ZooKeeper does not answer: %r", error)
            except Exception:
                logger.exception("ZooKeeper cannot be asked for the registration. Trying again")
            else:
                self.renew(sent_at)
            await asyncio.sleep(self._zookeeper.session_timeout / QUESTIONS)
