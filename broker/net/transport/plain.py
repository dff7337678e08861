"""A plaintext connection: a non-blocking TCP socket, and slices of files by `sendfile`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

from broker.net.chunks import Bytes
from broker.net.sockets.addresses import peer_address
from broker.net.sockets.event_loop import Poller

_MORE = getattr(socket, "MSG_MORE", 0)


class PlainTransport:
    """Implements `Transport` on a connected, non-blocking socket, which it owns."""

    __slots__ = ("_fd", "_poller", "_sock", "peer", "recv_into", "send")

    has_unsent: bool = False

    def __init__(self, poller: Poller, sock: socket.socket) -> None:
        self._poller = poller
        self._sock = sock
        self._fd = sock.fileno()
        # The socket's own methods: a wrapper would add the cost of a call to each request.
        self.recv_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[[Bytes], int] = sock.send
        try:
            self.peer = peer_address(sock.getpeername()[0])
        except OSError:
            self.peer = "?"

    def watch_readable(self, callback: Callable[[], None]) -> None:
        self._poller.add_reader(self._fd, callback)

    def unwatch_readable(self) -> None:
        self._poller.remove_reader(self._fd)

    def watch_writable(self, callback: Callable[[], None]) -> None:
        self._poller.add_writer(self._fd, callback)

    def unwatch_writable(self) -> None:
        self._poller.remove_writer(self._fd)

    def send_many(self, chunks: Sequence[Bytes], more: bool) -> int:
        return self._sock.sendmsg(chunks, (), _MORE if more else 0)

    def send_file(self, fd: int, position: int, count: int) -> int:
        return os.sendfile(self._fd, fd, position, count)

    def end_sending(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()
