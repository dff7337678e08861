"""`Wire`: a connection from its first request to its end, without the socket.

A connection begins with ApiVersions; SASL follows where a mechanism is given; then any requests follow, several in
flight at once. Responses come in the order of their requests. The driver calls these methods, in these states:

==============  ==========================  =========================================  ==================
state           `begin`                     `proceed`                                  `send`
==============  ==========================  =========================================  ==================
NEW             ApiVersions → NEGOTIATING   not allowed                                not allowed
NEGOTIATING     not allowed                 ApiVersions, older; or SaslHandshake →     not allowed
                                            AUTHENTICATING; or nothing → READY
AUTHENTICATING  not allowed                 SaslAuthenticate; or nothing → READY       not allowed
READY           not allowed                 not allowed                                the request
CLOSED          not allowed                 not allowed                                not allowed
==============  ==========================  =========================================  ==================

- `begin`, `proceed` and `send` return the bytes to send, and the driver sends all of them in that order.
- `space` and `received` take the bytes that come, in every state but NEW and CLOSED. In NEGOTIATING and AUTHENTICATING
  a whole response is a `Handshake` event, after which the driver calls `proceed`; in READY it is an `Answer`.
- `reauthenticate` is allowed in READY: SaslHandshake → AUTHENTICATING (KIP-368). Requests may be in flight then. Their
  responses come first and are `Answer` events, as in READY.
- Bytes that come while no request waits for a response break the protocol, and so does a response whose correlation id
  is not that of the oldest request in flight. A request without a response (Produce with `acks=0`) is never in
  flight.
- `close` → CLOSED from every state, and so does each `RemoteProtocolError`. What the table does not allow is a
  `LocalProtocolError`, which changes nothing.

`proceed` may compute for a while with SCRAM; a driver on an event loop calls it on another thread. No two threads may
use a `Wire` at once.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from struct import Struct
from typing import Any, NamedTuple

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import Chunk, ProtocolError, decode_response, encode_request_chunks
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError, error_for
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.schema import Request, Response
from kafkalog.protocol.wire.errors import (
    AuthenticationFailedError,
    ConnectionEndedError,
    LocalProtocolError,
    NegotiationFailedError,
    RemoteProtocolError,
)
from kafkalog.protocol.wire.frames import FrameReader
from kafkalog.protocol.wire.older import fit
from kafkalog.protocol.wire.sasl import Mechanism
from kafkalog.protocol.wire.versions import Versions

_INT32 = Struct(">i")
_MAX_CORRELATION_ID = 0x7FFFFFFF
SOFTWARE_NAME = "kafkalog"


class State(Enum):
    """The state of a connection; the table above says what each state allows."""

    NEW = "new"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


class Handshake(NamedTuple):
    """Event: a step of the handshake is answered; `Wire.proceed` is next."""


class Answer(NamedTuple):
    """Event: the oldest request in flight is answered. Records are views of the response's own buffer."""

    correlation_id: int
    message: Any


class _InFlight(NamedTuple):
    correlation_id: int
    request_class: type[Request]
    version: int


_HANDSHAKE = Handshake()
# Looking a member up in its enumeration takes longer than the rest of a check.
_NEW, _READY, _CLOSED = State.NEW, State.READY, State.CLOSED
_SASL = (SaslHandshakeRequest, SaslAuthenticateRequest)


class Wire:
    """The client's side of one connection.

    Args:
        peer: How messages name the peer, such as `host:port`.
        client_id: The client id in the headers of requests.
        max_frame: The most bytes that a response may have.
        max_frame_name: The setting that `max_frame` comes from, for messages.
        mechanism: Authenticates by SASL, where the listener wants that.
        software_version: The client's version in ApiVersions.

    Attributes:
        session_lifetime_ms: How long the broker lets the authenticated session last (KIP-368); 0 for as long as the
            connection.
        space: Returns the view to receive the next bytes into, never empty; then call `received` with their number.
    """

    def __init__(
        self,
        peer: str,
        *,
        client_id: str | None,
        max_frame: int,
        max_frame_name: str,
        mechanism: Mechanism | None = None,
        software_version: str = "unknown",
    ) -> None:
        self.peer = peer
        self.state = State.NEW
        self.session_lifetime_ms = 0
        self._client_id = client_id
        self._mechanism = mechanism
        self._software_version = software_version
        self._frames = FrameReader(peer, max_frame, max_frame_name)
        self.space = self._frames.space
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = 0
        self._versions = Versions(peer)
        self._api_versions_version = ApiVersionsRequest.max_version
        self._is_again = False
        """True if the connection has been ready before: requests in flight may be others than those of SASL."""
        self._step: Response | None = None
        """The response to a step of the handshake, until `proceed` handles it."""

    def __repr__(self) -> str:
        return f"Wire({self.peer}, {self.state.value}, {self.in_flight} in flight)"

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._in_flight)

    @property
    def awaited(self) -> str:
        """The API of the oldest request in flight, by Kafka's name for it."""
        return ApiKey(self._in_flight[0].request_class.api_key).name if self._in_flight else "nothing"

    def version_of(self, request_class: type[Request], max_version: int | None = None, min_version: int = 0) -> int:
        """Choose the newest version that both sides speak, within the bounds given.

        Raises:
            UnsupportedVersionError: There is none.
        """
        return self._versions.version_of(request_class, max_version, min_version)

    def require(self, feature: str) -> None:
        """Check that the peer has announced a feature.

        Raises:
            UnsupportedVersionError: It has not.
        """
        self._versions.require(feature)

        # Sending

    def begin(self) -> list[Chunk]:
        """Begin the handshake; return the first bytes to send."""
        if self.state is not _NEW:
            raise LocalProtocolError(f"begin() on {self!r}")
        self.state = State.NEGOTIATING
        return self._ask_versions()

    def proceed(self) -> list[Chunk]:
        """Continue the handshake after a `Handshake` event.

        Returns:
            The bytes to send next. The list is empty exactly when the connection is ready.

        Raises:
            NegotiationFailedError: The peer does not report its versions.
            AuthenticationFailedError: The peer refuses the credentials, or cannot prove who it is.
            ConnectionEndedError: The peer does not let connections authenticate again at present; open a new one.
            UnsupportedVersionError: The peer does not speak SaslAuthenticate.
        """
        step, self._step = self._step, None
        try:
            match step:
                case ApiVersionsResponse():
                    return self._negotiated(step)
                case SaslHandshakeResponse():
                    return self._accepted(step)
                case SaslAuthenticateResponse():
                    return self._authenticated(step)
        except BaseException:
            # The handshake cannot be taken up again, whatever went wrong.
            self.close()
            raise
        raise LocalProtocolError(f"proceed() without a step of the handshake answered on {self!r}")

    def send(self, message: Request, version: int, *, answered: bool = True) -> list[Chunk]:
        """Return the bytes of a request.

        Args:
            message: The request. Its records are among the chunks as they are, not copied.
            version: The version to speak, from `version_of`.
            answered: False for a request that has no response.

        Raises:
            EncodeError: A value does not fit its field; nothing has changed.
            UnsupportedVersionError: The version cannot do what the request asks for; nothing has changed.
        """
        if self.state is not _READY:
            raise LocalProtocolError(f"send() on {self!r}")
        return self._request(fit(message, version), version, answered)

    def reauthenticate(self, mechanism: Mechanism) -> list[Chunk]:
        """Begin to authenticate again on the same connection; return the bytes to send (KIP-368).

        Args:
            mechanism: A new mechanism of the same name and the same user.
        """
        if self.state is not _READY:
            raise LocalProtocolError(f"reauthenticate() on {self!r}")
        self._mechanism = mechanism
        self.state = State.AUTHENTICATING
        self._is_again = True
        return self._begin_sasl()

        # Receiving

    def received(self, count: int) -> Answer | Handshake | None:
        """Process `count` bytes that were received into `space`; 0 is the end of the stream, as in `recv`.

        Returns:
            The event; None if a response is not complete yet.

        Raises:
            ConnectionEndedError: The stream has ended.
            RemoteProtocolError: The bytes violate the protocol.
        """
        if self.state is _NEW or self.state is _CLOSED:
            raise LocalProtocolError(f"received() on {self!r}")
        try:
            if not count:
                raise self._ended()
            if not self._in_flight:
                raise RemoteProtocolError(f"{self.peer} sent bytes where no response was due")
            frame = self._frames.received(count)
            return None if frame is None else self._match(frame)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget the requests in flight, and release all buffers."""
        self.state = State.CLOSED
        self._in_flight.clear()
        self._frames.discard()
        self._step = None

    # Inside

    def _request(self, message: Request, version: int, answered: bool = True) -> list[Chunk]:
        correlation_id = self._correlation_id
        chunks = encode_request_chunks(message, version, correlation_id, self._client_id)
        self._correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        if answered:
            self._in_flight.append(_InFlight(correlation_id, type(message), version))
        return chunks

    def _match(self, frame: memoryview) -> Answer | Handshake:
        expected = self._in_flight[0]
        (correlation_id,) = _INT32.unpack_from(frame)
        if correlation_id != expected.correlation_id:
            raise RemoteProtocolError(
                f"{self.peer} answered request {correlation_id}, where {expected.correlation_id} was next"
            )
        try:
            _, message = decode_response(expected.request_class, expected.version, frame)
        except ProtocolError as error:
            raise RemoteProtocolError(
                f"{self.peer} answered {self.awaited} with bytes that do not parse: {error}"
            ) from error
        self._in_flight.popleft()
        if self.state is _READY or (self._is_again and expected.request_class not in _SASL):
            return Answer(correlation_id, message)
        self._step = message
        return _HANDSHAKE

    def _ended(self) -> ConnectionEndedError:
        if self._frames.begun:
            return ConnectionEndedError(f"{self.peer} closed the connection in the middle of a response")
        if self._in_flight:
            return ConnectionEndedError(f"{self.peer} closed the connection instead of answering")
        return ConnectionEndedError(f"{self.peer} closed the connection")

    # The handshake

    def _ask_versions(self) -> list[Chunk]:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=self._software_version)
        return self._request(request, self._api_versions_version)

    def _negotiated(self, response: ApiVersionsResponse) -> list[Chunk]:
        """Store the peer's versions; if it does not know the requested version, ask again in one it knows (KIP-511)."""
        asked = self._api_versions_version
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and asked > 0:
            known = [each.max_version for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS]
            self._api_versions_version = min(asked - 1, max(known[0], 0)) if known else 0
            return self._ask_versions()
        if response.error_code:
            raise NegotiationFailedError(error_for(response.error_code, f"{self.peer} does not say what it speaks"))
        self._versions = Versions(self.peer, response.api_keys, response.supported_features)
        if self._mechanism is None:
            self.state = State.READY
            return []
        self.state = State.AUTHENTICATING
        return self._begin_sasl()

    def _begin_sasl(self) -> list[Chunk]:
        assert self._mechanism is not None
        try:
            version = self.version_of(SaslHandshakeRequest, min_version=1)
        except UnsupportedVersionError as error:
            is_old = self._versions.announces(SaslHandshakeRequest)
            raise AuthenticationFailedError(self._too_old() if is_old else self._no_sasl_here()) from error
        return self._request(SaslHandshakeRequest(mechanism=self._mechanism.name), version)

    def _too_old(self) -> str:
        return f"{self.peer} is older than Kafka 1.0, and SASL needs brokers of 1.0 or later: update the broker"

    def _no_sasl_here(self) -> str:
        return (
            f"{self.peer} takes no SASL on this port: connect to a SASL listener, or set security.protocol to "
            "PLAINTEXT or, for TLS, SSL"
        )

    def _accepted(self, response: SaslHandshakeResponse) -> list[Chunk]:
        assert self._mechanism is not None
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE and self._is_again:
            raise ConnectionEndedError(f"{self.peer} does not let a connection authenticate again at present")
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            # A listener without SASL knows the request, too (Apache Kafka).
            raise AuthenticationFailedError(self._no_sasl_here())
        if response.error_code:
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationFailedError(
                f"{self.peer} does not take sasl.mechanism={self._mechanism.name}; it offers: {offered}"
            )
        return self._authenticate(self._mechanism.first())

    def _authenticated(self, response: SaslAuthenticateResponse) -> list[Chunk]:
        mechanism = self._mechanism
        assert mechanism is not None
        if response.error_code:
            reason = response.error_message or error_for(response.error_code).message
            raise AuthenticationFailedError(
                f"{self.peer} refuses {mechanism.identity} ({mechanism.name}): {reason}; {mechanism.remedy}"
            )
        self.session_lifetime_ms = response.session_lifetime_ms
        out = mechanism.answer(bytes(response.auth_bytes))
        if out is not None:
            return self._authenticate(out)
        self.state = State.READY
        return []

    def _authenticate(self, out: bytes) -> list[Chunk]:
        return self._request(SaslAuthenticateRequest(auth_bytes=out), self.version_of(SaslAuthenticateRequest))
