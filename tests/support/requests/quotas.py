"""Set client quotas, and send requests as a client with a quota."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
)
from tests.support.wire import exchange, receive_frame

Parts = Sequence[tuple[str, str | None]]
"""The types and names of an entity."""
Outcome = tuple[int, str | None]
"""An error code and its message."""


def ask(sock: socket.socket, client_id: str | None, message: Any, version: int) -> Any:
    """Send a request as that client; return the response."""
    sock.sendall(encode_request(message, version, 9, client_id))
    return decode_response(type(message), version, receive_frame(sock))[1]


def alteration(parts: Parts, **values: float | None) -> AlterClientQuotasEntry:
    return AlterClientQuotasEntry(
        entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[
            AlterClientQuotasOp(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()
        ],
    )  # fmt: skip


def alter(sock: socket.socket, *entries: AlterClientQuotasEntry, validate_only: bool = False) -> list[Outcome]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = exchange(sock, request, 1)
    assert [entry.entity for entry in request.entries] == [
        [AlterClientQuotasEntity(entity_type=part.entity_type, entity_name=part.entity_name) for part in result.entity]
        for result in response.entries
    ]
    return [(result.error_code, result.error_message) for result in response.entries]


def limit(sock: socket.socket, parts: Parts, **values: float | None) -> None:
    assert alter(sock, alteration(parts, **values)) == [(0, None)]


def fetched(sock: socket.socket, make: Callable[[], Any]) -> bytes:
    """Fetch as a reader until there are records: a client that is told to wait gets none."""
    while True:
        response = ask(sock, "reader", make(), 12)
        assert response.error_code == 0
        if response.responses:
            assert response.throttle_time_ms == 0
            return bytes(response.responses[0].partitions[0].records)
        assert 0 < response.throttle_time_ms <= 2000


def until_throttled(sock: socket.socket, make: Callable[[], Any]) -> Any:
    """Fetch as a reader until it is told to wait: after a pause between two fetches there are records again."""
    while not (response := ask(sock, "reader", make(), 12)).throttle_time_ms:
        assert (response.error_code, len(response.responses)) == (0, 1)
    return response
