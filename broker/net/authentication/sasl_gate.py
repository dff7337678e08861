"""Authenticates the client of one connection by SASL, in front of the dispatcher that serves its requests.

A gate is the dispatcher of a connection until its client is authenticated. Then the connection gets the dispatcher that
serves requests, so that they cost nothing more. Where a session ends (KIP-368) the gate stays in front: it lets the
client renew the session, and closes the connection at the first request after the end.

A failure is answered only after `connection.failed.authentication.delay.ms`. So nobody can try many passwords on a
connection, and the time says nothing about the step that failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct

from broker.net.authentication.counts import AuthenticationCounts
from broker.net.authentication.unauthenticated import UnauthenticatedConnections
from broker.net.connection import Connection, Dispatcher
from broker.net.framing import FrameLimits
from broker.net.limits.memory import RequestMemory
from broker.net.limits.told import Told
from broker.net.sockets.event_loop import Clock
from broker.security.sasl.authenticator import (
    Accepted,
    Answers,
    Authenticator,
    Evaluate,
    Offer,
    Refused,
    Reply,
    Step,
)
from broker.security.sasl.mechanisms.interface import Identity, SaslError
from broker.system.workers import Workers
from kafkalog.protocol.api_keys import ApiKey

logger = logging.getLogger(__name__)

FAREWELL_S = 0.25
"""The time for which a connection stays open after the answer to a failed authentication. Some clients, such as
kafka-python, overlook an answer that comes together with the end of the connection, and try again for ever."""
RENEWAL_PAUSE_S = 1.0
"""The shortest time between two renewals of a session; a SaslHandshake before that is answered as a request."""
_API_KEY = Struct(">h")
_HANDSHAKE_HEAD = _API_KEY.pack(ApiKey.SASL_HANDSHAKE)


@dataclass(slots=True, eq=False)
class SaslListener:
    """The things that the gates of one listener share."""

    offer: Offer
    before: FrameLimits
    """The longest frame before authentication (`sasl.server.max.receive.size`)."""
    after: FrameLimits
    """The longest frame of authenticated clients (`socket.request.max.bytes`)."""
    memory: RequestMemory
    """The memory for requests of authenticated clients. Frames of others do not count in it: they could fill it."""
    failure_delay: Callable[[], float]
    """Returns the seconds until a failure is answered."""
    served: Dispatcher
    """Serves the requests of authenticated clients."""
    answers: Callable[[Connection], Answers]
    workers: Workers
    clock: Clock
    now_ms: Callable[[], int]
    unauthenticated: UnauthenticatedConnections
    told: Told
    counts: AuthenticationCounts = field(default_factory=AuthenticationCounts)


class SaslGate:
    """The dispatcher of one connection; see the module.

    Args:
        listener: what the gates of the listener share.
    """

    __slots__ = ("_authenticator", "_expires", "_listener", "_renewed", "_session", "_since")

    def __init__(self, listener: SaslListener) -> None:
        self._listener = listener
        self._authenticator: Authenticator | None = None
        """The authentication under way."""
        self._session: tuple[str, Identity] | None = None
        """The mechanism and the client of the session."""
        self._expires = float("inf")
        """The end of the session, by the clock."""
        self._renewed = float("-inf")
        """The time at which the last renewal began."""
        self._since = 0.0
        """The time at which the authentication under way began."""

    def guard(self, connection: Connection) -> None:
        """Begin to guard a new connection."""
        listener = self._listener
        self._authenticator = Authenticator(listener.offer, listener.answers(connection))
        connection.admit(listener.before, RequestMemory(0))
        listener.unauthenticated.add(connection)

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Take a frame of the authentication, or a request of a session that ends."""
        if self._authenticator is None and not self._renews(connection, frame):
            if self._listener.clock.time() >= self._expires:
                self._end_session(connection)
            else:
                self._listener.served.dispatch(connection, frame)
            return
        assert self._authenticator is not None
        self._take(connection, self._authenticator, self._authenticator.received(bytes(frame)))

    def may_follow(self, head: memoryview) -> bool:
        """Return whether a request may be served while earlier ones wait: none of an authentication does."""
        return self._authenticator is None and self._listener.served.may_follow(head)

    def _renews(self, connection: Connection, frame: memoryview) -> bool:
        """Begin to renew the session if the frame asks for that; return whether it does."""
        now = self._listener.clock.time()
        if frame[: _API_KEY.size] != _HANDSHAKE_HEAD or now - self._renewed < RENEWAL_PAUSE_S:
            return False
        self._renewed = self._since = now
        answer_versions = self._listener.answers(connection)
        self._authenticator = Authenticator(self._listener.offer, answer_versions, self._session)
        return True

    def _end_session(self, connection: Connection) -> None:
        self._listener.counts.expired += 1
        logger.info(
            "closing the connection of %s from %s: its session is over (connections.max.reauth.ms, or the end of its "
            "credential), and it did not authenticate again",
            connection.session.principal,
            connection.peer,
        )
        connection.close()

    # -- steps

    def _take(self, connection: Connection, authenticator: Authenticator, step: Step) -> None:
        match step:
            case Reply(chunks):
                connection.reply(chunks)
            case Evaluate(mechanism) if mechanism.is_slow:
                self._evaluate_slowly(connection, authenticator, step)
            case Evaluate():
                self._evaluated(connection, authenticator, _answer(step))
            case Accepted():
                self._accept(connection, step)
            case Refused():
                self._refuse(connection, step)

    def _evaluate_slowly(self, connection: Connection, authenticator: Authenticator, step: Evaluate) -> None:
        answering = self._listener.workers.run(_answer, step)

        def done(future: asyncio.Future[bytes | SaslError | None]) -> None:
            if not future.cancelled() and not connection.closed:
                connection.state = None
                self._evaluated(connection, authenticator, future.result())

        connection.state = _Cancelled(answering.cancel)
        answering.add_done_callback(done)

    def _evaluated(
        self, connection: Connection, authenticator: Authenticator, result: bytes | SaslError | None
    ) -> None:
        self._take(connection, authenticator, authenticator.evaluated(result, self._listener.now_ms()))

    def _accept(self, connection: Connection, step: Accepted) -> None:
        listener, session = self._listener, connection.session
        is_first = self._session is None
        self._authenticator = None
        self._session = step.mechanism, step.identity
        self._expires = float("inf")
        if step.lifetime_ms is not None:
            self._expires = listener.clock.time() + step.lifetime_ms / 1000
        listener.counts.succeeded(is_first, listener.clock.time() - self._since, ends=step.lifetime_ms is not None)
        if is_first:
            session.authenticated(step.identity.name, step.mechanism, is_of_token=step.identity.is_of_token)
            listener.unauthenticated.remove(connection)
            connection.admit(listener.after, listener.memory)
        connection.serve_by(self if step.lifetime_ms is not None else listener.served)
        connection.reply(step.chunks)

    def _refuse(self, connection: Connection, step: Refused) -> None:
        listener = self._listener
        if not step.is_at_once:
            listener.counts.failed(is_first=self._session is None)
        peer, name = connection.peer, connection.endpoint.name
        kind = "credentials" if step.chunks else "requests"
        listener.told.warn(peer, kind, "closing connection from %s on %s: %s", peer, name, step.reason)
        if step.is_at_once:
            connection.end()
            return

        def answer() -> None:
            connection.state = None
            if not step.chunks:
                connection.end()
                return
            # Nothing more is received.
            connection.hold_back(2 * FAREWELL_S)
            connection.reply(step.chunks)
            connection.state = _Cancelled(listener.clock.call_later(FAREWELL_S, connection.end).cancel)

        connection.state = _Cancelled(listener.clock.call_later(listener.failure_delay(), answer).cancel)


class _Cancelled:
    """An operation that a connection waits for, and that is cancelled when it closes."""

    __slots__ = ("_cancel",)

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        """Cancel it."""
        self._cancel()


def _answer(step: Evaluate) -> bytes | SaslError | None:
    """Return the mechanism's answer, or its failure. Runs on a worker if the mechanism is slow."""
    try:
        return step.mechanism.answer(step.message)
    except SaslError as error:
        return error
    except Exception as error:
        # The client gets the same answer as for wrong credentials: the reason is only for the log.
        logger.exception("a SASL mechanism failed")
        return SaslError(f"the mechanism failed: {type(error).__name__}")
