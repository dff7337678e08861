"""One blocking connection to one broker: requests go out, and their responses come in, in order.

The protocol is that of `kafkalog.protocol.wire`. The connection joins it with a socket (`transport`) and with the
handshakes (`authentication`). Each request travels in the newest version that both sides speak. A connection is not
safe for use by several threads at once.

A response is received into one buffer, and the records in it are memoryviews of that buffer. After any error the
connection is closed, because what would come next on it is unknown.

A session that is about to end is renewed before the next request (KIP-368). Responses to requests in flight that come
meanwhile are kept for `receive`.

A broker tells a client that is above a quota how long it will serve nothing more on the connection (KIP-219). That
time does not count towards `request.timeout.ms`.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from kafkalog import __version__
from kafkalog.client.closing import Closing
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ConnectionFailedError, InvalidResponseError
from kafkalog.client.network.authentication import Authentication
from kafkalog.client.network.diagnosis import Diagnosis
from kafkalog.client.network.transport import Transport
from kafkalog.client.security.mechanisms import MechanismFactory, make_mechanisms
from kafkalog.client.security.tls import TlsContexts
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.core import Answer, Wire


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
        self.serves_at = 0.0
        self._has_served = False
        """True if the peer has answered a request after the handshakes."""
        self._stashed: deque[Any] = deque()
        """Responses that came while the client authenticated again."""
        deadline = time.monotonic() + (config.connect_timeout if timeout is None else timeout)
        make_mechanism = make_mechanisms(config) if mechanisms is None else mechanisms
        self._wire = Wire(
            self.address,
            client_id=config.client_id,
            max_frame=config.max_response_bytes,
            max_frame_name="receive.message.max.bytes",
            mechanism=None if make_mechanism is None else make_mechanism(host, deadline),
            software_version=__version__,
        )
        tls = TlsContexts(config.tls) if tls is None else tls
        self._diagnosis = Diagnosis(host, port, config, tls)
        self._transport = Transport(host, port, config, self._wire, tls, self._diagnosis)
        self._authentication = Authentication(host, config, self._transport, self._wire, make_mechanism, self._stash)
        self._transport.open(deadline, patience)
        try:
            self._authentication.begin(self._diagnosis, deadline)
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
        """Return whether the socket is closed, by `close` or after an error."""
        return self._transport.closed

    @property
    def authentication_due(self) -> bool:
        """Return whether the authenticated session is about to end (KIP-368).

        The next request then authenticates again. `send_now` does that only while nothing is in flight; so its callers
        let the requests in flight be answered first.
        """
        return self._authentication.due

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not been received."""
        return self._wire.in_flight + len(self._stashed)

    def fileno(self) -> int:
        """Give the socket's file descriptor, for `select`; `readable` also knows what TLS has decrypted already."""
        return self._transport.connected().fileno()

    # Versions

    def version_of(self, request_class: type[Request], max_version: int | None = None, min_version: int = 0) -> int:
        """Choose the newest version that both sides speak, within the bounds given.

        Raises:
            UnsupportedVersionError: There is none.
        """
        return self._wire.version_of(request_class, max_version, min_version)

    def require(self, feature: str) -> None:
        """Check that the broker has announced a feature (KIP-584).

        Raises:
            UnsupportedVersionError: It has not.
        """
        self._wire.require(feature)

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
        try:
            return self._transport.push(None, patience)
        except BaseException:
            self.close()
            raise

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
        return bool(self._stashed) or self._transport.readable(timeout)

    def interrupt(self) -> None:
        """Make a request fail for which another thread is waiting."""
        self._transport.interrupt()

    def close(self) -> None:
        """Close the socket and forget the requests in flight. May be called again."""
        # The transport first: other threads look whether the connection is closed.
        self._transport.close()
        self._wire.close()
        self._stashed.clear()

    def reauthenticate(self, *, timeout: float | None = None) -> None:
        """Authenticate again on the same connection, within `timeout` seconds (`request.timeout.ms` unless given).

        Where the server of the credentials cannot be reached, this is put off while the session lasts.

        Raises:
            AuthenticationError: The broker refuses the credentials, or there are none.
            ConnectionFailedError, ClientTimeoutError: The connection ended, or the broker did not answer.
        """
        self._renew(self._deadline(timeout))

    def _renew(self, deadline: float) -> None:
        self._transport.connected()
        try:
            self._authentication.renew(deadline)
        except BaseException:
            self.close()
            raise

    def _deadline(self, timeout: float | None) -> float:
        if timeout is not None:
            return time.monotonic() + timeout
        return max(time.monotonic(), self.serves_at) + self.config.request_timeout

    def _send(
        self, message: Request, version: int, deadline: float | None, answered: bool = True, patience: float = 0.0
    ) -> bool:
        """Send a request; return as `Transport.push` does. Authenticate before it, if that is due."""
        self._transport.connected()
        if self._transport.has_unsent:
            raise RuntimeError(f"the request before is not sent yet on {self!r}")
        if self._authentication.due and (deadline is not None or not self.in_flight):
            self._renew(self._deadline(None) if deadline is None else deadline)
        chunks = self._wire.send(message, version, answered=answered)
        try:
            return self._transport.write(chunks, deadline, patience)
        except BaseException:
            # The wire waits for a response to a request that was not sent.
            self.close()
            raise

    def _receive(self, deadline: float | None) -> Any:
        """Return the next response; without a deadline, None unless it has come completely."""
        if self._stashed:
            return self._stashed.popleft()
        try:
            event = self._transport.read(deadline)
        except ConnectionFailedError as error:
            self.close()
            reason = self._diagnosis.first_request() if self._may_want_sasl(error) else None
            if reason is not None:
                raise AuthenticationError(reason) from error
            raise
        except BaseException:
            self.close()
            raise
        return self._opened(event) if isinstance(event, Answer) else None

    def _may_want_sasl(self, error: ConnectionFailedError) -> bool:
        """Tell whether the error may mean that the listener wants SASL, and this client uses none."""
        if self.config.uses_sasl or self._has_served or self._transport.is_interrupted:
            return False
        if isinstance(error, InvalidResponseError):
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

    def _stash(self, answer: Answer) -> None:
        self._stashed.append(self._opened(answer))
