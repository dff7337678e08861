"""A login: the present token of a source, and the next one in time.

All connections of a process that use the same options share one login, so that each token is requested once. A token
is replaced some time before it ends, as Java's `ExpiringCredentialRefreshingLogin` does. Java has a thread that waits
for this time. Here the first connection that authenticates after it waits for the new token, and takes the present
one if there is no new one.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.security.oauth.endpoint import TokenEndpointUnavailableError
from kafkalog.client.security.oauth.options import OAuthOptions
from kafkalog.client.security.oauth.sources import TokenSource
from kafkalog.client.security.oauth.token import Token

logger = logging.getLogger(__name__)

AFTER_FAILURE_S = 10.0
"""The time to use a token that could not be replaced, before the next try; as in Java."""
FAILURE_KEPT_S = 1.0
"""The time that a failure is reported without another request: a client's threads meet it one after another."""
PATIENCE_S = 2.0
"""The time to wait for a new token while the present one can still be used."""
UNKNOWN_LIFE_S = 300.0
"""The time that a token is used before the next one is requested, where its end is unknown."""
_ENDING_S = 1.0
"""A token that ends so soon is not sent any more."""
_KEPT_LOGINS = 64


class Login:
    """The tokens of one source. Several threads may use it.

    Args:
        source: Gives the tokens.
        options: When a token is replaced.
        clock: The time in seconds since 1970.
    """

    def __init__(self, source: TokenSource, options: OAuthOptions, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._options = options
        self._clock = clock
        self._lock = threading.Lock()
        self._present: Token | None = None
        self._refresh_at = 0.0
        self._request: Future[Token] | None = None
        """The request for a token that is under way."""
        self._has_succeeded = False
        self._failure: tuple[float, AuthenticationError] | None = None
        """The latest failure without a token to use, and when it was."""

    def token(self, deadline: float) -> Token:
        """Return a token that can be used now; request one where there is none, or where the present one is old.

        Args:
            deadline: How long to wait for it (`time.monotonic`). A request goes on after that, for the next call.

        Raises:
            AuthenticationError: The source refuses to give a token.
            ConnectionFailedError: The source, which has given tokens before, does not answer.
            ClientTimeoutError: The token did not come in time.
        """
        with self._lock:
            present = self._present
            if present is not None and self._clock() < self._refresh_at:
                return present
            usable = present if present is not None and self._is_usable(present) else None
            if usable is None and self._failure is not None and self._clock() < self._failure[0] + FAILURE_KEPT_S:
                raise self._told(self._failure[1])
            request = self._request
            if request is None:
                request = self._request = self._begin()
        patience = min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        try:
            return request.result(patience if usable is None else min(patience, PATIENCE_S))
        except FutureTimeoutError:
            if usable is not None:
                return usable
            raise ClientTimeoutError(f"no token came in time from {self._source.name}") from None
        except AuthenticationError as error:
            if usable is not None:
                return usable
            raise self._told(error) from error

    def refused(self, token: Token) -> None:
        """Forget a token that a broker has refused, so that the next connection gets another one.

        Raises:
            ConnectionFailedError: The token has ended since the connection got it, as short-lived tokens do where the
                broker or this host is slow. So the refusal says nothing about the configuration, and the next
                connection may succeed.
        """
        with self._lock:
            if self._present is token:
                self._present = None
        if not self._is_usable(token):
            raise ConnectionFailedError(
                f"the token from {self._source.name} has ended while the broker was asked; another one is needed"
            )

    # Inside

    def _told(self, error: AuthenticationError) -> AuthenticationError | ConnectionFailedError:
        """Make the error to raise. Several threads may wait for the same request; each raises an error of its own."""
        if self._has_succeeded and isinstance(error, TokenEndpointUnavailableError):
            # It is an outage, and the configuration is right. The client tries again until its own deadline.
            return ConnectionFailedError(str(error))
        return AuthenticationError(str(error))

    def _is_usable(self, token: Token) -> bool:
        return self._clock() + _ENDING_S < token.expires_at

    def _begin(self) -> Future[Token]:
        """Begin a request on a thread of its own; the caller holds the lock."""
        request: Future[Token] = Future()
        threading.Thread(target=self._fetch, args=(request,), name="kafkalog-token", daemon=True).start()
        return request

    def _fetch(self, request: Future[Token]) -> None:
        try:
            token = self._source.fetch()
            if not self._is_usable(token):
                raise AuthenticationError(
                    f"the token from {self._source.name} has ended; check where it comes from, and this host's clock"
                )
        except AuthenticationError as error:
            self._fail(request, error)
        except Exception as error:  # a defect must not leave the waiting threads waiting
            logger.exception("no token from %s", self._source.name)
            self._fail(request, AuthenticationError(f"no token from {self._source.name}: {error}"))
        else:
            with self._lock:
                self._present = token
                self._refresh_at = refresh_time(token, self._clock(), self._options, random.random())
                self._has_succeeded = True
                self._request = None
            request.set_result(token)

    def _fail(self, request: Future[Token], error: AuthenticationError) -> None:
        """Note a failure and end its request: it may be that nobody waits for it any more."""
        with self._lock:
            self._request = None
            now = self._clock()
            present = self._present
            usable = present if present is not None and self._is_usable(present) else None
            if usable is None:
                self._failure = now, error
            else:
                self._refresh_at = min(now + AFTER_FAILURE_S, usable.expires_at - _ENDING_S)
        if usable is not None:
            seconds = usable.expires_at - now
            logger.warning("the token could not be replaced; it can be used for another %.0f s: %s", seconds, error)
        request.set_exception(error)


def refresh_time(token: Token, now: float, options: OAuthOptions, chance: float) -> float:
    """Compute when to replace a token, in seconds since 1970.

    The rules are those of Java's `ExpiringCredentialRefreshingLogin.refreshMs`. Java's clients take no token that does
    not say when it ends.

    Args:
        token: The token, which was received just now.
        now: The time.
        options: The properties `sasl.login.refresh.…`.
        chance: A random number from 0 to 1.
    """
    ends = token.expires_at
    if ends == float("inf"):
        return now + UNKNOWN_LIFE_S
    share = options.refresh_window_factor + options.refresh_window_jitter * chance
    if now + options.refresh_min_period + options.refresh_buffer > ends:
        return now + (ends - now) * share
    start = now if token.issued_at is None else token.issued_at
    proposed = start + (ends - start) * share
    return min(max(proposed, now + options.refresh_min_period), ends - options.refresh_buffer)


class _Logins:
    """The logins of this process, by what describes them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all logins; in a child process, nobody else has the lock or the threads of its parent."""
        self._lock = threading.Lock()
        self._known: dict[object, Login] = {}

    def get(self, key: object, make: Callable[[], Login]) -> Login:
        """Return the login of a key, made by `make` unless it is known."""
        with self._lock:
            login = self._known.get(key)
            if login is None:
                if len(self._known) >= _KEPT_LOGINS:
                    self._known.pop(next(iter(self._known)))
                login = self._known[key] = make()
            return login


_logins = _Logins()
os.register_at_fork(after_in_child=_logins.forget)


def shared_login(key: object, make: Callable[[], Login]) -> Login:
    """Return the login of this process for a key; make it by `make` unless it is known.

    Two clients with equal keys share a login, and with it the token.
    """
    return _logins.get(key, make)
