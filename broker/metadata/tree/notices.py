"""Follows `/config/changes`, and nodes like it: reads what changed, and removes old notices.

A notice says what changed, such as a configuration, not how; that is read again. Notices of a number up to the last one
that was seen are ignored. They are removed 15 minutes after they were written, by whichever broker comes first. A
broker that was without a connection for longer than that reads everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from broker.metadata.tree.session import LOST, Session, each_of
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.notices import decode_config_change
from broker.zookeeper.interface import Node, NoNodeError, SessionState, WatchEvent, ZooKeeperError, ensure

logger = logging.getLogger(__name__)

KEPT_MS = 15 * 60_000
"""The time that a notice is kept, as by Kafka's `ZkNodeChangeNotificationListener`."""
BLIND_S = 5 * 60
"""After being without a connection for so many seconds, everything is read: notices may have been removed."""
RETRY_S = 1.0

Subject = TypeVar("Subject", bound=Hashable)
"""The subject of a notice."""


@dataclass(frozen=True, slots=True)
class NoticeKind(Generic[Subject]):
    """The notices of one kind."""

    path: str
    """The node that has them."""
    decode: Callable[[str, bytes], Subject]
    """Returns what a notice names, for its path and its data; raises ZnodeError."""
    what: str
    """Names for the log what the notices are about."""
    blind_s: float = BLIND_S
    """After being without a connection for so many seconds, everything is read."""
    is_strict: bool = False
    """True if everything is read after a notice that cannot be read, or is gone; otherwise it is left out."""


OF_CONFIGS = NoticeKind(paths.CONFIG_CHANGES, decode_config_change, "configurations")


class Notices(Generic[Subject]):
    """Follows the notices of one kind. Used on the event loop's thread only.

    Args:
        kind: which.
        session: the session with ZooKeeper.
        now_ms: the wall clock.
        read: reads again what notices name.
        read_all: reads everything of the kind again.
    """

    def __init__(
        self,
        kind: NoticeKind[Subject],
        session: Session,
        now_ms: Callable[[], int],
        read: Callable[[Iterable[Subject]], Awaitable[None]],
        read_all: Callable[[], Awaitable[None]],
    ) -> None:
        self._kind = kind
        self._session = session
        self._zookeeper = session.zookeeper
        self._now_ms = now_ms
        self._read = read
        self._read_all = read_all
        self._changed = asyncio.Event()
        self._last = -1
        """The largest number of a notice that was seen."""
        self._written_ms: dict[str, int] = {}
        """The times at which the notices that are kept were written, as far as they are known."""
        self._lost_at: float | None = None
        self._following: asyncio.Task[None] | None = None
        self._zookeeper.listen(self._session_changed)

    async def start(self) -> None:
        """Read everything, and begin to follow changes.

        Raises:
            OSError: there was no connection for too long.
        """
        # Watched before everything is read, so that no change is missed.
        self._last = max(map(_number, await self._session.read(self._watch)), default=-1)
        await self._read_all()
        self._following = self._session.loop.create_task(self._follow())

    async def stop(self) -> None:
        """Stop following changes."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            # The watch is gone.
            self._changed.set()
        elif self._lost_at is None:
            self._lost_at = self._session.loop.time()

    def _told(self, event: WatchEvent) -> None:
        self._changed.set()

    async def _watch(self) -> list[str]:
        try:
            return await self._zookeeper.children(self._kind.path, self._told)
        except NoNodeError:
            await ensure(self._zookeeper, self._kind.path)
            return await self._zookeeper.children(self._kind.path, self._told)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._take()
            except LOST:
                # Told again once there is a connection; a short loss may be over already.
                self._session.loop.call_later(RETRY_S, self._changed.set)
            except (ZooKeeperError, OSError) as error:
                logger.error("Changes of %s cannot be read from ZooKeeper: %s. Trying again", self._kind.what, error)
                self._session.loop.call_later(RETRY_S, self._changed.set)
            except Exception:
                logger.exception("Changes of %s cannot be taken over. Trying again", self._kind.what)
                self._session.loop.call_later(RETRY_S, self._changed.set)

    async def _take(self) -> None:
        lost_at, self._lost_at = self._lost_at, None
        try:
            names = await self._watch()
            if lost_at is not None and self._session.loop.time() - lost_at >= self._kind.blind_s:
                self._last = max(map(_number, names), default=self._last)
                await self._read_all()
            else:
                await self._take_new(names)
            await self._remove_old(names)
        except BaseException:
            if lost_at is not None:
                # Otherwise the connection may have been lost just now.
                self._lost_at = lost_at
            raise

    async def _take_new(self, names: Iterable[str]) -> None:
        new = sorted((name for name in names if _number(name) > self._last), key=_number)
        if not new:
            return
        nodes = await each_of(new, self._get)
        changed: dict[Subject, None] = {}
        is_clear = True
        for name, node in zip(new, nodes, strict=True):
            if node is None:
                # Removed already: by a clock that is ahead.
                is_clear = False
                continue
            self._written_ms[name] = node.stat.created_ms
            try:
                changed[self._kind.decode(self._path(name), node.data)] = None
            except ZnodeError as error:
                is_clear = False
                logger.error("%s. %s", error, "Everything is read" if self._kind.is_strict else "It is left out")
        if self._kind.is_strict and not is_clear:
            await self._read_all()
        else:
            await self._read(changed)
        self._last = _number(new[-1])

    async def _remove_old(self, names: list[str]) -> None:
        known = set(names)
        self._written_ms = {name: written for name, written in self._written_ms.items() if name in known}
        unknown = [name for name in names if name not in self._written_ms]
        for name, node in zip(unknown, await each_of(unknown, self._get), strict=True):
            if node is not None:
                self._written_ms[name] = node.stat.created_ms
        before = self._now_ms() - KEPT_MS
        old = [name for name, written in self._written_ms.items() if written < before]
        await each_of(old, self._remove)

    async def _remove(self, name: str) -> None:
        with contextlib.suppress(NoNodeError):
            await self._zookeeper.delete(self._path(name))
        self._written_ms.pop(name, None)

    async def _get(self, name: str) -> Node | None:
        return await self._session.read(partial(self._zookeeper.get, self._path(name)))

    def _path(self, name: str) -> str:
        return f"{self._kind.path}/{name}"


def _number(name: str) -> int:
    """Return the number of a notice; that of a node that is none is below all."""
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else -1
