"""Tests of requests that wait for a connection: kazoo sends those that were withdrawn never, and all others."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from kazoo.protocol.serialization import Exists, GetData, Transaction

from kafkalog.client.zookeeper.session import ZooKeeperSession
from kafkalog.client.zookeeper.steps import ConnectionLossError, Read, Write
from kafkalog.zookeeper.values import SessionState, SetData
from kafkalog.zookeeper.withdrawing import Requests
from tests.support.waiting import wait_until

PATIENCE_S = 1.0
_PING = -2
_NO_NODE = -101


class Server:
    """A server whose nodes do not exist. It answers what `answers` allows, and keeps the types of all requests."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as made:
            self.address = made.getsockname()[:2]
        self.asked: list[int] = []
        self.answers = True
        self._opened: list[socket.socket] = []

    def begin(self) -> None:
        listener = socket.create_server(self.address)
        self._opened.append(listener)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def end(self) -> None:
        """Close all connections, and accept no more until `begin`."""
        while self._opened:
            each = self._opened.pop()
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._opened.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error):
            self._request(connection)
            grant = struct.pack(">iiqi16s?", 0, 60_000, 1, 16, bytes(16), False)
            connection.sendall(struct.pack(">i", len(grant)) + grant)
            while True:
                xid, kind = struct.unpack_from(">ii", self._request(connection))
                if xid != _PING:
                    self.asked.append(kind)
                if xid == _PING or self.answers:
                    connection.sendall(struct.pack(">iiqi", 16, xid, 0, 0 if xid == _PING else _NO_NODE))

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        return connection.recv(size, socket.MSG_WAITALL)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.begin()
    yield made
    made.end()


@pytest.fixture
def states() -> list[SessionState]:
    return []


@pytest.fixture
def session(server: Server, states: list[SessionState]) -> Iterator[ZooKeeperSession]:
    host, port = server.address
    with ZooKeeperSession(
        f"{host}:{port}", session_timeout=PATIENCE_S, connect_timeout=60, on_state=states.append
    ) as made:
        yield made
        server.end()


def test_a_write_that_failed_without_a_connection_is_not_sent_with_the_next_one(
    server: Server, session: ZooKeeperSession, states: list[SessionState]
) -> None:
    assert session.perform(Read("/a")) is None
    server.end()
    wait_until(lambda: SessionState.SUSPENDED in states, "the connection is lost")
    with pytest.raises(ConnectionLossError, match="no connection to ZooKeeper for 1 s: the request was not sent"):
        session.perform(Write([SetData("/a", b"x")]))
    server.begin()
    wait_until(lambda: states[-1] is SessionState.CONNECTED, "there is a connection again")
    assert session.perform(Read("/b")) is None
    assert server.asked == [GetData.type, GetData.type]


def test_a_request_that_waits_is_sent_with_the_next_connection(
    server: Server, session: ZooKeeperSession, states: list[SessionState]
) -> None:
    server.end()
    wait_until(lambda: SessionState.SUSPENDED in states, "the connection is lost")
    waiting = session._client.exists_async("/a")
    server.begin()
    assert waiting.get(timeout=60) is None
    assert server.asked == [Exists.type]


def test_a_write_without_an_answer_may_be_carried_out(server: Server, session: ZooKeeperSession) -> None:
    server.answers = False
    with pytest.raises(ConnectionLossError, match="has not answered for 1 s: the request may still be carried out"):
        session.perform(Write([SetData("/a", b"x")]))
    assert server.asked == [Transaction.type]


def test_a_request_that_is_being_sent_cannot_be_withdrawn() -> None:
    requests, answers = Requests(), [object(), object()]
    for answer in answers:
        requests.append(("request", answer))
    assert requests[0] == ("request", answers[0])
    assert not requests.withdraw(answers[0])
    assert requests.withdraw(answers[1])
    assert requests.popleft() == ("request", answers[0])
    assert not requests.withdraw(answers[0])
    requests.append(("request", answers[1]))
    assert requests.withdraw(answers[1])
    assert not requests
