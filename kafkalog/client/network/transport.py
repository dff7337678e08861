"""The socket of a connection: open it, secure it by TLS, and send and receive within deadlines.

The bytes belong to a `kafkalog.protocol.wire.core.Wire`. After any error the owner closes the transport, because what
would come next is unknown.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time

from kafkalog.client.closing import Closing
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import (
    AuthenticationError,
    ClientError,
    ClientTimeoutError,
    ConnectionFailedError,
    InvalidResponseError,
    UnresolvedNameError,
)
from kafkalog.client.forks import own
from kafkalog.client.network.diagnosis import Diagnosis
from kafkalog.client.security.tls import TlsContexts
from kafkalog.protocol.codec import Chunk
from kafkalog.protocol.wire.core import Answer, Handshake, Wire
from kafkalog.protocol.wire.errors import ConnectionEndedError, RemoteProtocolError

_UNKNOWN_NAME = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})
_JOIN_BELOW = 1 << 16
"""Frames shorter than this are joined: copying them costs less than a second write."""
_MAX_PIECES = 512
"""Pieces given to one sendmsg; Linux takes 1024."""


class Transport(Closing):
    """A socket to the broker at `host`:`port`; `open` connects it.

    Args:
        host: The broker's host.
        port: The broker's port.
        config: The client's configuration.
        wire: Encodes the requests, and takes what is received.
        tls: Makes the TLS context.
        diagnosis: Says why a TLS handshake has failed.

    Attributes:
        is_interrupted: Whether `interrupt` was called.
    """

    def __init__(
        self, host: str, port: int, config: ClientConfig, wire: Wire, tls: TlsContexts, diagnosis: Diagnosis
    ) -> None:
        self.is_interrupted = False
        self._host = host
        self._port = port
        self._config = config
        self._wire = wire
        self._tls = tls
        self._diagnosis = diagnosis
        self._socket: socket.socket | None = None
        self._unsent: list[memoryview] = []
        """The part that the peer has not taken yet, of bytes that were sent without waiting."""

    @property
    def address(self) -> str:
        """The broker's address, as `host:port`."""
        return f"{self._host}:{self._port}"

    @property
    def closed(self) -> bool:
        """Return whether the socket is closed, or not opened yet."""
        return self._socket is None

    @property
    def has_unsent(self) -> bool:
        """Return whether bytes to send wait because the peer does not read."""
        return bool(self._unsent)

    def connected(self) -> socket.socket:
        """Return the socket.

        Raises:
            ConnectionFailedError: It is closed.
        """
        if self._socket is None:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        return self._socket

    def readable(self, timeout: float = 0.0) -> bool:
        """Wait `timeout` seconds for data or the end of the connection; return whether either came."""
        connected = self.connected()
        if isinstance(connected, ssl.SSLSocket) and connected.pending():
            return True
        poller = select.poll()
        poller.register(connected, select.POLLIN)
        return bool(poller.poll(max(timeout, 0) * 1000))

    def interrupt(self) -> None:
        """Make another thread's `read` or `push` fail."""
        connected = self._socket
        self.is_interrupted = True
        if connected is not None:
            with contextlib.suppress(OSError):
                # Shut down below TLS, whose state belongs to the other thread.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket, and forget what is not sent yet. May be called again."""
        connected, self._socket = self._socket, None
        self._unsent.clear()
        if connected is not None:
            connected.close()

    def lose(self) -> None:
        """Close this process's copy of the socket; that of the process it was forked from stays connected."""
        self.close()

    # Opening

    def open(self, deadline: float, patience: float) -> None:
        """Connect until `deadline`, with TLS if that is configured.

        The host of the peer has to accept the connection within `patience` seconds of this time.

        Raises:
            ConnectionFailedError: No connection could be made, or it ended.
            ClientTimeoutError: The broker took too long.
            AuthenticationError: The TLS handshake failed because of a property of the client.
        """
        connected = self._connect(deadline, patience)
        config = self._config
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, size in (
                (socket.SO_SNDBUF, config.send_buffer_bytes),
                (socket.SO_RCVBUF, config.receive_buffer_bytes),
            ):
                if size >= 0:
                    connected.setsockopt(socket.SOL_SOCKET, option, size)
            self._socket = self._secure(connected, deadline) if config.uses_ssl else connected
            own(self)
        except ClientError:
            connected.close()
            raise
        except OSError as error:
            connected.close()
            raise self._broken(error) from error
        except BaseException:
            connected.close()
            raise

    def _connect(self, deadline: float, patience: float) -> socket.socket:
        try:
            return socket.create_connection((self._host, self._port), timeout=min(_left(deadline), patience))
        except TimeoutError as error:
            raise ClientTimeoutError(f"no connection to {self.address} in time") from error
        except OSError as error:
            # A name server that does not answer now may answer later (EAI_AGAIN).
            is_unknown = isinstance(error, socket.gaierror) and error.errno in _UNKNOWN_NAME
            failed = UnresolvedNameError if is_unknown else ConnectionFailedError
            raise failed(f"cannot connect to {self.address}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise UnresolvedNameError(f"cannot connect to {self.address}: this is no name of a host") from error

    def _secure(self, connected: socket.socket, deadline: float) -> socket.socket:
        try:
            connected.settimeout(_left(deadline))
            return self._tls().wrap_socket(connected, server_hostname=self._host)
        except TimeoutError as error:
            raise ClientTimeoutError(f"TLS handshake with {self.address} not done in time") from error
        except OSError as error:
            connected.close()
            reason = self._diagnosis.tls_handshake(error)
            if reason is not None:
                raise AuthenticationError(reason) from error
            raise

    # Bytes

    def write(self, chunks: list[Chunk], deadline: float | None, patience: float = 0.0) -> bool:
        """Send these bytes; wait and return as `push` does."""
        views = [memoryview(chunk) for chunk in chunks if len(chunk)]  # type: ignore[arg-type]
        if sum(view.nbytes for view in views) < _JOIN_BELOW or isinstance(self._socket, ssl.SSLSocket):
            views = [memoryview(b"".join(views))]
        self._unsent = views
        return self.push(deadline, patience)

    def push(self, deadline: float | None, patience: float = 0.0) -> bool:
        """Send what is not sent yet.

        With a deadline, wait until all of it is sent. Without one, wait `patience` seconds, and return whether all is
        sent.

        Raises:
            ClientTimeoutError: The peer did not take all until the deadline.
            ConnectionFailedError: The connection has ended.
        """
        connected = self.connected()
        until = time.monotonic() + patience if patience else 0.0
        try:
            while self._unsent:
                _set_patience(connected, deadline)
                try:
                    if len(self._unsent) == 1:
                        sent = connected.send(self._unsent[0])
                    else:
                        sent = connected.sendmsg(self._unsent[:_MAX_PIECES])
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    if until and _await_room(connected, until - time.monotonic()):
                        continue
                    return False
                self._drop(sent)
        except TimeoutError:
            raise ClientTimeoutError(f"{self.address} did not take a request in time") from None
        except OSError as error:
            raise self._broken(error) from error
        return True

    def _drop(self, sent: int) -> None:
        views = self._unsent
        whole = 0
        while whole < len(views) and sent >= views[whole].nbytes:
            sent -= views[whole].nbytes
            whole += 1
        del views[:whole]
        if sent:
            views[0] = views[0][sent:]

    def read(self, deadline: float | None) -> Answer | Handshake | None:
        """Receive until the wire has an event; without a deadline, return None instead of waiting.

        Raises:
            ClientTimeoutError: The peer did not answer until the deadline.
            ConnectionFailedError: The connection has ended.
            InvalidResponseError: The bytes violate the protocol.
        """
        connected = self.connected()
        wire = self._wire
        try:
            while True:
                _set_patience(connected, deadline)
                try:
                    count = connected.recv_into(wire.space())
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return None
                event = wire.received(count)
                if event is not None:
                    return event
        except TimeoutError:
            raise ClientTimeoutError(f"{self.address} did not answer {wire.awaited} in time") from None
        except ConnectionEndedError as error:
            raise ConnectionFailedError(str(error)) from None
        except RemoteProtocolError as error:
            raise InvalidResponseError(str(error)) from error.__cause__
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> ConnectionFailedError:
        return ConnectionFailedError(f"connection to {self.address}: {error.strerror or error}")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _set_patience(connected: socket.socket, deadline: float | None) -> None:
    """Let the socket wait until the deadline, or not at all without one.

    Raises:
        TimeoutError: The deadline has passed.
    """
    patience = 0.0 if deadline is None else _left(deadline)
    if connected.gettimeout() != patience:
        connected.settimeout(patience)


def _await_room(connected: socket.socket, timeout: float) -> bool:
    """Wait `timeout` seconds until the kernel takes more data to send; return whether it does."""
    if timeout <= 0:
        return False
    poller = select.poll()
    poller.register(connected, select.POLLOUT)
    return bool(poller.poll(timeout * 1000))
