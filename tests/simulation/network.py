"""A network in memory: hosts by name, and connections whose bytes take time and arrive in pieces."""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from broker.config.definition import ConfigError
from broker.config.listeners import Endpoint
from broker.net.chunks import Bytes
from broker.net.sockets.listener import IncomingConnection, Listener
from broker.net.transport.interface import Transport

P = TypeVar("P", bound=asyncio.BaseProtocol)

CAPACITY = 64 * 1024
"""The bytes that one direction of a connection buffers before its sender must wait."""
FIRST_PORT = 40_000
SLOWEST_S = 0.002
RECONNECT_S = 0.2
"""The interval between attempts to connect while nothing answers."""


class Pipe:
    """One direction of a connection: bytes arrive in order, with a delay, and not while the way is cut.

    What is sent over a way that is cut arrives when it is healed, as TCP sends again what is not acknowledged.
    """

    def __init__(self, network: SimulatedNetwork, source: str, target: str) -> None:
        self._network = network
        self._loop = network.loop
        self._chance = network.chance
        self._way = (source, target)
        self._next_at = 0.0
        self._in_flight = 0
        self._held: deque[Callable[[], None]] = deque()
        self.arrived = bytearray()
        self.ended = False
        self.on_arrival: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] | None = None
        network.pipes.setdefault(self._way, []).append(self)

    @property
    def room(self) -> int:
        """Return the number of bytes that can be sent now."""
        return CAPACITY - self._in_flight - len(self.arrived)

    def send(self, data: bytes) -> None:
        """Send bytes, even beyond the buffer."""
        self._in_flight += len(data)
        self._at_some_time(partial(self._deliver, data))

    def end(self) -> None:
        """Send the end, after all bytes."""
        self._at_some_time(self._deliver_end)

    def take(self, count: int) -> bytes:
        """Receive bytes that have arrived."""
        data = bytes(self.arrived[:count])
        del self.arrived[:count]
        if self.on_room is not None:
            self._loop.call_soon(self.on_room)
        return data

    def release(self) -> None:
        """Deliver what was held back; the way is healed."""
        while self._held:
            self._held.popleft()()

    def _at_some_time(self, deliver: Callable[[], None]) -> None:
        # Timers of the same moment need not run in the order in which they were made.
        self._next_at = max(self._next_at + 1e-6, self._loop.time() + self._chance.uniform(0, SLOWEST_S))
        self._loop.call_at(self._next_at, self._arrive, deliver)

    def _arrive(self, deliver: Callable[[], None]) -> None:
        if self._held or self._way in self._network.cuts:
            self._held.append(deliver)
        else:
            deliver()

    def _deliver(self, data: bytes) -> None:
        self._in_flight -= len(data)
        self.arrived += data
        self.on_arrival()

    def _deliver_end(self) -> None:
        if not self.ended:
            self.ended = True
            self._network.pipes[self._way].remove(self)
            self.on_arrival()


class ServerSide:
    """The accepted end of a connection: the broker's `Transport`."""

    has_unsent = False

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random, peer: str, come: Pipe, go: Pipe) -> None:
        self._loop = loop
        self._chance = chance
        self._come = come
        self._go = go
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._scheduled: set[Callable[[], None]] = set()
        self.peer = peer
        come.on_arrival = lambda: self._schedule(self._readable)

    def watch_readable(self, callback: Callable[[], None]) -> None:
        self._on_readable = callback
        self._schedule(self._readable)

    def unwatch_readable(self) -> None:
        self._on_readable = None

    def watch_writable(self, callback: Callable[[], None]) -> None:
        self._on_writable = callback
        self._go.on_room = lambda: self._schedule(self._writable)
        self._schedule(self._writable)

    def unwatch_writable(self) -> None:
        self._on_writable = self._go.on_room = None

    def recv_into(self, window: memoryview) -> int:
        if not self._come.arrived:
            if self._come.ended:
                return 0
            raise BlockingIOError
        data = self._come.take(self._chance.randint(1, len(window)))
        window[: len(data)] = data
        return len(data)

    def send(self, data: Bytes) -> int:
        room = min(self._go.room, len(data))
        if room <= 0:
            raise BlockingIOError
        accepted = self._chance.randint(1, room) if self._chance.random() < 0.2 else room
        self._go.send(bytes(data[:accepted]))
        return accepted

    def send_many(self, chunks: Sequence[Bytes], more: bool) -> int:
        return self.send(b"".join(chunks))

    def send_file(self, fd: int, position: int, count: int) -> int:
        if self._go.room <= 0:
            raise BlockingIOError
        data = os.pread(fd, min(count, self._go.room), position)
        return self.send(data) if data else 0

    def end_sending(self) -> None:
        self._go.end()

    def close(self) -> None:
        self._on_readable = self._on_writable = self._go.on_room = None
        self._go.end()

    def _schedule(self, look: Callable[[], None]) -> None:
        if look not in self._scheduled:
            self._scheduled.add(look)
            self._loop.call_soon(look)

    def _readable(self) -> None:
        self._scheduled.discard(self._readable)
        if self._on_readable is not None and (self._come.arrived or self._come.ended):
            self._on_readable()
            if self._come.arrived or self._come.ended:
                self._schedule(self._readable)

    def _writable(self) -> None:
        self._scheduled.discard(self._writable)
        if self._on_writable is not None and self._go.room > 0:
            self._on_writable()
            self._schedule(self._writable)


class ClientSide(asyncio.Transport):
    """The end of a connection that opened it: an asyncio transport for a `BufferedProtocol`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BufferedProtocol, come: Pipe, go: Pipe
    ) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._come = come
        self._go = go
        self._closed = False
        self._reading = True
        come.on_arrival = self._schedule

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closed:
            self._go.send(bytes(data))

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._loop.call_soon(self._receive)

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._go.end()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return self._closed

    def _schedule(self) -> None:
        self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        come = self._come
        while come.arrived and self._reading and not self._closed:
            buffer = memoryview(self._protocol.get_buffer(-1))
            data = come.take(len(buffer))
            buffer[: len(data)] = data
            self._protocol.buffer_updated(len(data))
        if come.ended and not come.arrived and not self._closed:
            self._protocol.eof_received()
            self.abort()


class SimulatedConnection:
    """A connection that was opened and waits to be accepted."""

    descriptor = -1

    def __init__(self, side: ServerSide) -> None:
        self._side = side
        self.peer = side.peer

    def open(self, send_buffer_bytes: int, receive_buffer_bytes: int) -> Transport:
        return self._side

    def close(self) -> None:
        self._side.close()


class SimulatedListener:
    """A listener of a simulated host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, port: int, on_close: Callable[[], None]) -> None:
        self.loop = loop
        self._on_close = on_close
        self._callback: Callable[[], None] | None = None
        self._waiting: list[SimulatedConnection] = []
        self.port = port

    def watch(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self.loop.call_soon(self._look)

    def unwatch(self) -> None:
        self._callback = None

    def accept(self) -> IncomingConnection:
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.pop(0)

    def close(self) -> None:
        self._on_close()

    def come(self, incoming: SimulatedConnection) -> None:
        """Accept a connection of a peer."""
        self._waiting.append(incoming)
        self.loop.call_soon(self._look)

    def _look(self) -> None:
        if self._callback is not None and self._waiting:
            self._callback()


class SimulatedNetwork:
    """The wires between all hosts.

    Attributes:
        cuts: ways, from one host to another, on which nothing arrives.
        down: hosts without power: nothing answers there, and nobody is told.
        pipes: the open connections, by their way.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.down: set[str] = set()
        self.pipes: dict[tuple[str, str], list[Pipe]] = {}
        self._ports = 0

    def host(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> HostNetwork:
        """Return the network of the host with that name, for a process on a loop of its own, or on the network's."""
        return HostNetwork(self, name, loop or self.loop)

    def forget(self, key: tuple[str, int]) -> None:
        self.listeners.pop(key, None)

    def free_port(self) -> int:
        self._ports += 1
        return FIRST_PORT + self._ports

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Let nothing arrive that goes this way."""
        self.cuts.add((source, target))

    def heal(self, source: str, target: str) -> None:
        """Let arrive what was held back, and all that follows."""
        self.cuts.discard((source, target))
        for pipe in list(self.pipes.get((source, target), ())):
            pipe.release()

    def end_process(self, host: str) -> None:
        """Close the listeners of a process that was killed, and end its connections, unless the host has no power."""
        for key in [key for key in self.listeners if key[0] == host]:
            del self.listeners[key]
        if host not in self.down:
            self.reset(host)

    def reset(self, host: str) -> None:
        """End the connections that a host has forgotten; the peers learn of it."""
        for way, pipes in list(self.pipes.items()):
            if host in way:
                for pipe in list(pipes):
                    pipe.end()

    def can_connect(self, source: str, target: str) -> bool:
        """Return whether packets go there and back."""
        return not {source, target} & self.down and not {(source, target), (target, source)} & self.cuts


class HostNetwork:
    """The `Network` of one host. Listeners bind the host's name, whatever address they are given."""

    def __init__(self, network: SimulatedNetwork, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._network = network
        self._name = name
        self._loop = loop

    def listen(self, endpoint: Endpoint, backlog: int) -> Listener:
        port = endpoint.port or self._network.free_port()
        key = (self._name, port)
        if key in self._network.listeners:
            raise ConfigError(f"Socket server failed to bind to {endpoint}: Address already in use")
        listener = SimulatedListener(self._loop, port, lambda: self._network.forget(key))
        self._network.listeners[key] = listener
        return listener

    async def addresses_of(self, hosts: Iterable[str]) -> dict[str, str]:
        await asyncio.sleep(self._network.chance.uniform(0, SLOWEST_S))
        known = {name for name, _ in self._network.listeners}
        return {host: host for host in hosts if host in known}

    async def connect(self, make_protocol: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        network = self._network
        await asyncio.sleep(network.chance.uniform(0, SLOWEST_S))
        while not network.can_connect(self._name, host):
            # As the system sends its first packet again and again, until the caller gives up.
            await asyncio.sleep(RECONNECT_S)
        listener = network.listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        there, back = Pipe(network, self._name, host), Pipe(network, host, self._name)
        protocol = make_protocol()
        assert isinstance(protocol, asyncio.BufferedProtocol)
        client = ClientSide(self._loop, protocol, back, there)
        listener.come(SimulatedConnection(ServerSide(listener.loop, network.chance, self._name, there, back)))
        protocol.connection_made(client)
        return client, protocol
