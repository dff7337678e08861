"""Drive a `Wire` as a socket would, and answer as a broker would."""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

from kafkalog.protocol.codec import decode_message, decode_request_header, encode_response
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.schema import Request, Response
from kafkalog.protocol.wire.core import State, Wire
from kafkalog.protocol.wire.errors import RemoteProtocolError
from kafkalog.protocol.wire.sasl import Mechanism

LIMIT = 1 << 20
KNOWN: dict[int, type[Request]] = {
    cls.api_key: cls
    for cls in (
        ApiVersionsRequest,
        FetchRequest,
        HeartbeatRequest,
        MetadataRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}
EVERYTHING = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=key, min_version=0, max_version=cls.max_version) for key, cls in KNOWN.items()]
)


def make_wire(mechanism: Mechanism | None = None) -> Wire:
    return Wire("peer:1", client_id="test", max_frame=LIMIT, max_frame_name="a.limit", mechanism=mechanism)


def ready_wire() -> Wire:
    wire = make_wire()
    feed(wire, answer(wire.begin(), EVERYTHING))
    assert wire.proceed() == []
    return wire


def state_of(wire: Wire) -> State:
    """Its state at present, which type checkers believe that calls do not change."""
    return wire.state


def joined(chunks: Iterable[Any]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks)


def asked(chunks: Iterable[Any]) -> tuple[Any, int, int]:
    """Decode a request as a peer reads it; return it with its version and its correlation id."""
    data = joined(chunks)
    (size,) = struct.unpack_from(">i", data)
    assert size == len(data) - 4
    header, pos = decode_request_header(data[4:])
    assert header.client_id == "test"
    message, _ = decode_message(KNOWN[header.api_key], header.api_version, data[4:], pos)
    return message, header.api_version, header.correlation_id


def answer(chunks: Iterable[Any], response: Response) -> bytes:
    """The bytes with which a peer answers the request in `chunks`."""
    _, version, correlation_id = asked(chunks)
    if isinstance(response, ApiVersionsResponse) and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return joined(encode_response(response, version, correlation_id))


def feed(wire: Wire, data: bytes, pieces: Iterable[int] = ()) -> list[Any]:
    """Have the wire receive `data`, in pieces of these sizes and then as much as it takes; the events.

    A remote error is the last of them.
    """
    events: list[Any] = []
    sizes = iter(pieces)
    view = memoryview(data)
    while view:
        try:
            space = wire.space()
            count = min(len(space), len(view), next(sizes, LIMIT))
            space[:count] = view[:count]
            event = wire.received(count)
        except RemoteProtocolError as error:
            return [*events, error]
        view = view[count:]
        if event is not None:
            events.append(event)
    return events


def metadata_of(number: int) -> MetadataResponse:
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=number, host="h" * (number % 50), port=number)])


class ScramServer:
    """The server's side of RFC 5802, from the stored keys of one user."""

    def __init__(self, algorithm: str, username: str, password: str, iterations: int = 4096) -> None:
        self.algorithm = algorithm
        self.username = username
        self.salt = os.urandom(16)
        self.iterations = iterations
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), self.salt, iterations)
        self.stored_key = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
        self.server_key = hmac.digest(salted, b"Server Key", algorithm)
        self.first = ""
        self.bare = ""
        self.extensions = ""

    def begin(self, message: bytes) -> bytes:
        header, _, self.bare = message.decode().partition(",,")
        assert header == "n"
        name, nonce = self.bare.split(",r=")
        # Extensions are a part of what the client signs, and not of the nonce.
        nonce, _, self.extensions = nonce.partition(",")
        assert name.removeprefix("n=").replace("=2C", ",").replace("=3D", "=") == self.username
        self.first = (
            f"r={nonce}{b64encode(os.urandom(9)).decode()},s={b64encode(self.salt).decode()},i={self.iterations}"
        )
        return self.first.encode()

    def end(self, message: bytes) -> bytes:
        without_proof, _, proof = message.decode().rpartition(",p=")
        signed = f"{self.bare},{self.first},{without_proof}".encode()
        signature = hmac.digest(self.stored_key, signed, self.algorithm)
        client_key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
        if hashlib.new(self.algorithm, client_key).digest() != self.stored_key:
            return b"e=invalid-proof"
        return b"v=" + b64encode(hmac.digest(self.server_key, signed, self.algorithm))
