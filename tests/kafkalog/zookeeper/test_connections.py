"""What is told of a server that cannot be reached."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kafkalog.zookeeper.connections import ConnectionHandler


def test_the_last_failure_is_known_while_there_is_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for connecting may be over at any moment, and then the failure is told."""
    handler = ConnectionHandler(None)
    known: list[str | None] = []
    whole = socket.create_connection

    def connect(*arguments: Any) -> socket.socket:
        known.append(handler.failure)
        return whole(*arguments)

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()[:2]
    monkeypatch.setattr(socket, "create_connection", connect)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            handler.create_connection(address)
    assert known == [None, "Connection refused"]
