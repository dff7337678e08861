"""The authentication of one connection on a SASL listener: frames in, steps out. Pure: no sockets, no clocks.

A client may ask for ApiVersions first. Then it names a mechanism (SaslHandshake), and both exchange that mechanism's
messages: bare after SaslHandshake version 0, in SaslAuthenticate after version 1. Source: Kafka's
`SaslServerAuthenticator`; its states:

    INITIAL      ApiVersions, SaslHandshake; what is no request is the first GSSAPI message of a client before 0.10
    NEGOTIATING  the same, without that exception
    HANDSHAKE    SaslHandshake only: ApiVersions was answered, or a session is renewed
    EXCHANGE     messages of the mechanism, until it ends
    ENDED        nothing

A session that is renewed (KIP-368) keeps its mechanism and its principal. A client that asks for another mechanism is
told so at the first message, not at the handshake, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Protocol, TypeAlias, cast

from broker.security.sasl.mechanisms.interface import (
    Identity,
    MakeMechanism,
    SaslError,
    SaslRefusalError,
    SaslRetriableError,
    ServerMechanism,
)
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import (
    ProtocolError,
    RequestHeader,
    TooManyEntriesError,
    UnsupportedApiVersionError,
    decode_request_header,
    decode_within,
    encode_response,
)
from kafkalog.protocol.decoder import TAG_COST
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.primitives import MAX_STRING
from kafkalog.protocol.schema import M, Response

MOST_TAGS = 100
"""The most tagged fields in the header of a request before authentication."""
BUDGET = 2 * MAX_STRING + MOST_TAGS * TAG_COST
"""The budget to decode the rest: two strings of any length, and tagged fields for a few ms at most."""
SHOWN = 100
"""The characters that the log shows of what clients send."""
WILDCARD = "*"
"""Stands for everybody in ACLs, so that nobody may have this name."""
_OPENING = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
_SIZE = Struct(">i")
_GSSAPI = "GSSAPI"


class Answers(Protocol):
    """Answers requests of a client that is not authenticated."""

    def versions(self, message: ApiVersionsRequest, version: int, /) -> ApiVersionsResponse:
        """Return the response to an ApiVersions request; its error code says whether the request is good."""

    def illegal_state(self, header: RequestHeader, /) -> Sequence[bytes]:
        """Return the response ILLEGAL_SASL_STATE to a request whose body is not read; nothing if it has no error."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a response; more follows."""

    chunks: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Have the mechanism answer a message, on a worker if it is slow, and give the result to `evaluated`."""

    mechanism: ServerMechanism
    message: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """Send the last response; the client is authenticated."""

    chunks: Sequence[bytes]
    identity: Identity
    mechanism: str
    lifetime_ms: int | None
    """The time that the session lasts; None if it does not end."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The client is not authenticated: send a response if there is one, and close the connection."""

    reason: str
    """The reason, for the broker's log."""
    chunks: Sequence[bytes] = ()
    is_at_once: bool = False
    """True if the connection is closed at once: it was broken, rather than the credentials wrong."""


Step: TypeAlias = Reply | Evaluate | Accepted | Refused


@dataclass(frozen=True, slots=True)
class Offer:
    """The mechanisms of a listener."""

    mechanisms: Mapping[str, MakeMechanism]
    """Functions that make the server's side, by the mechanism's name. SaslHandshake lists them in this order."""
    max_reauth_ms: Mapping[str, int]
    """`connections.max.reauth.ms` by the mechanism; 0 for no limit."""


class State(Enum):
    """The state of an authentication; see the module."""

    INITIAL = "initial"
    NEGOTIATING = "negotiating"
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    ENDED = "ended"


class Authenticator:
    """One authentication, the first of a connection or a later one that renews its session.

    Args:
        offer: the mechanisms.
        answers: answers requests that are no part of the authentication.
        previous: the mechanism and the identity of the session that is renewed; None for the first authentication.

    Attributes:
        state: the present state.
    """

    __slots__ = (
        "_answers", "_framed", "_header", "_name", "_offer", "_other_mechanism", "_previous", "_server",
        "state",
    )  # fmt: skip

    def __init__(self, offer: Offer, answers: Answers, previous: tuple[str, Identity] | None = None) -> None:
        self._offer = offer
        self._answers = answers
        self._previous = previous
        self._framed = False
        """True if messages of the mechanism come in SaslAuthenticate."""
        self._header: RequestHeader | None = None
        """The header of the SaslAuthenticate that is being answered."""
        self._name = ""
        self._server: ServerMechanism | None = None
        self._other_mechanism: str | None = None
        """The reason for which the next message is refused."""
        self.state = State.INITIAL if previous is None else State.HANDSHAKE

    def received(self, frame: bytes) -> Step:
        """Take the next frame of the client, without its length."""
        if self.state is State.EXCHANGE:
            return self._take_message(frame)
        if self.state is State.ENDED:
            return self._refuse("the authentication is over", is_at_once=True)
        return self._take_request(frame)

    def evaluated(self, result: bytes | SaslError | None, now_ms: int) -> Step:
        """Take the mechanism's answer to the message of the last `Evaluate`, or its failure.

        Args:
            result: the answer; None if nothing is to be sent in the exchange of bare messages.
            now_ms: the milliseconds since the epoch.
        """
        assert self._server is not None
        if isinstance(result, SaslRetriableError):
            return self._refuse(str(result), is_at_once=True)
        if isinstance(result, SaslError):
            return self._fail(result)
        identity = self._server.identity
        if identity is None:
            return Reply(self._message(result))
        fault = self._fault(identity)
        if fault is not None:
            return self._fail(fault)
        self.state = State.ENDED
        lifetime_ms = self._lifetime_ms(identity, now_ms)
        return Accepted(self._message(result, lifetime_ms or 0), identity, self._name, lifetime_ms)

    # -- requests before the exchange

    def _take_request(self, frame: bytes) -> Step:
        try:
            header, position = decode_request_header(frame, 0, MOST_TAGS)
        except UnsupportedApiVersionError as error:
            self._is_request()
            return self._unsupported(error)
        except (ProtocolError, TooManyEntriesError) as error:
            return self._no_request(frame, error)
        self._is_request()
        if header.api_key not in _OPENING:
            # Its body is not looked at.
            return self._unauthenticated(ApiKey(header.api_key))
        try:
            if header.api_key == ApiKey.API_VERSIONS:
                return self._api_versions(header, _decoded(ApiVersionsRequest, header, frame, position))
            named = _decoded(SaslHandshakeRequest, header, frame, position)
            return self._handshake(header, named.mechanism)
        except (ProtocolError, TooManyEntriesError) as error:
            return self._refuse(f"a request cannot be read: {error}", is_at_once=True)

    def _is_request(self) -> None:
        if self.state is State.INITIAL:
            self.state = State.NEGOTIATING

    def _no_request(self, frame: bytes, error: Exception) -> Step:
        if self.state is not State.INITIAL:
            return self._refuse(f"a request cannot be read: {error}", is_at_once=True)
        if _GSSAPI in self._offer.mechanisms:
            self._begin(_GSSAPI)
            return self._evaluate(frame)
        return self._refuse(f"its first bytes are no request of Kafka's protocol ({error})")

    def _unauthenticated(self, api: ApiKey) -> Refused:
        if self._previous is not None:
            return self._refuse(f"it sends {api.name} instead of SaslHandshake")
        return self._refuse(
            f"client did not authenticate, and sends {api.name}: its security.protocol lacks SASL, or its login is not "
            "configured"
        )

    def _unsupported(self, error: UnsupportedApiVersionError) -> Step:
        api = ApiKey(error.api_key)
        if api not in _OPENING:
            return self._unauthenticated(api)
        if api == ApiKey.SASL_HANDSHAKE or self.state is not State.NEGOTIATING:
            return self._refuse(str(error), is_at_once=True)
        own = ApiVersion(api_key=api, min_version=api.min_version, max_version=api.max_version)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
        return Reply(_encoded(response, 0, error.correlation_id))

    def _api_versions(self, header: RequestHeader, message: ApiVersionsRequest) -> Step:
        if self.state is not State.NEGOTIATING:
            return self._refuse("ApiVersions comes a second time", is_at_once=True)
        response = self._answers.versions(message, header.api_version)
        if response.error_code == ErrorCode.NONE:
            self.state = State.HANDSHAKE
        return Reply(_encoded(response, header.api_version, header.correlation_id))

    def _handshake(self, header: RequestHeader, name: str) -> Step:
        self._framed = header.api_version >= 1
        names = list(self._offer.mechanisms)
        response = SaslHandshakeResponse(mechanisms=names)
        if name not in self._offer.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._refuse(
                f"client asks for the SASL mechanism {name[:SHOWN]!r}, and the listener has {', '.join(names)}",
                _encoded(response, header.api_version, header.correlation_id),
            )
        if self._previous is not None and self._previous[0] != name:
            self._other_mechanism = (
                f"SASL mechanism '{name}' requested by client is not supported for re-authentication of mechanism "
                f"'{self._previous[0]}'"
            )
        self._begin(name)
        return Reply(_encoded(response, header.api_version, header.correlation_id))

    # -- the exchange

    def _begin(self, name: str) -> None:
        self._name = name
        self._server = self._offer.mechanisms[name]()
        self.state = State.EXCHANGE

    def _take_message(self, frame: bytes) -> Step:
        if not self._framed:
            return self._evaluate(frame)
        try:
            header, position = decode_request_header(frame, 0, MOST_TAGS)
            if header.api_key != ApiKey.SASL_AUTHENTICATE:
                reason = f"it sends {ApiKey(header.api_key).name} during SASL authentication"
                return self._refuse(reason, self._answers.illegal_state(header))
            message = _decoded(SaslAuthenticateRequest, header, frame, position)
        except (ProtocolError, TooManyEntriesError) as error:
            return self._refuse(f"a request cannot be read: {error}", is_at_once=True)
        self._header = header
        return self._evaluate(message.auth_bytes)

    def _evaluate(self, message: bytes) -> Step:
        if self._other_mechanism is not None:
            return self._fail(SaslRefusalError(self._other_mechanism))
        assert self._server is not None
        return Evaluate(self._server, message)

    def _message(self, data: bytes | None, lifetime_ms: int = 0) -> Sequence[bytes]:
        if self._header is None:
            return () if data is None else (_SIZE.pack(len(data)) + data,)
        response = SaslAuthenticateResponse(error_message=None, auth_bytes=data or b"", session_lifetime_ms=lifetime_ms)
        return _encoded(response, self._header.api_version, self._header.correlation_id)

    def _fault(self, identity: Identity) -> SaslError | None:
        if identity.name == WILDCARD:
            return SaslError(f"nobody may have the name {WILDCARD}, which stands for everybody")
        if self._previous is not None and self._previous[1].name != identity.name:
            return SaslRefusalError(
                "Cannot change principals during re-authentication from "
                f"User.{self._previous[1].name}: User.{identity.name}"
            )
        return None

    def _lifetime_ms(self, identity: Identity, now_ms: int) -> int | None:
        limits = []
        if identity.expires_at_ms is not None:
            limits.append(identity.expires_at_ms - now_ms)
        if self._offer.max_reauth_ms.get(self._name, 0) > 0:
            limits.append(self._offer.max_reauth_ms[self._name])
        return max(0, min(limits)) if limits else None

    # -- failures

    def _fail(self, error: SaslError) -> Refused:
        """Refuse the credentials. Without SaslAuthenticate the client is not told."""
        claimed = "" if self._server is None else self._server.claimed
        user = f", as user {claimed[:SHOWN]!r}" if claimed else ""
        why = error.reason if isinstance(error, SaslRefusalError) else str(error)
        reason = f"{self._name}{user}: {why}"
        if self._header is None:
            return self._refuse(reason)
        during = "authentication" if self._previous is None else "re-authentication"
        text = (
            str(error)
            if isinstance(error, SaslRefusalError)
            else f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._name}"
        )
        response = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
        return self._refuse(reason, _encoded(response, self._header.api_version, self._header.correlation_id))

    def _refuse(self, reason: str, chunks: Sequence[bytes] = (), *, is_at_once: bool = False) -> Refused:
        self.state = State.ENDED
        return Refused(reason, chunks, is_at_once)


def _decoded(cls: type[M], header: RequestHeader, frame: bytes, position: int) -> M:
    return decode_within(cls, header.api_version, memoryview(frame), position, BUDGET)


def _encoded(response: Response, version: int, correlation_id: int) -> tuple[bytes, ...]:
    return tuple(cast(list[bytes], encode_response(response, version, correlation_id)))
