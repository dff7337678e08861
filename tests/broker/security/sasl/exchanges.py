"""Clients of an `Authenticator`, without sockets: what they send, and what they get."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

from broker.security.sasl.authenticator import Accepted, Authenticator, Evaluate, Offer, Refused, Reply
from broker.security.sasl.mechanisms.interface import Identity, SaslError
from broker.security.sasl.mechanisms.plain import PlainAccounts, PlainServer
from broker.security.sasl.mechanisms.scram import ScramServer, UnknownUsers
from kafkalog.protocol.codec import RequestHeader, decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.schema import Request
from kafkalog.protocol.scram import ScramCredential, ScramMechanism
from kafkalog.protocol.wire.sasl import Mechanism

PASSWORDS = {"alice": "a-secret", "bob": "b-secret", "*": "star"}
CREDENTIALS = {name: ScramCredential.of_password(ScramMechanism.SHA_256, each) for name, each in PASSWORDS.items()}
NOW_MS = 1_000_000
APIS = [ApiVersion(api_key=17, min_version=0, max_version=1)]


class Expiring(PlainServer):
    """PLAIN with credentials that expire."""

    def answer(self, message: bytes) -> bytes:
        answer = super().answer(message)
        assert self.identity is not None
        self.identity = Identity(self.identity.name, NOW_MS + 5000)
        return answer


def offer(max_reauth_ms: int = 0, **more: Any) -> Offer:
    """Return PLAIN, SCRAM-SHA-256, and mechanisms of tests."""
    accounts = PlainAccounts(PASSWORDS)
    made: dict[str, Any] = {
        "PLAIN": partial(PlainServer, accounts),
        "SCRAM-SHA-256": partial(ScramServer, ScramMechanism.SHA_256, CREDENTIALS.get, UnknownUsers(b"")),
        "EXPIRING": partial(Expiring, accounts),
        **more,
    }
    return Offer(made, dict.fromkeys(made, max_reauth_ms))


class FewAnswers:
    """Answers of a broker with one API."""

    def versions(self, message: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        if version >= 3 and not message.client_software_name:
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return ApiVersionsResponse(api_keys=APIS)

    def illegal_state(self, header: RequestHeader) -> tuple[bytes, ...]:
        return (b"\0\0\0\x03bad",)


class Exchange:
    """One authentication, driven as a connection drives it.

    Attributes:
        step: what the authenticator has said last, other than what a mechanism is to evaluate.
    """

    def __init__(self, made: Offer | None = None, previous: tuple[str, str] | None = None) -> None:
        session = None if previous is None else (previous[0], Identity(previous[1]))
        self.authenticator = Authenticator(made or offer(), FewAnswers(), session)
        self.step: Reply | Accepted | Refused | None = None
        self._numbers = itertools.count(1)

    def frame(self, data: bytes) -> bytes:
        """Have the authenticator take a frame; return its response's frame, empty if there is none."""
        step = self.authenticator.received(data)
        if isinstance(step, Evaluate):
            result: bytes | SaslError | None
            try:
                result = step.mechanism.answer(step.message)
            except SaslError as error:
                result = error
            step = self.authenticator.evaluated(result, NOW_MS)
        assert not isinstance(step, Evaluate)
        self.step = step
        framed = b"".join(step.chunks)
        assert not framed or int.from_bytes(framed[:4], "big") == len(framed) - 4
        return framed[4:]

    def ask(self, message: Request, version: int) -> Any:
        """Return the response to a request, or None if there is none."""
        number = next(self._numbers)
        answer = self.frame(encode_request(message, version, number, "test")[4:])
        if not answer:
            return None
        answered, response = decode_response(type(message), version, answer)
        assert answered == number
        return response

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, data: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=data), version)

    def log_in(self, mechanism: Mechanism, *, framed: bool = True, version: int = 2) -> Any:
        """Authenticate as a client does; return the last response, or its bytes where they come bare."""
        self.handshake(mechanism.name, int(framed))
        data: bytes | None = mechanism.first()
        response: Any = None
        while data is not None:
            response = self.authenticate(data, version) if framed else self.frame(data)
            if isinstance(self.step, Refused):
                break
            data = mechanism.answer(response.auth_bytes if framed else response)
        return response

    @property
    def refused(self) -> Refused:
        assert isinstance(self.step, Refused), self.step
        return self.step

    @property
    def accepted(self) -> Accepted:
        assert isinstance(self.step, Accepted), self.step
        return self.step


def same(one: Any, other: Mapping[str, Any]) -> bool:
    """Return whether a message has these values."""
    return all(getattr(one, name) == value for name, value in other.items())
