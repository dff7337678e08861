"""The network as a broker sees it: outgoing connections and listeners. The interface, and plain TCP."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from broker.config.listeners import Endpoint
from broker.net.sockets.host_lookup import HostLookup
from broker.net.sockets.listener import Listener, SocketListener

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Dialer(Protocol):
    """Opens connections. A simulator has its own implementation, and so has a transport that puts TLS below."""

    async def connect(self, make_protocol: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        """Open a connection to `host`:`port` with the protocol that `make_protocol` makes.

        The caller limits the time. The transport reads into the buffers of a `BufferedProtocol`.

        Raises:
            ConnectionRefusedError: Each address of the host refused the connection.
            TimeoutError: The system gave up waiting.
            OSError: Anything else.
        """


class Network(Dialer, Protocol):
    """Opens connections and binds listeners."""

    def listen(self, endpoint: Endpoint, backlog: int) -> Listener:
        """Bind a listener without accepting yet.

        Raises:
            ConfigError: The address cannot be bound.
        """

    async def addresses_of(self, hosts: Iterable[str]) -> dict[str, str]:
        """Return the first address of each host that has one and is found within some seconds."""


class LoopNetwork:
    """Plain TCP on an event loop.

    Args:
        loop: The event loop.
        send_buffer_bytes: `SO_SNDBUF`; -1 leaves it to the system.
        receive_buffer_bytes: `SO_RCVBUF`; -1 leaves it to the system.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
    ) -> None:
        self._loop = loop
        self._lookup = HostLookup(loop)
        self._options = [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            *((socket.SOL_SOCKET, socket.SO_SNDBUF, size) for size in (send_buffer_bytes,) if size >= 0),
            *((socket.SOL_SOCKET, socket.SO_RCVBUF, size) for size in (receive_buffer_bytes,) if size >= 0),
        ]

    def listen(self, endpoint: Endpoint, backlog: int) -> Listener:
        """See `Network`."""
        return SocketListener(self._loop, endpoint, backlog)

    async def addresses_of(self, hosts: Iterable[str]) -> dict[str, str]:
        """See `Network`."""
        return await self._lookup.addresses_of(hosts)

    async def connect(self, make_protocol: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        """See `Dialer`. Tries the host's addresses one after the other."""
        failures: list[OSError] = []
        for family, address in await self._addresses(host, port):
            try:
                connected = await self._connected(family, address)
            except OSError as error:
                failures.append(error)
                continue
            try:
                return await self._loop.create_connection(make_protocol, sock=connected)
            except BaseException:
                connected.close()
                raise
        # A refusal proves that nothing listens only if every address refused.
        raise next((each for each in failures if not isinstance(each, ConnectionRefusedError)), failures[0])

    async def _addresses(self, host: str, port: int) -> list[tuple[int, Any]]:
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            try:
                found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except UnicodeError as error:
                raise OSError(f"{host!r} is not the name of a host") from error
            return [(family, address) for family, _, _, _, address in found]
        return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]

    async def _connected(self, family: int, address: Any) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            for level, option, value in self._options:
                made.setsockopt(level, option, value)
            await self._loop.sock_connect(made, address)
        except BaseException:
            made.close()
            raise
        return made
