"""Listening sockets: the interface, and its implementation by the system's sockets."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Protocol

from broker.config.definition import ConfigError
from broker.config.listeners import Endpoint
from broker.net.sockets.addresses import peer_address
from broker.net.sockets.event_loop import Poller
from broker.net.transport.interface import Transport
from broker.net.transport.plain import PlainTransport


class IncomingConnection(Protocol):
    """A connection that a peer has opened and that is not served yet."""

    @property
    def peer(self) -> str:
        """The address of the peer, without its port."""

    @property
    def descriptor(self) -> int:
        """The number of its file descriptor, or -1 if it has none."""

    def open(self, send_buffer_bytes: int, receive_buffer_bytes: int) -> Transport:
        """Return a transport to serve the connection by.

        Args:
            send_buffer_bytes: `SO_SNDBUF`; not positive leaves it to the system.
            receive_buffer_bytes: `SO_RCVBUF`; not positive leaves it to the system.

        Raises:
            OSError: the peer has already disconnected. The connection is closed.
        """

    def close(self) -> None:
        """Close the connection without serving it."""


class Listener(Protocol):
    """A listener's socket."""

    @property
    def port(self) -> int:
        """The port that the socket is bound to."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back in each round of the loop while connections wait to be accepted."""

    def unwatch(self) -> None:
        """End `watch`."""

    def accept(self) -> IncomingConnection:
        """Accept a connection.

        Raises:
            BlockingIOError: no connection waits.
            OSError: no connection can be accepted now, for example because no file descriptor is left.
        """

    def close(self) -> None:
        """Stop listening."""


class SocketConnection:
    """An accepted TCP connection."""

    def __init__(self, poller: Poller, sock: socket.socket, peer: str) -> None:
        self._poller = poller
        self._sock = sock
        self.peer = peer

    @property
    def descriptor(self) -> int:
        return self._sock.fileno()

    def open(self, send_buffer_bytes: int, receive_buffer_bytes: int) -> Transport:
        sock = self._sock
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            if receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        except OSError:
            sock.close()
            raise
        return PlainTransport(self._poller, sock)

    def close(self) -> None:
        self._sock.close()


class SocketListener:
    """A listening TCP socket.

    Raises:
        ConfigError: the address cannot be bound.
    """

    def __init__(self, poller: Poller, endpoint: Endpoint, backlog: int) -> None:
        self._poller = poller
        self._sock = _listen(endpoint, backlog)

    @property
    def port(self) -> int:
        number: int = self._sock.getsockname()[1]
        return number

    def watch(self, callback: Callable[[], None]) -> None:
        self._poller.add_reader(self._sock.fileno(), callback)

    def unwatch(self) -> None:
        self._poller.remove_reader(self._sock.fileno())

    def accept(self) -> IncomingConnection:
        sock, address = self._sock.accept()
        return SocketConnection(self._poller, sock, peer_address(address[0]))

    def close(self) -> None:
        self._sock.close()


_REMEDIES = {
    errno.EADDRINUSE: "Is another broker running there? Stop it, or choose another port in listeners",
    errno.EACCES: "Ports below 1024 need privileges; choose another port in listeners",
}
"""The remedies for a failed bind, by errno."""


def _listen(endpoint: Endpoint, backlog: int) -> socket.socket:
    host = endpoint.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock: socket.socket | None = None
    try:
        if not host and socket.has_dualstack_ipv6():
            return _nonblocking(
                socket.create_server(("", endpoint.port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
            )
        info = socket.getaddrinfo(host or None, endpoint.port, family, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)[0]
        sock = socket.socket(info[0], info[1], info[2])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(info[4])
        sock.listen(backlog)
        return _nonblocking(sock)
    except OSError as error:
        if sock is not None:
            sock.close()
        remedy = _REMEDIES.get(error.errno or 0, "Name an address of this machine in listeners")
        raise ConfigError(f"Socket server failed to bind to {endpoint}: {error.strerror or error}. {remedy}") from error


def _nonblocking(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    return sock
