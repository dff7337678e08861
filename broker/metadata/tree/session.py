"""Requests to ZooKeeper that outlive a lost connection, and the size that a node may have."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar

from broker.zookeeper.interface import ConnectionLossError, SessionExpiredError, SessionState, ZooKeeper, ensure
from kafkalog.protocol.errors import PolicyViolationError

T = TypeVar("T")
A = TypeVar("A")

MAX_BYTES = 0xFFFFF
"""The largest request that ZooKeeper accepts by default (`jute.maxbuffer`): 1 MiB."""
OVERHEAD = 512
"""Bytes of a request beside the data of its nodes, at most: the header, paths and access lists of a few operations."""
AT_ONCE = 200
"""The number of requests that are sent before the first of them is answered."""
_PAUSE_S = 0.05
"""After a lost connection. What is known of the connection may be a moment behind."""

LOST = (ConnectionLossError, SessionExpiredError)
"""Errors after which a request may have been carried out or not."""


class Session:
    """A session with ZooKeeper, with requests that are made again. Used on the event loop's thread only.

    Args:
        zookeeper: the session.
        loop: the event loop.
        patience_s: how long a request waits for a connection, from when that was lost. So requests that have to wait
            for each other fail together.
        max_bytes: the size of a request that ZooKeeper takes (its `jute.maxbuffer`).

    Attributes:
        zookeeper: the session.
    """

    def __init__(
        self, zookeeper: ZooKeeper, loop: asyncio.AbstractEventLoop, *, patience_s: float, max_bytes: int = MAX_BYTES
    ) -> None:
        self.zookeeper = zookeeper
        self.loop = loop
        self.patience_s = patience_s
        self.max_bytes = max_bytes
        self._connected = asyncio.Event()
        self._connected.set()
        self._lost_at = loop.time()
        zookeeper.listen(self._changed)

    def _changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected.set()
        elif self._connected.is_set():
            self._connected.clear()
            self._lost_at = self.loop.time()

    async def connected(self) -> None:
        """Wait for a connection, after one was lost.

        Raises:
            OSError: there was none for `patience_s`.
        """
        await asyncio.sleep(_PAUSE_S)
        if self._connected.is_set():
            return
        try:
            async with asyncio.timeout_at(self._lost_at + self.patience_s):
                await self._connected.wait()
        except TimeoutError:
            text = f"there is no connection to ZooKeeper for {self.patience_s:g} s (zookeeper.connect)"
            raise OSError(errno.ENOTCONN, text) from None

    async def read(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of `ask`, which changes nothing; ask again when the connection was lost.

        Raises:
            OSError: there was no connection for too long.
            ZooKeeperError: see `ask`.
        """
        end = self.loop.time() + self.patience_s
        while True:
            try:
                return await ask()
            except LOST as error:
                if self.loop.time() > end:
                    raise OSError(
                        errno.ENOTCONN, f"the connection to ZooKeeper breaks again and again: {error}"
                    ) from error
                await self.connected()

    async def ensure(self, path: str) -> None:
        """Create a persistent node without data, and its parents, where they do not exist; see `read` for errors."""
        await self.read(partial(ensure, self.zookeeper, path))

    def check_size(self, path: str, data: bytes) -> None:
        """Refuse a node that ZooKeeper would not take: it closes the connection instead of an answer.

        Raises:
            PolicyViolationError: the node is too large.
        """
        if len(data) + OVERHEAD > self.max_bytes:
            raise PolicyViolationError(
                f"The node {path} would have {len(data)} bytes. ZooKeeper takes {self.max_bytes} in a request "
                "(jute.maxbuffer)"
            )


async def each_of(items: Iterable[A], work: Callable[[A], Coroutine[Any, Any, T]]) -> list[T]:
    """Do `work` for all items, up to `AT_ONCE` at the same time; return the results in the order of the items.

    Raises:
        Exception: what `work` raised first; the rest of what was begun is finished before.
    """
    todo = list(items)
    results: list[T] = []
    for first in range(0, len(todo), AT_ONCE):
        done = await asyncio.gather(*map(work, todo[first : first + AT_ONCE]), return_exceptions=True)
        for each in done:
            if isinstance(each, BaseException):
                raise each
            results.append(each)
    return results
