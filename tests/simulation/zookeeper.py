"""ZooKeeper on simulated time: one tree of nodes, sessions that expire, and connections that a test can break.

A request takes a random time to the tree and back. The tree carries out one request at a time, in an order that the
seed decides. Requests of one session are carried out in order. What comes back from the tree keeps its order, too: a
watch is told before newer data. A connection that breaks in between loses the answer: the request may have been carried
out or not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from broker.zookeeper.interface import (
    ANY_VERSION,
    NO_OWNER,
    BadVersionError,
    Change,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    Listener,
    MultiError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    SessionExpiredError,
    SessionState,
    SetData,
    Stat,
    Watch,
    WatchEvent,
    ZooKeeperError,
)
from tests.simulation.virtual_time import EPOCH_MS

DELAY_S = 0.002
"""The longest way of a request to the tree, or of an answer back."""
_TICK_S = 1e-6

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Entry:
    node: Node
    children: frozenset[str] = frozenset()
    next_number: int = 0


@dataclass(slots=True)
class _Watches:
    data: dict[str, list[Watch]] = field(default_factory=dict)
    children: dict[str, list[Watch]] = field(default_factory=dict)


class SimulatedEnsemble:
    """The tree, and the sessions that are open.

    Attributes:
        transaction: the number of the last change.
        longest_session: the longest time-out that is granted to a session, in seconds.
        listeners_first: whether a session tells its listeners of a lost connection before its requests fail, as the
            client of ZooKeeper does.
        on_commit: called after each transaction with its operations and the session that it came from.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.transaction = 0
        self.longest_session = float("inf")
        self.listeners_first = True
        self._entries = {"/": _Entry(Node(b"", Stat(0, 0, 0, NO_OWNER)))}
        self.on_commit: Callable[[Sequence[Operation], int], None] = lambda operations, session_id: None
        self._sessions: dict[int, SimulatedSession] = {}
        self._last_session = 0

    def paths(self) -> list[str]:
        """Return the paths of all nodes."""
        return sorted(self._entries)

    def open(self, session: SimulatedSession) -> int:
        """Begin a session; return its id."""
        self._last_session += 1
        self._sessions[self._last_session] = session
        return self._last_session

    def is_open(self, session_id: int) -> bool:
        """Return whether a session has neither expired nor ended."""
        return session_id in self._sessions

    def end(self, session_id: int) -> None:
        """End a session and delete its ephemeral nodes, in one transaction."""
        self._sessions.pop(session_id, None)
        owned = [path for path, entry in self._entries.items() if entry.node.stat.owner == session_id]
        self._commit([Delete(path) for path in owned], session_id)

    def read(self, path: str) -> Node:
        return self._entry(path).node

    def names(self, path: str) -> list[str]:
        return sorted(self._entry(path).children)

    def exists(self, path: str) -> bool:
        return path in self._entries

    def carry_out(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        """Carry out all operations, or none.

        Raises:
            MultiError: one of them cannot be carried out.
        """
        return self._commit(operations, session_id)

    # Inside

    def _entry(self, path: str) -> _Entry:
        if path not in self._entries:
            raise NoNodeError(path)
        return self._entries[path]

    def _commit(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        before, number = dict(self._entries), self.transaction
        self.transaction += 1
        results: list[Result] = []
        events: list[WatchEvent] = []
        for index, each in enumerate(operations):
            try:
                results.append(self._apply(each, session_id, events))
            except ZooKeeperError as error:
                self._entries, self.transaction = before, number
                raise MultiError(index, error) from None
        self.on_commit(operations, session_id)
        sessions = list(self._sessions.values())
        for event in events:
            for session in sessions:
                session.tell(event)
        return results

    def _apply(self, operation: Operation, session_id: int, events: list[WatchEvent]) -> Result:
        match operation:
            case Create():
                return self._create(operation, session_id, events)
            case SetData():
                entry = self._checked(operation.path, operation.version)
                stat = entry.node.stat
                changed = stat._replace(version=stat.version + 1, modified=self.transaction)
                self._entries[operation.path] = replace(entry, node=Node(operation.data, changed))
                events.append(WatchEvent(Change.DATA, operation.path))
                return changed
            case Delete():
                if self._checked(operation.path, operation.version).children:
                    raise NotEmptyError(operation.path)
                del self._entries[operation.path]
                parent, name = _split(operation.path)
                self._entries[parent] = replace(self._entries[parent], children=self._entries[parent].children - {name})
                events += [WatchEvent(Change.DELETED, operation.path), WatchEvent(Change.CHILDREN, parent)]
            case Check():
                self._checked(operation.path, operation.version)
        return None

    def _create(self, operation: Create, session_id: int, events: list[WatchEvent]) -> str:
        parent, name = _split(operation.path)
        above = self._entry(parent)
        if operation.is_sequential:
            name = f"{name}{above.next_number:010}"
        path = f"{parent.rstrip('/')}/{name}"
        if path in self._entries:
            raise NodeExistsError(path)
        owner = session_id if operation.is_ephemeral else NO_OWNER
        created_ms = EPOCH_MS + int(self.loop.time() * 1000)
        stat = Stat(0, self.transaction, self.transaction, owner, created_ms)
        self._entries[path] = _Entry(Node(operation.data, stat))
        self._entries[parent] = replace(above, children=above.children | {name}, next_number=above.next_number + 1)
        events += [WatchEvent(Change.CREATED, path), WatchEvent(Change.CHILDREN, parent)]
        return path

    def _checked(self, path: str, version: int) -> _Entry:
        entry = self._entry(path)
        if version not in (ANY_VERSION, entry.node.stat.version):
            raise BadVersionError(path)
        return entry


class _Way:
    """One direction of a connection: what is sent later arrives later."""

    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._ensemble = ensemble
        self._last = 0.0

    def arrival(self) -> float:
        """Return when a message that is sent now arrives."""
        soonest = self._ensemble.loop.time() + self._ensemble.chance.uniform(0, DELAY_S)
        self._last = max(soonest, self._last + _TICK_S)
        return self._last


class SimulatedSession:
    """A session with the ensemble, as `ZooKeeper`.

    Args:
        ensemble: The ensemble.
        timeout: The time-out of the session that is asked for, in seconds.
        loop: The event loop of the process that has the session; the ensemble's own by default.
    """

    def __init__(
        self, ensemble: SimulatedEnsemble, timeout: float, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._ensemble = ensemble
        self._loop = loop or ensemble.loop
        self._asked = timeout
        self._timeout = min(timeout, ensemble.longest_session)
        self._listeners: list[Listener] = []
        self._watches = _Watches()
        # A dict, because a set of futures has an order of its own in each process.
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._connected = True
        self._connection = 0
        self._is_closed = False
        self._expiry: asyncio.TimerHandle | None = None
        self._id = ensemble.open(self)
        self._expired = False
        self._heard_at = ensemble.loop.time()
        self._up, self._down = _Way(ensemble), _Way(ensemble)
        self._mute = self._deaf = False
        self._held: list[Callable[[], object]] = []

    @property
    def session_id(self) -> int:
        return self._id

    @property
    def session_timeout(self) -> float:
        return self._timeout

    @property
    def is_connected(self) -> bool:
        """Return whether this side believes that there is a connection."""
        return self._connected

    @property
    def has_expired(self) -> bool:
        """Return whether the ensemble has ended the session, and this side has not learned of it yet."""
        return self._expired

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    # Faults

    @property
    def is_mute(self) -> bool:
        """Return whether the ensemble hears nothing of this side."""
        return self._mute

    @property
    def is_cut_off(self) -> bool:
        """Return whether a way is cut, there or back."""
        return self._mute or self._deaf

    def cut(self, *, there: bool, back: bool) -> None:
        """Cut ways, or heal them. Nobody notices at first: what is sent waits, and arrives when the ways are healed."""
        self._mute, self._deaf = there, back
        held, self._held = self._held, []
        for arrive in held:
            self._ensemble.loop.call_soon(arrive)

    def disconnect(self) -> None:
        """Break the connection, until `reconnect`: the session expires after its time-out."""
        if not self._connected:
            return
        self._connected = False
        self._connection += 1
        self._watches = _Watches()
        self.silence()
        if self._ensemble.listeners_first:
            self._report(SessionState.SUSPENDED)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(ConnectionLossError("the connection is lost"))
        if not self._ensemble.listeners_first:
            self._report(SessionState.SUSPENDED)

    def reconnect(self) -> None:
        """Connect again: in the same session, or in a new one if that has expired."""
        if self._connected or self._is_closed:
            return
        self.speak()
        self._connected = True
        self._timeout = min(self._asked, self._ensemble.longest_session)
        if self._expired:
            # A client learns of the expiry when it connects again.
            self._report(SessionState.EXPIRED)
            self._expired = False
            self._id = self._ensemble.open(self)
        self._report(SessionState.CONNECTED)

    def silence(self, heard_ago: float = 0.0) -> None:
        """Let the ensemble hear nothing any more: the session expires a time-out after it was heard last.

        Args:
            heard_ago: how long ago that was, in seconds; the last request that arrived may be a later sign of life.
        """
        if self._expiry is None and not self._expired:
            quiet = min(heard_ago, self._ensemble.loop.time() - self._heard_at)
            self._expiry = self._ensemble.loop.call_later(max(self._timeout - quiet, 0.0), self._expire)

    def speak(self) -> None:
        """Let the ensemble hear of the client again."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def tell(self, event: WatchEvent) -> None:
        """Call the watches of an event, a while later."""
        found: list[Watch] = []
        if event.change is Change.CHILDREN:
            found += self._watches.children.pop(event.path, [])
        else:
            found += self._watches.data.pop(event.path, [])
            if event.change is Change.DELETED:
                found += self._watches.children.pop(event.path, [])
        for watch in found:
            self._ensemble.loop.call_at(self._down.arrival(), self._notify, self._connection, watch, event)

    # Requests

    async def get(self, path: str, watch: Watch | None = None) -> Node | None:
        def look() -> Node | None:
            if watch is not None:
                self._watches.data.setdefault(path, []).append(watch)
            return self._ensemble.read(path) if self._ensemble.exists(path) else None

        return await self._request(look)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def look() -> list[str]:
            names = self._ensemble.names(path)
            if watch is not None:
                self._watches.children.setdefault(path, []).append(watch)
            return names

        return await self._request(look)

    async def create(
        self, path: str, data: bytes = b"", *, is_ephemeral: bool = False, is_sequential: bool = False
    ) -> str:
        return str(await self._one(Create(path, data, is_ephemeral, is_sequential)))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        result = await self._one(SetData(path, data, version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._one(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        return await self._request(lambda: self._ensemble.carry_out(operations, self._id))

    async def close(self) -> None:
        self.disconnect()
        self._is_closed = True
        self.speak()
        self._ensemble.end(self._id)

    # Inside

    async def _one(self, operation: Operation) -> Result:
        try:
            return (await self.multi([operation]))[0]
        except MultiError as error:
            raise error.reason from None

    async def _request(self, carry_out: Callable[[], T]) -> T:
        """Send a request; the ensemble carries it out when it arrives, whatever becomes of this process."""
        if not self._connected:
            raise ConnectionLossError("there is no connection")
        if self._expired:
            raise SessionExpiredError("the session has expired")
        waiting: asyncio.Future[T] = self._loop.create_future()
        self._waiting[waiting] = None
        self._ensemble.loop.call_at(self._up.arrival(), self._arrive, self._connection, carry_out, waiting)
        try:
            return await waiting
        finally:
            self._waiting.pop(waiting, None)

    def _arrive(self, connection: int, carry_out: Callable[[], T], waiting: asyncio.Future[T]) -> None:
        if connection != self._connection:
            return
        if self._mute:
            self._held.append(partial(self._arrive, connection, carry_out, waiting))
            return
        self._heard_at = self._ensemble.loop.time()
        if self._expired:
            # The ensemble has closed the connection.
            expired = SessionExpiredError("the session has expired")
            self._ensemble.loop.call_at(self._down.arrival(), self._answer, connection, waiting, None, expired)
            return
        try:
            result, error = carry_out(), None
        except ZooKeeperError as failure:
            result, error = None, failure
        self._ensemble.loop.call_at(self._down.arrival(), self._answer, connection, waiting, result, error)

    def _answer(
        self, connection: int, waiting: asyncio.Future[Any], result: object, error: ZooKeeperError | None
    ) -> None:
        if connection != self._connection or waiting.done():
            return
        if self._deaf:
            self._held.append(partial(self._answer, connection, waiting, result, error))
        elif error is None:
            waiting.set_result(result)
        else:
            waiting.set_exception(error)

    def _notify(self, connection: int, watch: Watch, event: WatchEvent) -> None:
        if connection != self._connection:
            return
        if self._deaf:
            self._held.append(partial(self._notify, connection, watch, event))
        else:
            self._loop.call_soon(watch, event)

    def _expire(self) -> None:
        self._expiry = None
        self._expired = True
        self._ensemble.end(self._id)

    def _report(self, state: SessionState) -> None:
        for listener in self._listeners:
            self._loop.call_soon(listener, state)


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name
