"""Two more transports and their clients: one in memory, and one that transforms its bytes.

The second stands for TLS: it has a handshake, reads whole records only, keeps what it has decrypted and what the kernel
did not take, and reads files by `pread`.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.net.chunks import Bytes
from broker.net.sockets.event_loop import Clock, Poller

RECORD_BYTES = 1 << 14
_LENGTH = struct.Struct(">H")
_HELLO = b"HELLO"
_FLIP = bytes(byte ^ 0x5A for byte in range(256))


class Peer(Protocol):
    """The client of a connection. Nothing blocks."""

    def send(self, data: bytes) -> int: ...

    def recv(self, count: int) -> bytes:
        """Return the bytes that have arrived, if any."""

    def close(self) -> None: ...


# -- in memory


class InMemoryTransport:
    """A `Transport` without a descriptor. It sends and receives a part of what it could, as sockets do."""

    peer = "memory"
    has_unsent = False

    def __init__(self, clock: Clock, chance: random.Random, capacity: int) -> None:
        self._clock = clock
        self._chance = chance
        self._capacity = capacity
        self.inbound = bytearray()
        self.outbound = bytearray()
        self.has_ended = False
        self.has_sent_end = False
        self.closed = False
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._is_polling = False

    def watch_readable(self, callback: Callable[[], None]) -> None:
        assert self._on_readable is None
        self._on_readable = callback
        self.poll()

    def unwatch_readable(self) -> None:
        assert self._on_readable is not None
        self._on_readable = None

    def watch_writable(self, callback: Callable[[], None]) -> None:
        assert self._on_writable is None
        self._on_writable = callback
        self.poll()

    def unwatch_writable(self) -> None:
        assert self._on_writable is not None
        self._on_writable = None

    def recv_into(self, window: memoryview) -> int:
        assert not self.closed
        if not self.inbound:
            if self.has_ended:
                return 0
            raise BlockingIOError
        count = self._chance.randint(1, min(len(window), len(self.inbound)))
        window[:count] = self.inbound[:count]
        del self.inbound[:count]
        return count

    def send(self, data: Bytes) -> int:
        assert not self.closed
        assert len(data)
        if self.has_ended:
            raise BrokenPipeError
        free = self._capacity - len(self.outbound)
        if free <= 0:
            raise BlockingIOError
        count = self._chance.randint(1, min(free, len(data)))
        self.outbound += data[:count]
        return count

    def send_many(self, chunks: Sequence[Bytes], more: bool) -> int:
        return self.send(b"".join(chunks))

    def send_file(self, fd: int, position: int, count: int) -> int:
        data = os.pread(fd, count, position)
        return self.send(data) if data else 0

    def end_sending(self) -> None:
        self.has_sent_end = True

    def close(self) -> None:
        self.closed = True
        assert self._on_readable is None
        assert self._on_writable is None

    def poll(self) -> None:
        """Call back soon if something can be received or sent."""
        if not self._is_polling and (self._can_receive() or self._can_send()):
            self._is_polling = True
            self._clock.call_soon(self._call_back)

    def _can_receive(self) -> bool:
        return self._on_readable is not None and (bool(self.inbound) or self.has_ended)

    def _can_send(self) -> bool:
        return self._on_writable is not None and (len(self.outbound) < self._capacity or self.has_ended)

    def _call_back(self) -> None:
        self._is_polling = False
        if self._can_receive() and self._on_readable is not None:
            self._on_readable()
        if self._can_send() and self._on_writable is not None:
            self._on_writable()
        self.poll()


class InMemoryPeer:
    """The client of an `InMemoryTransport`."""

    def __init__(self, transport: InMemoryTransport) -> None:
        self._transport = transport

    def send(self, data: bytes) -> int:
        self._transport.inbound += data
        self._transport.poll()
        return len(data)

    def recv(self, count: int) -> bytes:
        data = bytes(self._transport.outbound[:count])
        del self._transport.outbound[:count]
        self._transport.poll()
        return data

    def close(self) -> None:
        self._transport.has_ended = True
        self._transport.poll()


class SocketPeer:
    """The client of a `PlainTransport`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, data: bytes) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def recv(self, count: int) -> bytes:
        try:
            return self._sock.recv(count)
        except OSError:
            return b""

    def close(self) -> None:
        self._sock.close()


# -- transformed


def _records_of(data: bytes) -> bytes:
    pieces = [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]
    return b"".join(_LENGTH.pack(len(piece)) + piece.translate(_FLIP) for piece in pieces)


def _take_records(incoming: bytearray) -> bytes:
    """Remove whole records from the front, and return their contents."""
    plain = bytearray()
    while len(incoming) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(incoming)
        if len(incoming) - _LENGTH.size < length:
            break
        plain += incoming[_LENGTH.size : _LENGTH.size + length].translate(_FLIP)
        del incoming[: _LENGTH.size + length]
    return bytes(plain)


class TransformingTransport:
    """A `Transport` on a socket whose peer transforms its bytes, too."""

    peer = "transformed"

    def __init__(self, poller: Poller, clock: Clock, sock: socket.socket) -> None:
        self._poller = poller
        self._clock = clock
        self._sock = sock
        self._fd = sock.fileno()
        self._incoming = bytearray()
        self._plain = bytearray()
        self._outgoing = bytearray()
        self._is_ready = False
        self._has_ended = False
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._reads = False
        self._writes = False
        self._is_delivering = False

    @property
    def has_unsent(self) -> bool:
        return bool(self._outgoing)

    def watch_readable(self, callback: Callable[[], None]) -> None:
        self._on_readable = callback
        self._register()
        # What is decrypted already makes no descriptor readable.
        self._deliver_soon()

    def unwatch_readable(self) -> None:
        self._on_readable = None
        self._register()

    def watch_writable(self, callback: Callable[[], None]) -> None:
        self._on_writable = callback
        self._register()

    def unwatch_writable(self) -> None:
        self._on_writable = None
        self._register()

    def recv_into(self, window: memoryview) -> int:
        if not self._plain:
            if self._has_ended:
                return 0
            raise BlockingIOError
        count = min(len(window), len(self._plain))
        window[:count] = self._plain[:count]
        del self._plain[:count]
        return count

    def send(self, data: Bytes) -> int:
        if self._outgoing or not self._is_ready:
            raise BlockingIOError
        piece = bytes(data[:RECORD_BYTES])
        self._outgoing += _records_of(piece)
        self._push()
        return len(piece)

    def send_many(self, chunks: Sequence[Bytes], more: bool) -> int:
        return self.send(b"".join(chunks))

    def send_file(self, fd: int, position: int, count: int) -> int:
        data = os.pread(fd, min(count, RECORD_BYTES), position)
        return self.send(data) if data else 0

    def end_sending(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        assert self._on_readable is None
        assert self._on_writable is None
        self._outgoing.clear()
        self._plain.clear()
        self._register()
        self._sock.close()

    def _register(self) -> None:
        reads = self._on_readable is not None
        # Of its own accord too, for a handshake's bytes.
        writes = bool(self._outgoing) or (self._on_writable is not None and self._is_ready)
        if reads != self._reads:
            self._reads = reads
            if reads:
                self._poller.add_reader(self._fd, self._receive)
            else:
                self._poller.remove_reader(self._fd)
        if writes != self._writes:
            self._writes = writes
            if writes:
                self._poller.add_writer(self._fd, self._send_rest)
            else:
                self._poller.remove_writer(self._fd)

    def _receive(self) -> None:
        try:
            data = self._sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._has_ended = self._has_ended or not data
        self._incoming += data
        if not self._is_ready and len(self._incoming) >= len(_HELLO):
            assert self._incoming.startswith(_HELLO)
            del self._incoming[: len(_HELLO)]
            self._is_ready = True
            self._outgoing += _HELLO
            self._push()
        if self._is_ready:
            self._plain += _take_records(self._incoming)
        self._deliver()

    def _deliver(self) -> None:
        self._is_delivering = False
        if self._on_readable is not None and (self._plain or self._has_ended):
            self._on_readable()
            self._deliver_soon()

    def _deliver_soon(self) -> None:
        if self._on_readable is not None and self._plain and not self._is_delivering:
            self._is_delivering = True
            self._clock.call_soon(self._deliver)

    def _push(self) -> None:
        with contextlib.suppress(BlockingIOError):
            del self._outgoing[: self._sock.send(self._outgoing)]
        self._register()

    def _send_rest(self) -> None:
        try:
            if self._outgoing:
                self._push()
        except OSError:
            # The writer meets the error itself, when it sends.
            self._outgoing.clear()
            self._register()
        if not self._outgoing and self._on_writable is not None:
            self._on_writable()


class TransformingPeer:
    """The client of a `TransformingTransport`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = SocketPeer(sock)
        self._outgoing = bytearray(_HELLO)
        self._incoming = bytearray()
        self._plain = bytearray()
        self._is_ready = False

    def send(self, data: bytes) -> int:
        count = 0
        if not self._outgoing and data:
            count = min(len(data), RECORD_BYTES)
            self._outgoing += _records_of(data[:count])
        del self._outgoing[: self._socket.send(bytes(self._outgoing))]
        return count

    def recv(self, count: int) -> bytes:
        # The rest of the last record, or of the handshake.
        self.send(b"")
        self._incoming += self._socket.recv(1 << 16)
        if not self._is_ready and len(self._incoming) >= len(_HELLO):
            assert self._incoming.startswith(_HELLO)
            del self._incoming[: len(_HELLO)]
            self._is_ready = True
        if self._is_ready:
            self._plain += _take_records(self._incoming)
        data = bytes(self._plain[:count])
        del self._plain[:count]
        return data

    def close(self) -> None:
        self._socket.close()
