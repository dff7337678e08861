"""The proxies of a local cluster: what passes, what waits, and what is refused."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from broker.cli.cluster.proxies import Proxies, Side, source_of
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0


def first_of(broker_id: int) -> bytes:
    return encode_request(ApiVersionsRequest(), 3, 1, f"broker-{broker_id}-controller")


class Echo:
    """Sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                self.received += data
                connection.sendall(data)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Place:
    """Two brokers, 1 and 2, and ZooKeeper, all of which echo."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.proxies = Proxies()
        self.stack.callback(self.proxies.close)
        self.echo = {number: self._echo() for number in (1, 2)}
        self.zookeeper = self._echo()
        self.front = {number: self.proxies.add(Side("brokers", number)) for number in (1, 2)}
        self.to_zookeeper = self.proxies.add(Side("zookeeper", 1))
        for number in (1, 2):
            self.proxies.open(self.front[number], self.echo[number].port)
        self.proxies.open(self.to_zookeeper, self.zookeeper.port)

    def _echo(self) -> Echo:
        found = Echo()
        self.stack.callback(found.close)
        return found

    def connect(self, port: int) -> socket.socket:
        return self.stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S))

    def linked(self, source: int, target: int) -> socket.socket:
        """Connect one broker to another."""
        found = self.connect(self.front[target])
        exchange(found, first_of(source))
        return found

    def is_refused(self, port: int) -> bool:
        try:
            self.connect(port)
        except ConnectionRefusedError:
            return True
        return False


def exchange(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)
    expect(connection, data)


def expect(connection: socket.socket, data: bytes) -> None:
    found = b""
    while len(found) < len(data):
        part = connection.recv(len(data) - len(found))
        assert part, "the connection has ended"
        found += part
    assert found == data


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    with found.stack:
        yield found


def test_a_broker_that_is_cut_off_from_the_others_reaches_nobody_but_itself(place: Place) -> None:
    there, back, own = place.linked(1, 2), place.linked(2, 1), place.linked(1, 1)
    zookeeper = place.connect(place.to_zookeeper)
    place.proxies.cut(1, ["brokers"])
    waiting = place.connect(place.front[1])
    waiting.sendall(first_of(2) + b"begins")
    for each in (there, back):
        each.sendall(b"waits" * 1000)
    exchange(own, b"passes")
    exchange(zookeeper, b"passes")
    other = place.connect(place.front[2])
    exchange(other, first_of(3))
    assert b"waits" not in place.echo[1].received + place.echo[2].received
    assert b"begins" not in place.echo[1].received
    place.proxies.cut(1, [])
    expect(waiting, first_of(2) + b"begins")
    for each in (there, back):
        expect(each, b"waits" * 1000)
    exchange(there, b"x" * 1_000_000)


def test_a_broker_that_is_cut_off_from_zookeeper_reaches_the_others(place: Place) -> None:
    zookeeper, there = place.connect(place.to_zookeeper), place.linked(1, 2)
    exchange(zookeeper, b"ping")
    place.proxies.cut(1, ["zookeeper"])
    zookeeper.sendall(b"waits")
    exchange(there, b"passes")
    assert place.zookeeper.received == b"ping"
    # Another cut replaces the first one.
    place.proxies.cut(1, ["brokers"])
    expect(zookeeper, b"waits")


def test_a_broker_that_has_ended_is_refused_but_not_while_nobody_can_know(place: Place) -> None:
    there, idle = place.linked(2, 1), place.connect(place.front[1])
    port = place.front[1]
    place.proxies.shut(port)
    for each in (there, idle):
        with pytest.raises(ConnectionResetError):
            each.recv(1)
    assert place.is_refused(port)
    place.proxies.cut(1, ["brokers"])
    silent = place.connect(port)
    silent.sendall(first_of(2))
    place.proxies.cut(1, [])
    wait_until(lambda: place.is_refused(port), "its address refuses connections again")
    with pytest.raises(ConnectionResetError):
        silent.recv(1)
    place.proxies.open(port, place.echo[1].port)
    exchange(place.linked(2, 1), b"passes")


def test_a_connection_ends_on_both_sides(place: Place) -> None:
    there = place.linked(1, 2)
    there.sendall(b"last")
    there.shutdown(socket.SHUT_WR)
    expect(there, b"last")
    assert there.recv(1) == b""
    place.echo[1].close()
    refused = place.connect(place.front[1])
    refused.sendall(first_of(2))
    with pytest.raises(ConnectionResetError):
        refused.recv(1)


def test_a_port_that_is_taken_is_replaced(place: Place) -> None:
    again = place.proxies.add(Side("brokers", 3), place.front[1])
    assert again != place.front[1]
    assert place.is_refused(again)


def test_brokers_are_known_by_their_client_ids() -> None:
    whole = first_of(17)
    assert source_of(whole) == 17
    assert source_of(encode_request(ApiVersionsRequest(), 3, 1, "rdkafka")) is None
    assert source_of(encode_request(ApiVersionsRequest(), 3, 1, None)) is None
    assert source_of(b"\xff" * 20) is None
    assert source_of(bytes.fromhex("1603010200")) is None, "TLS, which does not tell"
    for length in range(14 + len("broker-17-controller")):
        with pytest.raises(EOFError):
            source_of(whole[:length])


def test_it_goes_on_when_a_connection_cannot_be_accepted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    accept, failures = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")] * 2

    def fails_first(listener: socket.socket) -> Any:
        if failures and not listener.getblocking():
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fails_first)
    place.linked(1, 2)
    place.linked(2, 1)
    assert not failures
