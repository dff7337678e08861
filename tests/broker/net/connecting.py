"""Connections to serve in tests: over each kind of transport, on a loop whose events come in any order."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator

from broker.config.listeners import Endpoint
from broker.net.transport.interface import Transport
from broker.net.transport.plain import PlainTransport
from tests.broker.net.over_tls import encrypted
from tests.broker.net.simulated import SimulatedLoop
from tests.broker.net.transports import (
    InMemoryPeer,
    InMemoryTransport,
    Peer,
    SocketPeer,
    TransformingPeer,
    TransformingTransport,
)

ENDPOINT = Endpoint("PLAINTEXT", "", 9092)
DEADLINE_S = 200
"""For a run of less than 2 s: on a busy machine a kernel's socket may wait for a timer that doubles each time."""
Connect = Callable[[SimulatedLoop, random.Random], tuple[Transport, Peer]]


def in_memory(loop: SimulatedLoop, chance: random.Random) -> tuple[Transport, Peer]:
    transport = InMemoryTransport(loop, chance, capacity=20_000)
    return transport, InMemoryPeer(transport)


def sockets() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        served, _ = listening.accept()
    for sock in (client, served):
        sock.setblocking(False)
    # So small that a response does not fit.
    served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
    return served, client


def steps() -> Iterator[None]:
    """Take steps until the time is over: a kernel's sockets have timers of their own."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        yield


def plain(loop: SimulatedLoop, chance: random.Random) -> tuple[Transport, Peer]:
    served, client = sockets()
    return PlainTransport(loop, served), SocketPeer(client)


def transforming(loop: SimulatedLoop, chance: random.Random) -> tuple[Transport, Peer]:
    served, client = sockets()
    return TransformingTransport(loop, loop, served), TransformingPeer(client)


def tls(loop: SimulatedLoop, chance: random.Random) -> tuple[Transport, Peer]:
    return encrypted(loop, chance, *plain(loop, chance))


def tls_in_memory(loop: SimulatedLoop, chance: random.Random) -> tuple[Transport, Peer]:
    return encrypted(loop, chance, *in_memory(loop, chance))


TRANSPORTS: list[Connect] = [plain, transforming, in_memory, tls, tls_in_memory]


class Operation:
    """An operation that a request waits for; it counts its cancellations."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1
