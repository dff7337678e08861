"""One blocking socket to one broker: requests go out, and their responses come in, in order.

The protocol is that of `kafkalog.protocol.wire`. This module adds the socket, TLS and the deadlines. Each request
travels in the newest version that both sides speak. A connection is not safe for use by several threads at once.

A response is received into one buffer, and the records in it are memoryviews of that buffer. After any error the
connection is closed, because what would come next on it is unknown.

A broker may limit how long an authenticated session lasts (KIP-368). When most of that time has passed, the client
authenticates again before its next request. The broker answers requests in flight first; their responses are kept for
`receive`.

A broker tells a client that is above a quota how long it will serve nothing more on the connection (KIP-219). That
time does not count towards `request.timeout.ms`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
import ssl
import time
from collections import deque
from typing import Any

from kafkalog import __version__
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
from kafkalog.client.network.diagnosis import Diagnosis
from kafkalog.client.security.mechanisms import MechanismFactory, make_mechanisms
from kafkalog.client.security.tls import TlsContexts
from kafkalog.protocol.codec import Chunk
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.core import Answer, Handshake, Wire
from kafkalog.protocol.wire.errors import (
    AuthenticationFailedError,
    ConnectionEndedError,
    NegotiationFailedError,
    RemoteProtocolError,
)

logger = logging.getLogger(__name__)

_UNKNOWN_NAME = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})
_LEAST_SESSION_S = 1.05
"""How long to wait between two authentications of a connection: brokers want a second (KIP-368)."""
_PUT_OFF_S = 5.0
"""How long to put off an authentication for which there are no credentials at present."""
_JOIN_BELOW = 1 << 16
"""Frames shorter than this are joined: copying them costs less than a second write."""
_MAX_PIECES = 512
"""Pieces given to one sendmsg; Linux takes 1024."""


class Connection(Closing):
    """A connection to the broker at `host`:`port`, open and authenticated when the constructor returns.

    Args:
        host: The broker's host.
        port: The broker's port.
        config: The client's configuration.
        timeout: Seconds for connecting, negotiation and authentication; `socket.connection.setup.timeout.ms` unless
            given.
        patience: How many of these seconds the peer's host may take to accept the connection.
        mechanisms: Makes the SASL mechanism; the owner of several connections passes the same object to all, so that
            they share tokens and the like. Made from `config` unless given.
        tls: Makes the TLS context; shared and made as `mechanisms` is.

    Raises:
        ConnectionFailedError: No connection could be made, or it ended.
        ClientTimeoutError: The broker took too long.
        AuthenticationError: The broker refused the client, or the client the broker.
        InvalidResponseError: The peer does not speak Kafka's protocol.

    Attributes:
        last_used: When a request was last sent, in seconds of `time.monotonic`.
        serves_at: Until this time (`time.monotonic`) the broker serves nothing here, because of a quota; mostly it is
            long past.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: ClientConfig,
        *,
        timeout: float | None = None,
        patience: float = float("inf"),
        mechanisms: MechanismFactory | None = None,
        tls: TlsContexts | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.config = config
        self.last_used = time.monotonic()
        self.serves_at = 0.0
        self._unsent: list[memoryview] = []
        """The part that the peer has not taken yet, of a request that was sent without waiting."""
        self._has_answered = False
        """Whether the peer has answered anything, so that both sides speak the same protocol."""
        self._has_served = False
        """Whether the peer has answered a request after the handshakes."""
        self._is_interrupted = False
        self._tls = TlsContexts(config.tls) if tls is None else tls
        self._diagnosis = Diagnosis(host, port, config, self._tls)
        self._stashed: deque[Any] = deque()
        """Responses that came while the client authenticated again."""
        self._authenticated_at = self._session_ends = self._reauthenticate_at = float("inf")
        deadline = time.monotonic() + (config.connect_timeout if timeout is None else timeout)
        self._make_mechanism = make_mechanisms(config) if mechanisms is None else mechanisms
        self._wire = Wire(
            self.address,
            client_id=config.client_id,
            max_frame=config.max_response_bytes,
            max_frame_name="receive.message.max.bytes",
            mechanism=None if self._make_mechanism is None else self._make_mechanism(host, deadline),
            software_version=__version__,
        )
        self._socket: socket.socket | None = self._open(deadline, patience)
        try:
            self._shake_hands(deadline)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.in_flight} in flight"
        return f"Connection({self.address}, {state})"

    @property
    def address(self) -> str:
        """The broker's address, as `host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def closed(self) -> bool:
        """Whether the socket is closed, by `close` or after an error."""
        return self._socket is None

    @property
    def authentication_due(self) -> bool:
        """Whether the authenticated session is about to end (KIP-368), so that the next request authenticates again.

        `send_now` does that only while nothing is in flight; so its callers let the requests in flight be answered
        first.
        """
        return time.monotonic() >= self._reauthenticate_at

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not been received."""
        return self._wire.in_flight + len(self._stashed)

    def fileno(self) -> int:
        """Give the socket's file descriptor, for `select`; `readable` also knows what TLS has decrypted already."""
        return self._connected().fileno()

    # Versions

    def version_of(self, request_class: type[Request], max_version: int | None = None, min_version: int = 0) -> int:
        """Choose the newest version that both sides speak, within the bounds given.

        Raises:
            UnsupportedVersionError: There is none.
        """
        return self._wire.version_of(request_class, max_version, min_version)

    # Requests

    def request(
        self, message: Request, *, timeout: float | None = None, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        """Send a request and return its response, in `timeout` seconds (`request.timeout.ms` unless given).

        No other request may be in flight. The caller looks for errors that the response reports.
        """
        if self.in_flight:
            raise RuntimeError(f"request() with {self.in_flight} requests in flight on {self!r}")
        deadline = self._deadline(timeout)
        self._send(message, self.version_of(type(message), max_version, min_version), deadline)
        return self._receive(deadline)

    def send(
        self,
        message: Request,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
        min_version: int = 0,
        answered: bool = True,
    ) -> None:
        """Send a request; `receive` returns its response. Responses come in the order of the requests.

        `answered` is False for a request without a response, which is Produce with `acks=0`.
        """
        self._send(message, self.version_of(type(message), max_version, min_version), self._deadline(timeout), answered)

    def send_now(self, message: Request, *, min_version: int = 0, answered: bool = True, patience: float = 0.0) -> bool:
        """Send a request as `send` does, but wait `patience` seconds at most.

        Returns:
            Whether the peer has taken all of the request. If not, `send_rest` sends the rest. Until that returns True,
            no other request may be sent, and the buffers that `message` refers to must not change.
        """
        version = self.version_of(type(message), min_version=min_version)
        return self._send(message, version, None, answered, patience)

    def send_rest(self, *, patience: float = 0.0) -> bool:
        """Continue with a request that `send_now` has sent in part; wait and return as `send_now` does."""
        return self._push(None, patience)

    def receive(self, *, timeout: float | None = None) -> Any:
        """Return the response to the oldest request in flight. Its records are memoryviews of a buffer of its own."""
        if not self.in_flight:
            raise RuntimeError(f"receive() with nothing in flight on {self!r}")
        return self._receive(self._deadline(timeout))

    def receive_now(self) -> Any | None:
        """Receive as `receive` does, but without waiting.

        Returns:
            The response, or None where it has not come completely. The part that has come is kept for the next call.
        """
        if not self.in_flight:
            raise RuntimeError(f"receive_now() with nothing in flight on {self!r}")
        return self._receive(None)

    def readable(self, timeout: float = 0.0) -> bool:
        """Wait `timeout` seconds for data or the end of the connection; return whether either came."""
        if self._stashed:
            return True
        connected = self._connected()
        if isinstance(connected, ssl.SSLSocket) and connected.pending():
            return True
        poller = select.poll()
        poller.register(connected, select.POLLIN)
        return bool(poller.poll(max(timeout, 0) * 1000))

    def interrupt(self) -> None:
        """Make a request fail for which another thread is waiting."""
        connected = self._socket
        self._is_interrupted = True
        if connected is not None:
            with contextlib.suppress(OSError):
                # Shut down below TLS, whose state belongs to the other thread.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket and forget the requests in flight. May be called again."""
        connected, self._socket = self._socket, None
        self._wire.close()
        self._stashed.clear()
        self._unsent.clear()
        if connected is not None:
            connected.close()

    # Opening

    def _open(self, deadline: float, patience: float) -> socket.socket:
        config = self.config
        try:
            connected = socket.create_connection((self.host, self.port), timeout=min(self._left(deadline), patience))
        except TimeoutError as error:
            raise ClientTimeoutError(f"no connection to {self.address} in time") from error
        except OSError as error:
            # A name server that does not answer now may answer later (EAI_AGAIN).
            is_unknown = isinstance(error, socket.gaierror) and error.errno in _UNKNOWN_NAME
            failed = UnresolvedNameError if is_unknown else ConnectionFailedError
            raise failed(f"cannot connect to {self.address}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise UnresolvedNameError(f"cannot connect to {self.address}: this is no name of a host") from error
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, size in (
                (socket.SO_SNDBUF, config.send_buffer_bytes),
                (socket.SO_RCVBUF, config.receive_buffer_bytes),
            ):
                if size >= 0:
                    connected.setsockopt(socket.SOL_SOCKET, option, size)
            return self._secure(connected, deadline) if config.uses_ssl else connected
        except ClientError:
            connected.close()
            raise
        except OSError as error:
            connected.close()
            raise self._broken(error) from error
        except BaseException:
            connected.close()
            raise

    def _secure(self, connected: socket.socket, deadline: float) -> socket.socket:
        try:
            connected.settimeout(self._left(deadline))
            return self._tls().wrap_socket(connected, server_hostname=self.host)
        except TimeoutError as error:
            raise ClientTimeoutError(f"TLS handshake with {self.address} not done in time") from error
        except OSError as error:
            connected.close()
            reason = self._diagnosis.tls_handshake(error)
            if reason is not None:
                raise AuthenticationError(reason) from error
            raise

    def reauthenticate(self, *, timeout: float | None = None) -> None:
        """Authenticate again on the same connection, within `timeout` seconds (`request.timeout.ms` unless given).

        Where the server of the credentials cannot be reached, this is put off while the session lasts.

        Raises:
            AuthenticationError: The broker refuses the credentials, or there are none.
            ConnectionFailedError, ClientTimeoutError: The connection ended, or the broker did not answer.
        """
        self._reauthenticate(self._deadline(timeout))

    def _reauthenticate(self, deadline: float) -> None:
        self._connected()
        assert self._make_mechanism is not None
        try:
            mechanism = self._make_mechanism(self.host, min(deadline, time.monotonic() + self.config.connect_timeout))
        except (ConnectionFailedError, ClientTimeoutError) as error:
            now = time.monotonic()
            if now >= self._session_ends:
                self.close()
                raise
            self._reauthenticate_at = min(now + _PUT_OFF_S, self._session_ends)
            logger.warning("%s: the session ends soon and cannot be renewed: %s", self.address, error)
            return
        except BaseException:
            self.close()
            raise
        # Brokers refuse to authenticate a connection again within a second.
        pause = self._authenticated_at + _LEAST_SESSION_S - time.monotonic()
        if pause > 0:
            time.sleep(pause)
            deadline += pause
        try:
            self._authenticate(self._wire.reauthenticate(mechanism), deadline)
        except BaseException:
            self.close()
            raise

    def _shake_hands(self, deadline: float) -> None:
        """Send ApiVersions, and authenticate by SASL if that is configured."""
        try:
            self._authenticate(self._wire.begin(), deadline)
        except ConnectionFailedError as error:
            reason = self._diagnosis.handshake(error, self._has_answered)
            if reason is not None:
                raise AuthenticationError(reason) from error
            raise

    def _authenticate(self, chunks: list[Chunk], deadline: float) -> None:
        """Do the steps of a handshake that begins with `chunks`, until the connection is ready."""
        while chunks:
            self._write(chunks, deadline)
            while isinstance(event := self._read(deadline), Answer):
                self._stashed.append(self._opened(event))
            self._has_answered = True
            try:
                chunks = self._wire.proceed()
            except NegotiationFailedError as error:
                raise error.reported from None
            except AuthenticationFailedError as error:
                raise AuthenticationError(str(error)) from error
            except ConnectionEndedError as error:
                raise ConnectionFailedError(str(error)) from None
        self._authenticated_at = time.monotonic()
        lifetime = self._wire.session_lifetime_ms / 1000
        if lifetime > 0:
            # As Java's SaslClientAuthenticator. Many clients that connected at once do not come back at once.
            self._session_ends = self._authenticated_at + lifetime
            self._reauthenticate_at = self._authenticated_at + lifetime * random.uniform(0.85, 0.95)
        else:
            self._session_ends = self._reauthenticate_at = float("inf")

    # Bytes

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        return self._socket

    def _deadline(self, timeout: float | None) -> float:
        if timeout is not None:
            return time.monotonic() + timeout
        return max(time.monotonic(), self.serves_at) + self.config.request_timeout

    def _left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _send(
        self, message: Request, version: int, deadline: float | None, answered: bool = True, patience: float = 0.0
    ) -> bool:
        """Send a request; return as `_push` does. Authenticate before it, if that is due."""
        self._connected()
        if self._unsent:
            raise RuntimeError(f"the request before is not sent yet on {self!r}")
        if time.monotonic() >= self._reauthenticate_at and (deadline is not None or not self.in_flight):
            self._reauthenticate(self._deadline(None) if deadline is None else deadline)
        return self._write(self._wire.send(message, version, answered=answered), deadline, patience)

    def _write(self, chunks: list[Chunk], deadline: float | None, patience: float = 0.0) -> bool:
        """Send these bytes; return as `_push` does."""
        try:
            views = [memoryview(chunk) for chunk in chunks if len(chunk)]  # type: ignore[arg-type]
            if sum(view.nbytes for view in views) < _JOIN_BELOW or isinstance(self._socket, ssl.SSLSocket):
                views = [memoryview(b"".join(views))]
        except BaseException:
            # The wire waits for a response to a request that was not sent.
            self.close()
            raise
        self._unsent = views
        done = self._push(deadline, patience)
        self.last_used = time.monotonic()
        return done

    def _push(self, deadline: float | None, patience: float = 0.0) -> bool:
        """Send the rest of a request.

        With a deadline, wait until all of it is sent. Without one, wait `patience` seconds, and return whether all is
        sent.
        """
        connected = self._connected()
        until = time.monotonic() + patience if patience else 0.0
        try:
            while self._unsent:
                self._set_patience(connected, deadline)
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
            self.close()
            raise ClientTimeoutError(f"{self.address} did not take a request in time") from None
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise
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

    def _set_patience(self, connected: socket.socket, deadline: float | None) -> None:
        """Let the socket wait until the deadline, or not at all without one.

        Raises:
            TimeoutError: The deadline has passed.
        """
        patience = 0.0 if deadline is None else self._left(deadline)
        if connected.gettimeout() != patience:
            connected.settimeout(patience)

    def _receive(self, deadline: float | None) -> Any:
        """Return the next response; without a deadline, None unless it has come completely."""
        if self._stashed:
            return self._stashed.popleft()
        try:
            event = self._read(deadline)
        except ConnectionFailedError as error:
            reason = self._diagnosis.first_request() if self._may_want_sasl(error) else None
            if reason is not None:
                raise AuthenticationError(reason) from error
            raise
        return self._opened(event) if isinstance(event, Answer) else None

    def _may_want_sasl(self, error: ConnectionFailedError) -> bool:
        """Tell whether the error may mean that the listener wants SASL, and this client uses none."""
        if self.config.uses_sasl or self._has_served or self._is_interrupted or isinstance(error, InvalidResponseError):
            return False
        try:
            self._wire.version_of(SaslHandshakeRequest)
        except UnsupportedVersionError:
            return False
        return True

    def _opened(self, answer: Answer) -> Any:
        """Return the response of an answer, and note until when the broker serves nothing."""
        self._has_served = True
        response = answer.message
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self.serves_at = time.monotonic() + throttle_time_ms / 1000
        return response

    def _read(self, deadline: float | None) -> Answer | Handshake | None:
        """Receive until the wire has an event; without a deadline, return None instead of waiting."""
        connected = self._connected()
        wire = self._wire
        try:
            while True:
                self._set_patience(connected, deadline)
                try:
                    count = connected.recv_into(wire.space())
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return None
                event = wire.received(count)
                if event is not None:
                    return event
        except TimeoutError:
            awaited = wire.awaited
            self.close()
            raise ClientTimeoutError(f"{self.address} did not answer {awaited} in time") from None
        except ConnectionEndedError as error:
            self.close()
            raise ConnectionFailedError(str(error)) from None
        except RemoteProtocolError as error:
            self.close()
            raise InvalidResponseError(str(error)) from error.__cause__
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise

    def _broken(self, error: OSError) -> ConnectionFailedError:
        return ConnectionFailedError(f"connection to {self.address}: {error.strerror or error}")


def _await_room(connected: socket.socket, timeout: float) -> bool:
    """Wait `timeout` seconds until the kernel takes more data to send; return whether it does."""
    if timeout <= 0:
        return False
    poller = select.poll()
    poller.register(connected, select.POLLOUT)
    return bool(poller.poll(timeout * 1000))
