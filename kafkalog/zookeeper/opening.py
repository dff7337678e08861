"""Opens a session with ZooKeeper over kazoo, or tells in one line why there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from kafkalog.zookeeper.connections import ConnectionHandler
from kafkalog.zookeeper.over_kazoo import reconnecting
from kafkalog.zookeeper.security import PLAIN, Security
from kafkalog.zookeeper.withdrawing import WithdrawingClient

_LOOK_S = 0.05
_MECHANISM = "DIGEST-MD5"


class OpenError(Exception):
    """There is no session; the text says why, and what to change."""


class LoginRefusedError(OpenError):
    """ZooKeeper refuses the login."""


def open_client(
    address: str,
    *,
    session_timeout: float,
    connect_timeout: float,
    security: Security = PLAIN,
    on_grant: Callable[[float], None] | None = None,
    is_given_up: Callable[[], bool] = lambda: False,
) -> WithdrawingClient:
    """Open a session; blocks until it is there, or cannot come.

    Args:
        address: `host:port`, or several with commas between them; a chroot may follow (`/kafka`).
        session_timeout: After so many seconds without a word from this client ZooKeeper ends the session.
        connect_timeout: How long to try, in seconds.
        security: What secures it.
        on_grant: Called on kazoo's thread with the time-out of the session in seconds, at each connection: what
            ZooKeeper grants, or `session_timeout` if that is less. `over_kazoo.granted_timeout` returns it, too.
        is_given_up: Asked again and again; the attempts end once nobody waits for the session any more.

    Raises:
        OpenError: No server answers, or TLS cannot be spoken with it, or `address` is none.
        LoginRefusedError: The login is refused.
    """
    handler = ConnectionHandler(security.tls, session_timeout, on_grant)
    login = security.login
    try:
        client = WithdrawingClient(
            hosts=address,
            timeout=session_timeout,
            handler=handler,
            use_ssl=security.tls is not None,
            sasl_options=login and {"mechanism": _MECHANISM, "username": login.username, "password": login.password},
            connection_retry=reconnecting(),
        )
    except ValueError as error:
        raise OpenError(f"{address} is no address of a ZooKeeper: {error}") from None
    refused = _start(client, handler, connect_timeout, is_given_up, is_alone="," not in address)
    failure: str | None = handler.failure or "none was reached"
    if client.connected:
        failure = None if login is None else _failure_of_login(client, connect_timeout)
    if failure is None and not refused.is_set():
        return client
    end_client(client)
    if login is not None and refused.is_set():
        raise LoginRefusedError(
            f"ZooKeeper at {address} refuses the login of the user {login.username}: the password is wrong, or it "
            "knows no such user"
        )
    raise OpenError(f"no ZooKeeper answers at {address} (zookeeper.connect): {failure}")


def end_client(client: KazooClient) -> None:
    """End the session of a client: its ephemeral nodes are deleted at once."""
    client.stop()
    client.close()


def _start(
    client: KazooClient, handler: ConnectionHandler, seconds: float, is_given_up: Callable[[], bool], *, is_alone: bool
) -> threading.Event:
    """Start a client, and wait for its first connection, unless it cannot come.

    Args:
        client: The client.
        handler: Its handler.
        seconds: How long to wait.
        is_given_up: Whether nobody waits for the connection any more.
        is_alone: Whether there is one server only, so that no other may answer.

    Returns:
        What is set when the login is refused.
    """
    refused = threading.Event()

    def look(state: str) -> None:
        # On kazoo's thread, which leaves this state at once.
        if client.client_state == KeeperState.AUTH_FAILED:
            refused.set()

    client.add_listener(look)
    started = client.start_async()
    end = time.monotonic() + seconds
    while not started.wait(_LOOK_S) and time.monotonic() < end:
        if refused.is_set() or is_given_up() or (is_alone and handler.is_hopeless):
            break
    return refused


def _failure_of_login(client: KazooClient, seconds: float) -> str | None:
    """Return why a client that has connected cannot ask; None if it can.

    The answer to the login comes before that to any request.
    """
    try:
        client.exists_async("/").get(timeout=seconds)
    except (exceptions.KazooException, KazooTimeoutError) as error:
        return f"{type(error).__name__}: {error}"
    return None
