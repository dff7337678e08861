"""One socket to one broker: requests out, responses in, in order.

A connection begins with ApiVersions, then TLS having come before, SASL follows where it is configured. Each
request travels in the newest version that both sides speak. Not safe for use by several threads at once.

A response is received into one buffer, and the records in it are memoryviews of that buffer. A large buffer is used
again once nothing looks into it any more: fresh memory for every fetch of 50 MiB would cost three times the processor
time of receiving it. After any error the connection is closed: what would come next on it is unknown.

A client above a quota of the broker's is told how long nothing more will be served on the connection (KIP-219). That
time does not count to ``request.timeout.ms``.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from struct import Struct
from typing import Any, NamedTuple

from kafkalog import __version__
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import ProtocolError, decode_response, encode_request_chunks
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError, error_for
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.schema import Request

from .closing import Closing
from .config import ClientConfig
from .errors import (
    AuthenticationError,
    ClientTimeoutError,
    ConnectionFailedError,
    InvalidResponseError,
)
from .security import make_ssl_context, sasl_exchange

_LENGTH = Struct(">i")
_JOIN_BELOW = 1 << 16
"""Frames shorter than this are joined: copying them costs less than a second write."""
_MAX_PIECES = 512
"""Pieces given to one sendmsg; Linux takes 1024."""
_KEEP_FROM = 1 << 16
_KEEP = 2
"""Buffers of at least 64 KiB are kept for the next response, so many: one is being received while one is read."""
_MAX_CORRELATION_ID = 0x7FFFFFFF
# How TLS and HTTP answer who speaks another protocol to them, read as a length.
_FOREIGN = {0x15: "a TLS alert: is this an SSL listener? set security.protocol=SSL", 0x48: "HTTP"}


class _InFlight(NamedTuple):
    correlation_id: int
    request_class: type[Request]
    version: int


class Connection(Closing):
    """A connection to the broker at ``host``:``port``; made, negotiated and authenticated when the constructor returns.

    ``timeout``: seconds for all of that, ``socket.connection.setup.timeout.ms`` unless given; ``patience``: how many of
    them the peer's host may take to accept the connection. Raises ConnectionFailedError, ClientTimeoutError,
    AuthenticationError, InvalidResponseError.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: ClientConfig,
        *,
        timeout: float | None = None,
        patience: float = float("inf"),
    ) -> None:
        self.host = host
        self.port = port
        self.config = config
        self.last_used = time.monotonic()
        """When it was last sent to, in seconds of ``time.monotonic``."""
        self.serves_at = 0.0
        """Until then (``time.monotonic``) nothing is served here, for the client is above a quota; mostly long ago."""
        self._max_response = config.max_response_bytes
        self._in_flight: deque[_InFlight] = deque()
        self._unsent: list[memoryview] = []
        """What the peer has not taken yet of a request that was sent without waiting."""
        self._buffers: list[bytearray] = []
        self._prefix = memoryview(bytearray(_LENGTH.size))
        self._body: memoryview | None = None
        self._filled = 0
        """What has come of the next response: the bytes of its length, or else of its body."""
        self._correlation_id = 0
        self._session_ends = float("inf")
        self._ranges: dict[int, tuple[int, int]] = {}
        self._versions: dict[type[Request], int] = {}
        deadline = time.monotonic() + (config.connect_timeout if timeout is None else timeout)
        self._socket: socket.socket | None = self._open(deadline, patience)
        try:
            self._negotiate(deadline)
            if config.uses_sasl:
                self._authenticate(deadline)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.in_flight} in flight"
        return f"Connection({self.address}, {state})"

    @property
    def address(self) -> str:
        """host:port"""
        return f"{self.host}:{self.port}"

    @property
    def closed(self) -> bool:
        return self._socket is None

    @property
    def expired(self) -> bool:
        """Whether the authenticated session is about to end (KIP-368), so that a new connection is due."""
        return time.monotonic() >= self._session_ends

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not been received."""
        return len(self._in_flight)

    def fileno(self) -> int:
        """The socket's file descriptor, for ``select``. See also ``readable``, which knows what TLS holds back."""
        return self._connected().fileno()

    # Versions

    def version_of(self, request_class: type[Request], max_version: int | None = None, min_version: int = 0) -> int:
        """The newest version that both sides speak. UnsupportedVersionError where there is none."""
        if max_version is None and not min_version:
            found = self._versions.get(request_class)
            if found is not None:
                return found
        low, high = self._ranges.get(request_class.api_key, (0, -1))
        highest = request_class.max_version if max_version is None else min(max_version, request_class.max_version)
        version = min(high, highest)
        if version < max(low, min_version, request_class.min_version):
            name = ApiKey(request_class.api_key).name
            ours = f"{max(min_version, request_class.min_version)} to {highest}"
            theirs = f"versions {low} to {high}" if high >= 0 else "no version"
            raise UnsupportedVersionError(f"{name} is spoken here in versions {ours}, by {self.address} in {theirs}")
        if max_version is None and not min_version:
            self._versions[request_class] = version
        return version

    # Requests

    def request(
        self, message: Request, *, timeout: float | None = None, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        """Send a request and receive its response, in ``timeout`` seconds (``request.timeout.ms`` unless given).

        Only with nothing else in flight. Errors that the response reports are left to the caller.
        """
        if self._in_flight:
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
        """Send a request, whose response `receive` will give; responses come in the order of the requests.

        ``answered`` is False for a request that has no response: Produce with acks=0.
        """
        self._send(message, self.version_of(type(message), max_version, min_version), self._deadline(timeout), answered)

    def send_now(self, message: Request, *, min_version: int = 0, answered: bool = True, patience: float = 0.0) -> bool:
        """As `send`, waiting ``patience`` seconds at most: False where the peer has not taken all of it by then.

        Then nothing else may be sent until `send_rest` has said True; what ``message`` refers to must not change.
        """
        version = self.version_of(type(message), min_version=min_version)
        return self._send(message, version, None, answered, patience)

    def send_rest(self, *, patience: float = 0.0) -> bool:
        """Go on with what `send_now` left, waiting as it does; whether all of it is sent."""
        return self._push(None, patience)

    def receive(self, *, timeout: float | None = None) -> Any:
        """Receive the response to the oldest request in flight. Its records are memoryviews of its own buffer."""
        if not self._in_flight:
            raise RuntimeError(f"receive() with nothing in flight on {self!r}")
        return self._receive(self._deadline(timeout))

    def receive_now(self) -> Any | None:
        """As `receive`, without waiting: None while the response is not all there; what has come of it is kept."""
        if not self._in_flight:
            raise RuntimeError(f"receive_now() with nothing in flight on {self!r}")
        return self._receive(None)

    def readable(self, timeout: float = 0.0) -> bool:
        """Whether some of a response (or the end of the connection) is there within ``timeout`` seconds."""
        connected = self._connected()
        if isinstance(connected, ssl.SSLSocket) and connected.pending():
            return True
        poller = select.poll()
        poller.register(connected, select.POLLIN)
        return bool(poller.poll(max(timeout, 0) * 1000))

    def interrupt(self) -> None:
        """Have a request under way fail; from another thread."""
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):
                # Below TLS, whose state is the other thread's.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; nothing is sent or received any more."""
        connected, self._socket = self._socket, None
        self._in_flight.clear()
        self._unsent.clear()
        self._buffers.clear()
        self._body = None
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
            raise ConnectionFailedError(f"cannot connect to {self.address}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise ConnectionFailedError(f"cannot connect to {self.address}: this is no name of a host") from error
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, size in (
                (socket.SO_SNDBUF, config.send_buffer_bytes),
                (socket.SO_RCVBUF, config.receive_buffer_bytes),
            ):
                if size >= 0:
                    connected.setsockopt(socket.SOL_SOCKET, option, size)
            if config.uses_ssl:
                connected.settimeout(self._left(deadline))
                return make_ssl_context(config).wrap_socket(connected, server_hostname=self.host)
        except ssl.SSLError as error:
            connected.close()
            raise AuthenticationError(
                f"TLS handshake with {self.address}: {error.reason or error}; check that this is an SSL listener, "
                "and that ssl.ca.location holds the certificate that signed the broker's"
            ) from error
        except TimeoutError as error:
            connected.close()
            raise ClientTimeoutError(f"TLS handshake with {self.address} not done in time") from error
        except OSError as error:
            connected.close()
            raise self._broken(error) from error
        except BaseException:
            connected.close()
            raise
        return connected

    def _negotiate(self, deadline: float) -> None:
        """ApiVersions, newest version first; a broker that does not know it says which it knows (KIP-511)."""
        request = ApiVersionsRequest(client_software_name="kafkalog", client_software_version=__version__)
        version = request.max_version
        while True:
            self._send(request, version, deadline)
            response = self._receive(deadline)
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            known = [each.max_version for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS]
            version = min(version - 1, max(known[0], 0)) if known else 0
        if response.error_code:
            raise error_for(response.error_code, f"{self.address} does not say what it speaks")
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _authenticate(self, deadline: float) -> None:
        config = self.config
        mechanism = config.sasl_mechanism
        username, password = config.credentials
        handshake = self._exchange(SaslHandshakeRequest(mechanism=mechanism), deadline, min_version=1)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationError(f"{self.address} does not take sasl.mechanism={mechanism}; it offers: {offered}")
        exchange = sasl_exchange(mechanism, username or "", password or "")
        out = next(exchange)
        while True:
            answer = self._exchange(SaslAuthenticateRequest(auth_bytes=out), deadline)
            if answer.error_code:
                reason = answer.error_message or error_for(answer.error_code).message
                raise AuthenticationError(f"{self.address} refuses user {username!r} ({mechanism}): {reason}")
            try:
                out = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                break
        if answer.session_lifetime_ms > 0:
            # Some of it is kept in reserve, for requests that are under way when it ends.
            self._session_ends = time.monotonic() + 0.85 * answer.session_lifetime_ms / 1000

    def _exchange(self, message: Request, deadline: float, min_version: int = 0) -> Any:
        self._send(message, self.version_of(type(message), min_version=min_version), deadline)
        return self._receive(deadline)

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
        """Send a request; without a deadline False unless all of it is sent after ``patience`` seconds."""
        connected = self._connected()
        if self._unsent:
            raise RuntimeError(f"the request before is not sent yet on {self!r}")
        correlation_id = self._correlation_id
        chunks = encode_request_chunks(message, version, correlation_id, self.config.client_id)
        self._correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        views = [memoryview(chunk) for chunk in chunks if len(chunk)]  # type: ignore[arg-type]
        if sum(view.nbytes for view in views) < _JOIN_BELOW or isinstance(connected, ssl.SSLSocket):
            views = [memoryview(b"".join(views))]
        self._unsent = views
        done = self._push(deadline, patience)
        self.last_used = time.monotonic()
        if answered:
            self._in_flight.append(_InFlight(correlation_id, type(message), version))
        return done

    def _push(self, deadline: float | None, patience: float = 0.0) -> bool:
        """Send what is not sent yet; without a deadline False where that takes longer than ``patience`` seconds."""
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
        """How long the socket may wait; not at all without a deadline. TimeoutError where it has passed."""
        patience = 0.0 if deadline is None else self._left(deadline)
        if connected.gettimeout() != patience:
            connected.settimeout(patience)

    def _receive(self, deadline: float | None) -> Any:
        """The next response; without a deadline None unless all of it is there."""
        connected = self._connected()
        expected = self._in_flight[0]
        name = ApiKey(expected.request_class.api_key).name
        try:
            buffer = self._frame(connected, deadline)
            if buffer is None:
                return None
            (correlation_id,) = _LENGTH.unpack_from(buffer)
            if correlation_id != expected.correlation_id:
                raise InvalidResponseError(
                    f"{self.address} answered request {correlation_id}, where {expected.correlation_id} was next"
                )
            _, response = decode_response(expected.request_class, expected.version, buffer)
        except TimeoutError:
            self.close()
            raise ClientTimeoutError(f"{self.address} did not answer {name} in time") from None
        except ProtocolError as error:
            self.close()
            raise InvalidResponseError(
                f"{self.address} answered {name} with bytes that do not parse: {error}"
            ) from error
        except ConnectionFailedError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise
        self._in_flight.popleft()
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self.serves_at = time.monotonic() + throttle_time_ms / 1000
        return response

    def _broken(self, error: OSError) -> ConnectionFailedError:
        return ConnectionFailedError(f"connection to {self.address}: {error.strerror or error}")

    def _buffer(self, size: int) -> memoryview:
        """Room for a response, into which nothing else looks."""
        if size < _KEEP_FROM:
            return memoryview(bytearray(size))
        for buffer in self._buffers:
            if len(buffer) < size:
                continue
            try:
                # A bytearray refuses to change its length while anybody holds a view of it.
                buffer.append(0)
            except BufferError:
                continue
            buffer.pop()
            return memoryview(buffer)[:size]
        buffer = bytearray(-(-size // _KEEP_FROM) * _KEEP_FROM)
        self._buffers = [buffer, *self._buffers[: _KEEP - 1]]
        return memoryview(buffer)[:size]

    def _frame(self, connected: socket.socket, deadline: float | None) -> memoryview | None:
        """The bytes of the next response; without a deadline None unless all are there."""
        if self._body is None:
            if not self._fill(connected, self._prefix, deadline):
                return None
            (size,) = _LENGTH.unpack(self._prefix)
            if not _LENGTH.size <= size <= self._max_response:
                raise self._bad_length(self._prefix, size)
            self._body = self._buffer(size)
        if not self._fill(connected, self._body, deadline):
            return None
        body, self._body = self._body, None
        return body

    def _fill(self, connected: socket.socket, view: memoryview, deadline: float | None) -> bool:
        """Go on filling ``view``; False where that would mean to wait, and there is no deadline."""
        size = len(view)
        while self._filled < size:
            self._set_patience(connected, deadline)
            try:
                count = connected.recv_into(view[self._filled :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            if not count:
                begun = self._body is not None or self._filled
                when = "in the middle of a response" if begun else "instead of answering"
                raise ConnectionFailedError(f"{self.address} closed the connection {when}")
            self._filled += count
        self._filled = 0
        return True

    def _bad_length(self, prefix: memoryview, size: int) -> InvalidResponseError:
        hint = _FOREIGN.get(prefix[0])
        if hint is not None:
            return InvalidResponseError(f"{self.address} is no Kafka listener, it seems: it answers with {hint}")
        return InvalidResponseError(
            f"{self.address} announces a response of {size} bytes; at most {self._max_response} are accepted "
            "(receive.message.max.bytes)"
        )


def _await_room(connected: socket.socket, timeout: float) -> bool:
    """Whether the kernel takes more to send within ``timeout`` seconds."""
    if timeout <= 0:
        return False
    poller = select.poll()
    poller.register(connected, select.POLLOUT)
    return bool(poller.poll(timeout * 1000))
