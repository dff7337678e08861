"""Drive a `Wire` as a socket would, and answer as a broker would."""

from __future__ import annotations

import struct
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
