"""Lets kazoo exchange many requests and answers with few calls of the system.

kazoo takes one request from its queue at a time, waits until the connection can be written to, writes it, and looks
whether there is an answer. It reads the length of an answer first, then the rest, and waits before either. Each wait
makes a selector and closes it again. With thousands of requests under way these calls take most of the time: ZooKeeper
answers ten times as many.

A `BufferedConnection` takes what kazoo writes, and gives it what has come already. A `Wakeup` counts in memory how many
requests kazoo has queued. `wait` stands for `select`: it sends what was written before it waits for anything.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence

READ_BYTES = 1 << 16
"""The most that is read in one call."""
WRITE_BYTES = 1 << 16
"""The number of bytes that may wait to be sent before kazoo has to wait with more."""
FIRST_BYTES = 12
"""The first answer up to the time-out that it grants."""
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class BufferedConnection:
    """A connection of kazoo's to a server. Only kazoo's thread uses it.

    Args:
        connection: An open connection, plain or with TLS.
        on_first: Called with the first bytes that come, as soon as there are `FIRST_BYTES`. kazoo gets them afterwards.
    """

    def __init__(self, connection: socket.socket, on_first: Callable[[bytes], None] | None = None) -> None:
        self._socket = connection
        self._on_first = on_first
        self._first = b""
        self._come = b""
        self._read = 0
        """The number of bytes of what has come that were taken already."""
        self._outgoing = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        self._socket.setblocking(bool(flag))

    def getpeername(self) -> object:
        return self._socket.getpeername()

    def close(self) -> None:
        """Close it; what was not sent is dropped."""
        self._socket.close()

    @property
    def waiting(self) -> int:
        """The number of bytes that were written and not sent yet."""
        return len(self._outgoing)

    def pending(self) -> int:
        """Return the number of bytes that can be read at once, without a look at the connection."""
        kept = len(self._come) - self._read
        return kept or (self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0)

    def recv(self, most: int) -> bytes:
        """Return some bytes; none if the server has ended the connection.

        Raises:
            OSError: There are none at present, or the connection has failed.
        """
        if self._read == len(self._come):
            self._come, self._read = self._socket.recv(max(most, READ_BYTES)), 0
            if self._on_first is not None:
                self._note_first(self._on_first)
        found = self._come[self._read : self._read + most]
        self._read += len(found)
        return found

    def _note_first(self, call: Callable[[bytes], None]) -> None:
        self._first += self._come
        if len(self._first) >= FIRST_BYTES:
            self._on_first = None
            call(self._first[:FIRST_BYTES])

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Take bytes that `flush` sends."""
        self._outgoing += data
        return len(data)

    def sendall(self, data: bytes) -> None:
        """Send bytes now.

        Raises:
            OSError: They cannot be sent.
        """
        self.send(data)
        while self._outgoing:
            self.flush()
            if self._outgoing:
                wait([], [self], None)

    def flush(self) -> None:
        """Send what the connection takes at present of what was written.

        Raises:
            OSError: The connection has failed.
        """
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing)
            except _LATER:
                return
            del self._outgoing[:sent]


class Wakeup:
    """Counts requests that kazoo has queued, and wakes its thread when there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)

    def ends(self) -> tuple[ReadingEnd, WritingEnd]:
        """Return the ends, which have what kazoo uses of a pair of sockets."""
        return ReadingEnd(self), WritingEnd(self)

    def fileno(self) -> int:
        return self._reading.fileno()

    @property
    def count(self) -> int:
        """The number of requests that are queued."""
        return self._count

    def add(self) -> None:
        """Count a request.

        Raises:
            OSError: It was closed.
        """
        with self._lock:
            # The other thread is woken by the first one; it sees the number of all.
            if not self._count:
                self._writing.send(b"\0")
            self._count += 1

    def take(self) -> None:
        """Count a request as taken.

        Raises:
            BlockingIOError: There is none.
            OSError: It was closed.
        """
        with self._lock:
            if not self._count:
                raise BlockingIOError("no request is queued")
            self._count -= 1
            if not self._count:
                self._reading.recv(1)

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            self._reading.close()
            self._writing.close()


class ReadingEnd:
    """The end of a `Wakeup` on which kazoo's thread waits."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup

    def fileno(self) -> int:
        return self._wakeup.fileno()

    def pending(self) -> int:
        return self._wakeup.count

    def recv(self, _most: int) -> bytes:
        self._wakeup.take()
        return b"\0"

    def close(self) -> None:
        self._wakeup.close()


class WritingEnd:
    """The end of a `Wakeup` to which all threads write that queue requests, a byte for each."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup

    def send(self, data: bytes) -> int:
        self._wakeup.add()
        return len(data)

    def close(self) -> None:
        self._wakeup.close()


Readable = BufferedConnection | ReadingEnd


def wait(
    readers: Sequence[Readable], writers: Sequence[BufferedConnection], timeout: float | None
) -> tuple[list[Readable], list[BufferedConnection]]:
    """Wait until something can be read or written, as `select` does; send what was written before.

    Args:
        readers: Where something is to be read.
        writers: Where something is to be written.
        timeout: How long to wait, in seconds; without end if it is None.

    Returns:
        Those of the readers and writers that are ready; none if the time is over.

    Raises:
        OSError: A connection has failed.
    """
    end = None if timeout is None else time.monotonic() + timeout
    connections = [each for each in dict.fromkeys((*readers, *writers)) if isinstance(each, BufferedConnection)]
    while True:
        readable = [each for each in readers if each.pending()]
        writable = [each for each in writers if each.waiting < WRITE_BYTES]
        is_filling = any(isinstance(each, ReadingEnd) for each in readable)
        if writable or (is_filling and all(each.waiting < WRITE_BYTES for each in connections)):
            # kazoo writes now, or comes again with the next request that is queued.
            return readable, writable
        for each in connections:
            each.flush()
        writable = [each for each in writers if each.waiting < WRITE_BYTES]
        is_ready = bool(readable or writable)
        left = 0.0 if is_ready else None if end is None else max(0.0, end - time.monotonic())
        readable = _ready(readers, connections, left)
        if is_ready or readable or left == 0.0:
            return readable, writable


def _ready(
    readers: Sequence[Readable], connections: Sequence[BufferedConnection], timeout: float | None
) -> list[Readable]:
    """Wait until a reader is ready, or a connection takes more; return the readers that are ready."""
    with selectors.DefaultSelector() as selector:
        for each in dict.fromkeys((*readers, *connections)):
            events = selectors.EVENT_READ if each in readers else 0
            if isinstance(each, BufferedConnection) and each.waiting:
                events |= selectors.EVENT_WRITE
            if events:
                selector.register(each, events)
        ready = selector.select(timeout)
    found = {id(key.fileobj) for key, events in ready if events & selectors.EVENT_READ}
    return [each for each in readers if each.pending() or id(each) in found]
