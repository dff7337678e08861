"""A session with ZooKeeper over kazoo, which carries out steps.

kazoo keeps the session alive on a thread of its own, and opens a new one when the old one has expired. It forgets all
watches when it loses the connection, and tells of both by its states.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType

from kafkalog.client.closing import Closing
from kafkalog.client.zookeeper import steps
from kafkalog.client.zookeeper.steps import Children, CurrentSession, Read, Steps, Write, WriteError
from kafkalog.zookeeper.opening import LoginRefusedError, OpenError, end_client, open_client
from kafkalog.zookeeper.over_kazoo import STATES, failure_of, request_of, session_id, stat_of
from kafkalog.zookeeper.security import PLAIN, Security
from kafkalog.zookeeper.values import Node, SessionState

logger = logging.getLogger(__name__)
T = TypeVar("T")

SESSION_TIMEOUT_S = 6.0
_CHANGES = (EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD)

_ERRORS: tuple[tuple[type[Exception], type[steps.ZooKeeperError]], ...] = (
    (exceptions.NodeExistsError, steps.NodeExistsError),
    (exceptions.NoNodeError, steps.NoNodeError),
    (exceptions.NotEmptyError, steps.NotEmptyError),
    (exceptions.BadVersionError, steps.BadVersionError),
    (exceptions.SessionExpiredError, steps.SessionExpiredError),
    (exceptions.NoAuthError, steps.AccessDeniedError),
    (exceptions.AuthFailedError, steps.AccessDeniedError),
    (exceptions.ConnectionLoss, steps.ConnectionLossError),
    (exceptions.ConnectionClosedError, steps.ConnectionLossError),
    (exceptions.OperationTimeoutError, steps.ConnectionLossError),
)


class ZooKeeperSession(Closing):
    """A session. Several threads may use it.

    Args:
        address: `host:port`, or several with commas between them; a chroot may follow (`/kafka`).
        session_timeout: After so many seconds without a word from this client ZooKeeper ends the session.
        connect_timeout: How long to try at first, in seconds.
        security: What secures it.
        on_watch: Called with the value of a watch when its node has changed; must return at once.
        on_state: Called with each change of the session's state; must return at once.
        on_grant: Called with the time-out of the session in seconds, at each connection: what ZooKeeper grants, or
            `session_timeout` if that is less. It must return at once.
        on_answer: Called after each answer, with the time (`time.monotonic`) at which its request was sent.

    Raises:
        ConnectionLossError: No server answers, or it does not speak TLS as `security` says.
        AccessDeniedError: The login is refused.
    """

    def __init__(
        self,
        address: str,
        *,
        session_timeout: float = SESSION_TIMEOUT_S,
        connect_timeout: float | None = None,
        security: Security = PLAIN,
        on_watch: Callable[[Any], None] | None = None,
        on_state: Callable[[SessionState], None] | None = None,
        on_grant: Callable[[float], None] | None = None,
        on_answer: Callable[[float], None] | None = None,
    ) -> None:
        self._on_watch = on_watch
        self._on_state = on_state
        self._on_answer = on_answer
        self._timeout = session_timeout
        self._watches: dict[Any, Callable[[Any], None]] = {}
        self._set_acl = security.set_acl
        try:
            self._client = open_client(
                address,
                session_timeout=session_timeout,
                connect_timeout=session_timeout if connect_timeout is None else connect_timeout,
                security=security,
                on_grant=on_grant,
            )
        except LoginRefusedError as error:
            raise steps.AccessDeniedError(str(error)) from None
        except OpenError as error:
            raise steps.ConnectionLossError(str(error)) from None
        self._client.add_listener(self._changed)

    @property
    def session_id(self) -> int:
        """The present session."""
        return session_id(self._client)

    def run(self, work: Steps[T], others: Callable[[Any], Any] | None = None) -> T:
        """Carry out steps and return their result.

        Args:
            work: The steps.
            others: Carries out effects that are none of ZooKeeper's, and returns what they bring.

        Raises:
            ZooKeeperError: A request failed, and the steps do not handle it.
        """
        outcome: Any = None
        error: Exception | None = None
        while True:
            try:
                effect = work.send(outcome) if error is None else work.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome, error = None, None
            try:
                if isinstance(effect, Read | Children | Write | CurrentSession):
                    outcome = self.perform(effect)
                elif others is not None:
                    outcome = others(effect)
                else:
                    raise TypeError(f"{effect!r} is no request to ZooKeeper")
            except Exception as failure:
                error = failure

    def perform(self, effect: Read | Children | Write | CurrentSession) -> Any:
        """Carry out one effect.

        Raises:
            ZooKeeperError: It failed.
        """
        match effect:
            case Read():
                return self._read(effect)
            case Children():
                return self._children(effect)
            case Write():
                return self._write(effect)
        return self.session_id

    def close(self) -> None:
        """End the session: its ephemeral nodes are deleted at once."""
        self._on_state = self._on_watch = None
        end_client(self._client)

    # Inside

    def _read(self, effect: Read) -> Node | None:
        watch = self._watch(effect.watch)
        while True:
            try:
                data, stat = self._ask(self._client.get_async, effect.path, watch)
            except steps.NoNodeError:
                # A read sets no watch on a node that does not exist.
                if watch is None or self._ask(self._client.exists_async, effect.path, watch) is None:
                    return None
            else:
                return Node(data or b"", stat_of(stat))

    def _children(self, effect: Children) -> list[str] | None:
        watch = self._watch(effect.watch)
        while True:
            try:
                return list(self._ask(self._client.get_children_async, effect.path, watch))
            except steps.NoNodeError:
                if watch is None or self._ask(self._client.exists_async, effect.path, watch) is None:
                    return None

    def _write(self, effect: Write) -> None:
        results: Sequence[Any] = self._ask(
            request_of(self._client, effect.operations, set_acl=self._set_acl).commit_async
        )
        if (failure := failure_of(results)) is not None:
            index, reason = failure
            raise WriteError(index, effect.operations[index].path, _translated(reason))

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        sent_at = time.monotonic()
        try:
            answer = self._answer(call(*arguments))
        except steps.ConnectionLossError:
            raise
        except exceptions.NoNodeError as error:
            self._answered(sent_at)
            raise _translated(error) from error
        except exceptions.NoAuthError as error:
            raise steps.AccessDeniedError(steps.denial(str(arguments[0]))) from error
        except Exception as error:
            raise _translated(error) from error
        self._answered(sent_at)
        return answer

    def _answer(self, asked: Any) -> Any:
        """Wait for the answer to a request. One that is not sent by then is withdrawn."""
        try:
            return asked.get(timeout=self._timeout)
        except KazooTimeoutError:
            if self._client.withdraw(asked):
                raise steps.ConnectionLossError(
                    f"no connection to ZooKeeper for {self._timeout:g} s: the request was not sent"
                ) from None
            if asked.ready():
                return asked.get()
            raise steps.ConnectionLossError(
                f"ZooKeeper has not answered for {self._timeout:g} s: the request may still be carried out"
            ) from None

    def _answered(self, sent_at: float) -> None:
        if self._on_answer is not None:
            self._on_answer(sent_at)

    def _watch(self, value: Any) -> Callable[[Any], None] | None:
        if value is None:
            return None
        # kazoo keeps a set of a node's watches: the same function is called once.
        if value not in self._watches:

            def changed(event: Any) -> None:
                # On kazoo's thread.
                if event.type in _CHANGES and self._on_watch is not None:
                    self._on_watch(value)

            self._watches[value] = changed
        return self._watches[value]

    def _changed(self, state: str) -> None:
        # On kazoo's thread.
        if self._on_state is not None:
            self._on_state(STATES[state])


def _translated(error: Exception) -> steps.ZooKeeperError:
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(str(error) or ours.__name__.removesuffix("Error"))
    return steps.ZooKeeperError(f"ZooKeeper: {type(error).__name__}: {error}")
