"""TCP proxies in front of the brokers' listeners for each other, and of ZooKeeper, so that a broker can be cut off.

While a broker is cut off, nothing passes. What was sent waits, and no connection ends. New connections are accepted and
stay silent. That is how a network behaves that drops packets. If the address refused connections instead, others would
take the broker for dead. When the broker is connected again, what waits is delivered.

A proxy learns which broker connects to it by the client id of the first request (`broker.cluster_links`). Over TLS it
does not learn that: a broker that is cut off cannot be reached then, but it reaches others. All proxies run on one
thread, with an event loop of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

HOST = "127.0.0.1"
BACKLOG = 128
PAUSE_S = 0.1
"""The pause after a connection that could not be accepted."""
CHUNK = 1 << 18
"""The most bytes that are read at once."""
_HEADER = struct.Struct(">ihhih")
"""The beginning of a request: its size, key and version, the correlation id and the length of the client id."""
_TLS = b"\x16\x03"
"""The beginning of a handshake. As the size of a request it would be 369 MB."""
_CLIENT_ID = re.compile(rb"broker-(\d+)-")
_ORDERLY = struct.pack("ii", 0, 0)
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection, so that the peer sees that it was not ended in good order."""


class Side(NamedTuple):
    """One broker's connections of one kind, which are cut or not."""

    kind: str
    """`zookeeper` or `brokers`."""
    broker_id: int


def source_of(data: bytes) -> int | None:
    """Return the id of the broker that begins a connection with these bytes; None if they are another client's, or TLS.

    Raises:
        EOFError: There are too few bytes to tell.
    """
    if data.startswith(_TLS):
        return None
    if len(data) < _HEADER.size:
        raise EOFError
    length = _HEADER.unpack_from(data)[-1]
    end = _HEADER.size + max(0, length)
    if len(data) < end:
        raise EOFError
    found = _CLIENT_ID.match(data, _HEADER.size, end)
    return None if found is None else int(found[1])


class Proxies:
    """The proxies of a cluster. Call the methods on one thread, which must not be that of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        self._network = _Network()
        self._fronts: dict[int, _Front] = {}

    def add(self, side: Side, port: int = 0) -> int:
        """Make a proxy for connections to a broker, or from a broker to ZooKeeper; return its port.

        It refuses connections until `open`.

        Args:
            side: What the proxy is for.
            port: The port to use if it is free.

        Raises:
            OSError: There is no free port.
        """
        front = _Front(self._network, side, port)
        self._fronts[front.port] = front
        return front.port

    def open(self, port: int, target: int) -> None:
        """Let a proxy accept connections, and forward them to another port of this machine."""
        self._do(self._fronts[port].open(target))

    def shut(self, port: int) -> None:
        """Let a proxy refuse connections, because the process behind it has ended.

        While its broker is cut off, connections are not refused, but stay silent.
        """
        self._do(self._fronts[port].shut())

    def cut(self, broker_id: int, kinds: Iterable[str]) -> None:
        """Cut a broker off from these kinds of peers, and from no others."""
        self._do(self._set_cut(broker_id, frozenset(kinds)))

    def close(self) -> None:
        """End all connections, and the thread."""
        for front in self._fronts.values():
            self._do(front.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Inside

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _set_cut(self, broker_id: int, kinds: frozenset[str]) -> None:
        await self._network.set_cut(broker_id, kinds)
        for front in self._fronts.values():
            await front.settle()


class _Network:
    """Knows which sides are cut, and wakes those that wait for the end of a cut."""

    def __init__(self) -> None:
        self._cut: set[Side] = set()
        self._changed = asyncio.Condition()

    def is_cut(self, sides: Iterable[Side]) -> bool:
        return not self._cut.isdisjoint(sides)

    async def set_cut(self, broker_id: int, kinds: frozenset[str]) -> None:
        self._cut = {side for side in self._cut if side.broker_id != broker_id}
        self._cut |= {Side(kind, broker_id) for kind in kinds}
        async with self._changed:
            self._changed.notify_all()

    async def until_open(self, sides: frozenset[Side]) -> None:
        if self.is_cut(sides):
            async with self._changed:
                await self._changed.wait_for(lambda: not self.is_cut(sides))


class _Front:
    """One proxy. It keeps its port even while it refuses connections, so that nobody else takes the port."""

    def __init__(self, network: _Network, side: Side, port: int) -> None:
        self._network = network
        self._side = side
        try:
            self._socket = _bound(port)
        except OSError:
            self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._target: int | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, target: int) -> None:
        self._target = target
        await self.settle()

    async def shut(self) -> None:
        self._target = None
        await self.settle()

    async def settle(self) -> None:
        """Begin to accept connections; or begin to refuse them, and end the present ones."""
        is_wanted = self._target is not None or self._network.is_cut([self._side])
        if is_wanted and self._accepting is None:
            self._socket.listen(BACKLOG)
            self._accepting = asyncio.get_running_loop().create_task(self._accept())
        elif not is_wanted and self._accepting is not None:
            await self._end()
            self._socket = _bound(self.port)

    async def close(self) -> None:
        await self._end()

    async def _end(self) -> None:
        tasks = [*self._connections, *([self._accepting] if self._accepting is not None else [])]
        self._accepting = None
        self._socket.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError:
                # Too many files may be open. Connections wait until there are fewer.
                await asyncio.sleep(PAUSE_S)
                continue
            task = loop.create_task(self._serve(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, client: socket.socket) -> None:
        """Forward a connection until both sides have ended it, or one side is gone."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError), client, socket.socket() as server:
            try:
                for each in (client, server):
                    each.setblocking(False)
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                first, sides = await self._begin(client)
                await self._network.until_open(sides)
                if self._target is None:
                    raise ConnectionRefusedError
                await loop.sock_connect(server, (HOST, self._target))
                await loop.sock_sendall(server, first)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._forward(client, server, sides))
                    both.create_task(self._forward(server, client, sides))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ORDERLY)
            except (OSError, asyncio.CancelledError, ExceptionGroup):
                with contextlib.suppress(OSError):
                    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    async def _begin(self, client: socket.socket) -> tuple[bytes, frozenset[Side]]:
        """Return the first bytes of a connection, and the sides that must not be cut for it."""
        if self._side.kind == "zookeeper":
            return b"", frozenset({self._side})
        loop, first = asyncio.get_running_loop(), b""
        while True:
            data = await loop.sock_recv(client, CHUNK)
            first += data
            try:
                source = source_of(first)
            except EOFError:
                if data:
                    continue
                source = None
            if source is None:
                return first, frozenset({self._side})
            # A broker that is cut off from the others still reaches itself.
            sides = {self._side, Side(self._side.kind, source)}
            return first, frozenset(sides if len(sides) > 1 else ())

    async def _forward(self, source: socket.socket, target: socket.socket, sides: frozenset[Side]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._network.until_open(sides)
            data = await loop.sock_recv(source, CHUNK)
            await self._network.until_open(sides)
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(target, data)


def _bound(port: int) -> socket.socket:
    """Return a socket that has a port and does not listen: connections to it are refused."""
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it: one that is cancelled before it is served is reset, too.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        found.bind((HOST, port))
    except BaseException:
        found.close()
        raise
    found.setblocking(False)
    return found
