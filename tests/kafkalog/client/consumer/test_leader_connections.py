"""Tests of a fetcher's connections to brokers whose sessions end (KIP-368)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.fetcher.leader_connections import LeaderConnections
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.metadata import Broker
from kafkalog.client.network.connection import Connection
from kafkalog.client.network.waker import Waker
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.scripted import Halted
from tests.support.secured.sessions import Sessions, ask, make_due
from tests.support.waiting import wait_until


def connected(connections: LeaderConnections, broker: Broker) -> Connection:
    found: list[Connection] = []

    def has_come() -> bool:
        connection = connections.connected(broker)
        found.extend([] if connection is None else [connection])
        return bool(found)

    wait_until(has_come, "there is a connection")
    return found[0]


def test_a_session_is_renewed_without_waiting_for_it() -> None:
    gate = threading.Event()
    with Sessions(3_600_000, 3_600_000) as server:
        config = ClientConfig.from_dict(
            {
                "bootstrap.servers": server.address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        broker = Broker(1, "127.0.0.1", server.port)
        waker = Waker()
        connections = LeaderConnections(Cluster(config), waker)
        try:
            connection = connected(connections, broker)
            answers: list[Any] = []
            connections.send(broker, ask("a"), lambda response, error: answers.append(response), 60)
            make_due(connection)
            assert connections.connected(broker) is connection, "a request is in flight"

            def answered() -> bool:
                connections.wait(1)
                return bool(answers)

            wait_until(answered, "the response is there")
            server.refusal = Halted(SaslHandshakeResponse(mechanisms=["PLAIN"]), gate)
            assert connections.connected(broker) is None, "a thread of its own renews the session"
            gate.set()
            assert connected(connections, broker) is connection
            assert server.order == ["handshake", "authenticate", "a", "handshake", "authenticate"]
            server.refusal = SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI"])
            make_due(connection)
            with pytest.raises(AuthenticationError, match="GSSAPI"):
                connected(connections, broker)
        finally:
            gate.set()
            connections.close()
            waker.close()
