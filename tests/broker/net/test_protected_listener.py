"""Test that clients cannot keep other brokers from connecting."""

from __future__ import annotations

from pathlib import Path

from broker.net.sockets.addresses import peer_address
from tests.broker.net.support import acceptor_of
from tests.broker.replica.in_process import InProcess, with_broker

LISTENERS = {
    "listeners": "CLIENT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def test_a_broker_takes_the_place_of_the_client_that_was_idle_for_longest(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        acceptor = acceptor_of(broker)
        clients = [await broker.connect("CLIENT") for _ in range(2)]
        await broker.until(lambda: len(acceptor.connections) == 2, "both are accepted")
        assert await (await broker.connect("CLIENT")).is_closed()
        for _ in range(3):
            await broker.connect("INTERNAL")
        await broker.until(lambda: acceptor.count_by_listener() == {"CLIENT": 0, "INTERNAL": 3}, "brokers are served")
        assert [await client.is_closed() for client in clients] == [True, True]

    with_broker(tmp_path, work, {**LISTENERS, "max.connections": "2"})


def test_no_client_is_closed_for_a_connection_that_is_refused(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        acceptor = acceptor_of(broker)
        for _ in range(2):
            await broker.connect("CLIENT")
        await broker.until(lambda: len(acceptor.connections) == 2, "both are accepted")
        acceptor._rates.refused_ms = lambda address, now_ms: 1  # type: ignore[method-assign]
        assert await (await broker.connect("INTERNAL")).is_closed()
        assert acceptor.count_by_listener() == {"CLIENT": 2, "INTERNAL": 0}

    with_broker(tmp_path, work, {**LISTENERS, "max.connections": "2"})


def test_connections_of_brokers_are_not_delayed_by_the_rate_of_all(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        acceptor = acceptor_of(broker)
        for _ in range(60):
            await broker.connect("INTERNAL")
        await broker.until(lambda: len(acceptor.connections) == 60, "all are accepted")
        assert not acceptor._retries

    with_broker(tmp_path, work, {**LISTENERS, "max.connection.creation.rate": "1"})


def test_an_ipv4_peer_of_a_socket_for_both_has_its_own_address() -> None:
    assert peer_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert peer_address("10.0.0.1") == "10.0.0.1"
    assert peer_address("fe80::1%eth0") == "fe80::1%eth0"
