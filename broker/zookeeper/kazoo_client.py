"""A session with ZooKeeper over kazoo.

kazoo works on threads of its own: one talks to ZooKeeper and keeps the session alive, others run callbacks. Results,
watches and states are handed to the event loop from there, in the order in which they came.

When kazoo loses the connection it fails all requests that were sent, and forgets all watches. A request that was not
sent would wait for the next connection, however long that takes. So requests are refused here while there is no
connection, and a request is withdrawn where its caller no longer waits for the answer. When a session has expired kazoo
opens a new one by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions
from kazoo.protocol.states import EventType

from broker.zookeeper.interface import (
    ANY_VERSION,
    AccessDeniedError,
    BadVersionError,
    Change,
    ConnectionLossError,
    Create,
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
from kafkalog.zookeeper.opening import LoginRefusedError, OpenError, end_client, open_client
from kafkalog.zookeeper.over_kazoo import (
    STATES,
    access_list,
    failure_of,
    granted_timeout,
    request_of,
    session_id,
    stat_of,
)
from kafkalog.zookeeper.security import PLAIN, Security
from kafkalog.zookeeper.withdrawing import WithdrawingClient

_CHANGES = {
    EventType.CREATED: Change.CREATED,
    EventType.DELETED: Change.DELETED,
    EventType.CHANGED: Change.DATA,
    EventType.CHILD: Change.CHILDREN,
}
_ERRORS: tuple[tuple[type[Exception], type[ZooKeeperError]], ...] = (
    (exceptions.NodeExistsError, NodeExistsError),
    (exceptions.NoNodeError, NoNodeError),
    (exceptions.NotEmptyError, NotEmptyError),
    (exceptions.BadVersionError, BadVersionError),
    (exceptions.SessionExpiredError, SessionExpiredError),
    (exceptions.NoAuthError, AccessDeniedError),
    (exceptions.AuthFailedError, AccessDeniedError),
    # The connection broke, was closed, or there is none.
    (exceptions.ConnectionLoss, ConnectionLossError),
    (exceptions.ConnectionClosedError, ConnectionLossError),
    (exceptions.OperationTimeoutError, ConnectionLossError),
)


def translated(error: BaseException) -> ZooKeeperError:
    """Return the error of this package for one of kazoo's."""
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(str(error))
    return ZooKeeperError(f"{type(error).__name__}: {error}")


class KazooSession:
    """A session over kazoo; see the module. Make it with `connect`."""

    def __init__(self, client: WithdrawingClient, loop: asyncio.AbstractEventLoop, *, set_acl: bool = False) -> None:
        self._client = client
        self._loop = loop
        self._set_acl = set_acl
        self._listeners: list[Listener] = []
        self._is_closing = False
        self._lock = threading.Lock()
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        """The calls that kazoo's threads have handed over, and the loop has not taken yet; guarded by the lock."""
        self._open: set[asyncio.Future[Any]] = set()
        """The requests that were begun on the present connection and are not answered; guarded by the lock."""
        client.add_listener(self._changed)

    @classmethod
    async def connect(
        cls, address: str, *, session_timeout: float, connect_timeout: float, security: Security = PLAIN
    ) -> KazooSession:
        """Open a session.

        Args:
            address: `host:port`, or several with commas between them; a chroot may follow (`/kafka`), which must exist.
            session_timeout: after so many seconds without a word from this client ZooKeeper ends the session.
            connect_timeout: how long to try, in seconds.
            security: what secures it.

        Raises:
            ConnectionLossError: no server answers.
            AccessDeniedError: the login is refused.
        """
        loop = asyncio.get_running_loop()
        opening = _Opening(address, session_timeout, connect_timeout, security)
        try:
            client = await loop.run_in_executor(None, opening.open)
        except asyncio.CancelledError:
            await loop.run_in_executor(None, opening.give_up)
            raise
        except LoginRefusedError as error:
            raise AccessDeniedError(str(error)) from None
        except OpenError as error:
            raise ConnectionLossError(str(error)) from None
        return cls(client, loop, set_acl=security.set_acl)

    @property
    def session_id(self) -> int:
        return session_id(self._client)

    @property
    def session_timeout(self) -> float:
        return granted_timeout(self._client)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Node | None:
        while True:
            with contextlib.suppress(NoNodeError):
                data, stat = await self._request(self._client.get_async, path, self._watch(watch))
                return Node(data or b"", stat_of(stat))
            # A read sets no watch on a node that does not exist.
            if watch is None or await self._request(self._client.exists_async, path, self._watch(watch)) is None:
                return None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return list(await self._request(self._client.get_children_async, path, self._watch(watch)))

    async def create(
        self, path: str, data: bytes = b"", *, is_ephemeral: bool = False, is_sequential: bool = False
    ) -> str:
        # Kafka's brokers take a node with empty data for a damaged one, and one without data for an empty one.
        content = data or None
        acl = access_list(path, set_acl=self._set_acl)
        return str(await self._request(self._client.create_async, path, content, acl, is_ephemeral, is_sequential))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return stat_of(await self._request(self._client.set_async, path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._request(self._client.delete_async, path, version)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        results = await self._request(request_of(self._client, operations, set_acl=self._set_acl).commit_async)
        if (failure := failure_of(results)) is not None:
            index, reason = failure
            raise MultiError(index, translated(reason))
        return [_result(each, result) for each, result in zip(operations, results, strict=True)]

    async def close(self) -> None:
        self._is_closing = True
        await self._loop.run_in_executor(None, end_client, self._client)

    # Inside

    async def _request(self, call: Callable[..., Any], *arguments: Any) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()

        def answered(result: Any) -> None:
            # On kazoo's thread.
            error = result.exception
            self._call_soon(_settle, answer, None if error else result.value, error and translated(error))

        # Noted before the look at the connection: if that is lost after the look, `_changed` finds the request. kazoo
        # itself may have failed all others by then, and would keep this one for the next connection.
        with self._lock:
            self._open.add(answer)
        try:
            if not self._client.connected:
                raise ConnectionLossError("there is no connection")
            asked = call(*arguments)
            asked.rawlink(answered)
            try:
                return await answer
            finally:
                if not asked.ready():
                    self._client.withdraw(asked)
        finally:
            answer.cancel()
            with self._lock:
                self._open.discard(answer)

    def _watch(self, watch: Watch | None) -> Callable[[Any], None] | None:
        if watch is None:
            return None

        def changed(event: Any) -> None:
            # This runs on kazoo's thread. Listeners report a lost connection.
            change = _CHANGES.get(event.type)
            if change is not None:
                self._call_soon(watch, WatchEvent(change, event.path))

        return changed

    def _changed(self, state: str) -> None:
        """Hand a change of state to the loop; kazoo calls this on its own thread."""
        if STATES[state] is not SessionState.CONNECTED:
            with self._lock:
                lost, self._open = self._open, set()
            for answer in lost:
                self._call_soon(_settle, answer, None, ConnectionLossError("the connection is lost"))
        if self._is_closing:
            return
        for listener in self._listeners:
            self._call_soon(listener, STATES[state])

    def _call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have the loop call something; called on kazoo's threads."""
        with self._lock:
            self._calls.append((call, arguments))
            if len(self._calls) > 1:
                # The loop is woken already: thousands of answers come at once.
                return
        with contextlib.suppress(RuntimeError):
            # The loop may have been closed while kazoo's threads end.
            self._loop.call_soon_threadsafe(self._take_calls)

    def _take_calls(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
        for call, arguments in calls:
            self._loop.call_soon(call, *arguments)


class _Opening:
    """Opens a client on a thread, for somebody who may not wait for it any more when it is open."""

    def __init__(self, address: str, session_timeout: float, connect_timeout: float, security: Security) -> None:
        self._is_given_up = threading.Event()
        self._lock = threading.Lock()
        self._client: WithdrawingClient | None = None
        self._open = functools.partial(
            open_client,
            address,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            security=security,
            is_given_up=self._is_given_up.is_set,
        )

    def open(self) -> WithdrawingClient:
        """Return the client.

        Raises:
            OpenError: There is no session.
        """
        client = self._open()
        with self._lock:
            if not self._is_given_up.is_set():
                self._client = client
                return client
        end_client(client)
        raise OpenError("nobody waits for the session any more")

    def give_up(self) -> None:
        """Let `open` end soon, and end the session if it is open already."""
        with self._lock:
            self._is_given_up.set()
            client = self._client
        if client is not None:
            end_client(client)


def _settle(answer: asyncio.Future[Any], value: Any, error: ZooKeeperError | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)


def _result(operation: Operation, result: Any) -> Result:
    match operation:
        case Create():
            return str(result)
        case SetData():
            return stat_of(result)
    return None
