"""Transports over TLS and their clients, which encrypt with Python's own `SSLObject`."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from contextlib import suppress

from broker.net.tls.transport import PART_BYTES, TlsTransport
from broker.net.tls.turns import HandshakeTurns
from broker.net.transport.interface import Transport
from tests.broker.net.simulated import SimulatedLoop
from tests.broker.net.timers import Timer
from tests.broker.net.transports import Peer
from tests.support.secured.authority import client_context, server_context


class Untimed:
    """The clock of a loop on which nothing is due: simulated time jumps to the next timer at any moment."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.time = loop.time
        self.call_soon = loop.call_soon

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return Timer(callback)


class TlsPeer:
    """A client over TLS on top of another `Peer`. It sends and receives only a part of what it could."""

    def __init__(self, carrier: Peer, context: ssl.SSLContext, chance: random.Random) -> None:
        self._carrier = carrier
        self._chance = chance
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self._rest = b""
        self.is_ready = False
        self.failure: ssl.SSLError | None = None

    def send(self, data: bytes) -> int:
        self._move()
        if not self.is_ready or self._rest or not data:
            return 0
        count = self.tls.write(data[: 1 + self._chance.randrange(40_000)])
        self._move()
        return count

    def recv(self, count: int) -> bytes:
        self._move()
        if not self.is_ready:
            return b""
        with suppress(ssl.SSLWantReadError):
            return self.tls.read(count)
        return b""

    def close(self) -> None:
        self._carrier.close()

    def _move(self) -> None:
        data = self._carrier.recv(1 + self._chance.randrange(60_000))
        if data:
            self.incoming.write(data)
        if not self.is_ready and self.failure is None:
            try:
                self.tls.do_handshake()
                self.is_ready = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self.failure = error
        self._rest += self.outgoing.read()
        if self._rest:
            piece = self._rest[: 1 + self._chance.randrange(len(self._rest))]
            self._rest = self._rest[self._carrier.send(piece) :]


def encrypted(
    loop: SimulatedLoop, chance: random.Random, carrier: Transport, peer: Peer
) -> tuple[TlsTransport, TlsPeer]:
    """Put TLS over both ends of a connection."""
    clock = Untimed(loop)
    transport = TlsTransport(
        carrier,
        server_context(),
        clock,
        HandshakeTurns(clock, loop.time),
        memoryview(bytearray(PART_BYTES)),
        on_established=lambda tls: None,
        on_refused=lambda why: None,
    )
    return transport, TlsPeer(peer, client_context(), chance)
