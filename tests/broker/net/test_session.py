"""Tests of what a connection's session knows about its client."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.context import Request
from broker.api.dispatcher import ApiDispatcher
from broker.config.listeners import Endpoint
from broker.net.connection import Connection
from broker.net.disk_reads import DiskReads
from broker.net.limits.memory import RequestMemory
from broker.net.session import Principal, Session
from kafkalog.protocol.codec import RequestHeader, encode_request
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.net.simulated import SimulatedLoop
from tests.broker.net.transports import InMemoryPeer, InMemoryTransport


def served(*requests: bytes) -> Session:
    """Return the session of a connection on which these requests were answered."""
    chance = random.Random(1)
    loop = SimulatedLoop(chance)
    unlimited = SimpleNamespace(limited=False)
    broker: Any = SimpleNamespace(
        replicas=SimpleNamespace(counters=SimpleNamespace(requests=[])),
        quotas=SimpleNamespace(request=unlimited),
        loop=loop,
        member=None,
        runtime=SimpleNamespace(seconds=loop.time),
    )
    transport = InMemoryTransport(loop, chance, 1 << 20)
    peer = InMemoryPeer(transport)
    connection = Connection(
        loop,
        transport,
        Session(Endpoint("EXTERNAL", "", 9092), "10.0.0.1"),
        ApiDispatcher(broker),
        RequestMemory(-1),
        DiskReads(loop.run_on_worker),
        1 << 20,
        lambda _: None,
    )
    for request in requests:
        peer.send(request)
        while not transport.outbound:
            loop.step()
        loop.settle()
        peer.recv(1 << 20)
    assert not connection.closed
    assert (connection.peer, connection.endpoint.name) == ("10.0.0.1", "EXTERNAL")
    connection.close()
    return connection.session


def versions(version: int, name: str = "", number: str = "") -> bytes:
    message = ApiVersionsRequest(client_software_name=name, client_software_version=number)
    return encode_request(message, version, 1, "me")


def test_a_client_without_authentication_is_anonymous() -> None:
    session = served()
    assert str(session.principal) == "User:ANONYMOUS"
    assert session.principal == Principal("User", "ANONYMOUS")
    assert session.mechanism is None


@pytest.mark.parametrize(
    ("requests", "software"),
    [
        ([], ("unknown", "unknown")),
        ([versions(2)], ("unknown", "unknown")),
        ([versions(3, "librdkafka", "2.6.0")], ("librdkafka", "2.6.0")),
        ([versions(3, "librdkafka", "2.6.0"), versions(3, "not/legal", "1")], ("librdkafka", "2.6.0")),
        ([versions(3, "a-b.c", "2"), versions(3, "", "1")], ("a-b.c", "2")),
        ([versions(3, "my-", "1"), versions(3, "my", ".1"), versions(3, "my", "1\n")], ("unknown", "unknown")),
        ([versions(3, "ünïcode", "1"), versions(3, "my", "٣"), versions(3, "my", "1²3")], ("unknown", "unknown")),
    ],
)
def test_the_software_that_a_client_tells_is_known(requests: list[bytes], software: tuple[str, str]) -> None:
    session = served(*requests)
    assert (session.client_software_name, session.client_software_version) == software


def test_a_request_is_from_its_sessions_principal() -> None:
    session = Session(Endpoint("EXTERNAL", "", 9092), "10.0.0.1")
    connection: Any = SimpleNamespace(session=session)
    message = ApiVersionsRequest()
    counter: Any = None
    broker: Any = SimpleNamespace(member=None)
    request = Request(broker, connection, RequestHeader(18, 3, 1, "me"), message, counter, 0.0, 0, None)
    assert request.user == "ANONYMOUS"
    session.principal = Principal("User", "alice")
    assert request.user == "alice"
