"""The message about a server that cannot be reached, and the time-out that a server grants."""

from __future__ import annotations

import logging
import socket
import struct
from typing import Any

import pytest

from kafkalog.zookeeper.connections import ConnectionHandler


def test_the_last_failure_is_known_while_there_is_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for connecting may be over at any moment, and then the failure is told."""
    handler = ConnectionHandler(None, 18.0)
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


def test_the_time_out_that_a_server_grants_is_read_from_its_first_answer(caplog: pytest.LogCaptureFixture) -> None:
    granted: list[float] = []
    handler = ConnectionHandler(None, 18.0, granted.append)
    assert handler.granted == 18

    def connect(milliseconds: int, *, in_pieces: bool = False) -> None:
        answer = struct.pack(">iiiqi16s?", 37, 0, milliseconds, 1, 16, bytes(16), False)
        with socket.create_server(("127.0.0.1", 0)) as server:
            connection = handler.create_connection(server.getsockname()[:2], timeout=10)
            other, _ = server.accept()
            with other:
                read = bytearray()
                for start in range(0, len(answer), 1 if in_pieces else len(answer)):
                    other.sendall(answer[start : start + 1] if in_pieces else answer)
                    read += connection.recv(1 << 16)
                assert read == answer, "kazoo reads the same"
                other.sendall(b"another answer")
                assert connection.recv(100) == b"another answer"
            connection.close()

    with caplog.at_level(logging.WARNING):
        connect(40_000)
        assert (handler.granted, caplog.messages) == (18, []), "the session is not longer than what was asked for"
        connect(10_000, in_pieces=True)
        connect(10_000)
        assert handler.granted == 10
        assert len(caplog.messages) == 1
        assert "ZooKeeper grants sessions of 10 s, not of 18 s" in caplog.text
        connect(0)
        assert handler.granted == 10, "an answer without a time-out says that the session has expired"
    assert granted == [18, 10, 10]
