"""Opens kazoo's connections: plain, or with TLS by a context of ours, which kazoo's own options cannot describe.

It also remembers how far an attempt came, for the message where no session comes about. And it reads the time-out that
the server grants to the session, which kazoo keeps to itself. The first answer on a connection tells it:
`ConnectResponse` of ZooKeeper's `zookeeper.jute`.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from kafkalog.zookeeper.buffering import BufferedConnection, Readable, ReadingEnd, Wakeup, WritingEnd, wait

logger = logging.getLogger(__name__)

_GRANT = struct.Struct(">iii")
"""The length of the first answer, the version of the protocol, and the time-out in ms."""
_PLAIN = (
    "it accepts connections and ends them. If the port is ZooKeeper's secureClientPort, set zookeeper.ssl.client.enable"
)
_NOT_TLS = (
    "it does not speak TLS there. Name its secureClientPort in zookeeper.connect, or unset zookeeper.ssl.client.enable"
)

_REMEDY = "It may want another certificate of its clients (zookeeper.ssl.keystore.location)"


class ConnectionHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler, with connections of ours. kazoo calls it on its own thread.

    Args:
        tls: Returns the context of a new connection; None for connections without TLS.
        timeout: The time-out of sessions that is asked for, in seconds.
        on_grant: Called on kazoo's thread with `granted` at each connection, before kazoo can send requests.

    Attributes:
        granted: The time-out of the session in seconds: what the server grants, or what was asked for if that is less.
            A server may grant another one when the session goes on with it.
        failure: What the last attempt to connect has come to, also while there is another one; None before the first.
        is_hopeless: Whether another attempt would fail, too.
    """

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext] | None,
        timeout: float,
        on_grant: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__()
        self._tls = tls
        self._timeout = timeout
        self._on_grant = on_grant
        self.granted = timeout
        self.failure: str | None = None
        self.is_hopeless = False

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **others: Any
    ) -> BufferedConnection:
        """Open a connection; `others` are what kazoo's own options say of TLS.

        Raises:
            OSError: It cannot be opened.
        """
        try:
            connection = socket.create_connection(address, timeout)
        except OSError as error:
            self.failure = error.strerror or str(error)
            raise
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                # If the server ends the connection, this is the only reason that can be told.
                self.failure = _PLAIN
                return BufferedConnection(connection, self._note_grant)
            secured = self._tls().wrap_socket(connection, server_hostname=hostname)
        except ssl.SSLError as error:
            connection.close()
            self.failure, self.is_hopeless = _reason(error)
            raise
        except OSError:
            connection.close()
            self.failure = _NOT_TLS
            raise
        except BaseException:
            connection.close()
            raise
        # With TLS 1.3 the server checks the client's certificate after this side has finished the handshake.
        self.failure = f"it ends connections after the handshake of TLS. {_REMEDY}"
        return BufferedConnection(secured, self._note_grant)

    def create_socket_pair(self) -> tuple[ReadingEnd, WritingEnd]:
        """Return what wakes kazoo's thread when a request is queued."""
        return Wakeup().ends()

    def select(
        self,
        rlist: Sequence[Readable],
        wlist: Sequence[BufferedConnection],
        xlist: Sequence[object],
        timeout: float | None = None,
    ) -> tuple[list[Readable], list[BufferedConnection], list[object]]:
        """Wait for connections and queued requests; see `wait`. kazoo waits for no exceptional conditions.

        Raises:
            OSError: A connection has failed.
        """
        readable, writable = wait(rlist, wlist, timeout)
        return readable, writable, []

    def _note_grant(self, answer: bytes) -> None:
        _, _, milliseconds = _GRANT.unpack(answer)
        if milliseconds <= 0:
            # The session has expired.
            return
        granted = min(milliseconds / 1000, self._timeout)
        if granted not in (self.granted, self._timeout):
            logger.warning(
                "ZooKeeper grants sessions of %g s, not of %g s (zookeeper.session.timeout.ms): its maxSessionTimeout, "
                "by default 20 of its ticks, bounds them",
                granted,
                self._timeout,
            )
        self.granted = granted
        if self._on_grant is not None:
            self._on_grant(granted)


def _reason(error: ssl.SSLError) -> tuple[str, bool]:
    """Return what a failed handshake says, and whether another one would fail, too."""
    if isinstance(error, ssl.SSLCertVerificationError):
        what = error.verify_message
        name = "hostname mismatch" in what.lower() or "ip address mismatch" in what.lower()
        remedy = (
            "connect by a name that is in it" if name else "have its authority in zookeeper.ssl.truststore.location"
        )
        return f"its certificate is not trusted: {what}; {remedy}", True
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason:
        versions = "or another version of TLS (zookeeper.ssl.protocol)"
        return f"it refuses the handshake of TLS: {reason}. {_REMEDY}, {versions}", True
    return f"{_NOT_TLS} ({reason})", False
