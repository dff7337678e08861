"""Request framing: a 4-byte big-endian size, then that many bytes. Pure: no sockets.

A frame's claimed size is checked against the configured maximum at once, and memory is taken only as bytes arrive: a
buffer grows to at most 1 MiB ahead of what was received, so a peer that claims 100 MiB and sends nothing costs 1 MiB.
Beyond that it doubles. A large buffer is a mapping, to which the kernel adds pages without moving a byte: to copy
64 MiB would keep other connections waiting for 100 ms.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from struct import Struct

_SIZE = Struct(">i")

BASE_CAPACITY = 32 * 1024
GROWTH_STEP = 1024 * 1024
LARGE_FRAME = 64 * 1024
MAPPED_FROM = 2 * GROWTH_STEP
"""Bytes from which on a buffer is a mapping."""


_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")
_TLS_HANDSHAKE = b"\x16\x03"


class FrameError(ValueError):
    """A frame size that is negative or above the maximum: the stream cannot be followed any further."""


class FrameBuffer:
    """One connection's receive buffer.

    The caller asks for a ``window``, receives into it, reports with ``received``, and takes whole frames with
    ``next_frame``. A frame is a view into the buffer, valid until the next call of ``window``.
    """

    __slots__ = ("_buffer", "_end", "_max_frame", "_needed", "_start", "_view")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer: bytearray | mmap.mmap = bytearray(BASE_CAPACITY)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._needed = 0

    @property
    def capacity(self) -> int:
        """Bytes of memory held."""
        return len(self._buffer)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet taken as frames."""
        return self._end - self._start

    @property
    def is_receiving(self) -> bool:
        """Whether the size of a frame is known whose end has not been received."""
        return self._needed > 0

    def wanted(self) -> int:
        """Bytes of memory beyond the base that the frame being received takes once it is whole; no fewer than now."""
        return max(self._needed, len(self._buffer)) - BASE_CAPACITY

    def window(self) -> memoryview:
        """Where the next bytes go; empty when the buffer is full of frames that were not taken."""
        start, end = self._start, self._end
        needed = self._needed
        if start == end:
            self._start = self._end = start = end = 0
        target = self._target_capacity()
        if target > len(self._buffer):
            self._replace(target)
            start, end = 0, self._end
        elif start and (needed > len(self._buffer) - start or end == len(self._buffer)):
            pending = end - start
            self._view[:pending] = bytes(self._view[start:end])
            self._start, self._end = 0, pending
            start, end = 0, pending
        if needed > LARGE_FRAME:
            # Stop at the frame's end, so that the bytes of the next one need not be moved.
            return self._view[end : min(len(self._buffer), start + needed)]
        return self._view[end:]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None when more bytes are needed.

        Raises:
            FrameError: the size is negative or above the maximum.
        """
        start = self._start
        available = self._end - start
        if available < 4:
            self._needed = 0
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if size < 0 or size > self._max_frame:
            raise FrameError(
                f"request size {size} is not between 0 and {self._max_frame} (socket.request.max.bytes)"
                + _other_protocol(bytes(self._view[start : start + 4]))
            )
        if available - 4 < size:
            self._needed = size + 4
            return None
        self._needed = 0
        self._start = start + 4 + size
        return self._view[start + 4 : start + 4 + size]

    def shrink(self) -> int:
        """Give back memory beyond the base when nothing is buffered; returns the bytes given back."""
        if self._start != self._end or len(self._buffer) == BASE_CAPACITY:
            return 0
        freed = len(self._buffer) - BASE_CAPACITY
        self._start = self._end = 0
        self._replace(BASE_CAPACITY)
        return freed

    def fit(self) -> int:
        """Give back memory beyond the base that holds no bytes; returns the bytes given back."""
        capacity = max(BASE_CAPACITY, self._end - self._start)
        freed = len(self._buffer) - capacity
        if freed > 0:
            self._replace(capacity)
        return freed

    def _target_capacity(self) -> int:
        capacity = len(self._buffer)
        if self._needed <= capacity:
            return capacity
        received = self._end - self._start
        if received < capacity - self._start and self._start == 0:
            return capacity
        return min(self._needed, max(GROWTH_STEP, 2 * capacity))

    def _replace(self, capacity: int) -> None:
        pending = self._end - self._start
        if capacity > len(self._buffer) and self._start == 0 and self._extend(capacity):
            return
        buffer = bytearray(capacity) if capacity < MAPPED_FROM else _mapping(capacity)
        buffer[:pending] = self._view[self._start : self._end]
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._start, self._end = 0, pending

    def _extend(self, capacity: int) -> bool:
        """Add pages to a mapping; whether that could be done."""
        if not isinstance(self._buffer, mmap.mmap):
            return False
        self._view.release()
        # Somebody looks into it still, or the system cannot do it.
        with suppress(BufferError, SystemError, OSError):
            self._buffer.resize(capacity)
        self._view = memoryview(self._buffer)
        return len(self._buffer) == capacity


def _mapping(capacity: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {capacity} bytes of a request") from error


def _other_protocol(head: bytes) -> str:
    """What to add when the first bytes look like another protocol's: its name and the remedy."""
    if head.startswith(_TLS_HANDSHAKE):
        return (
            "; it looks like a TLS handshake: this listener is PLAINTEXT; set security.protocol=PLAINTEXT in the client"
        )
    if head in _HTTP_METHODS:
        return "; it looks like HTTP: this listener speaks Kafka's protocol; point the client at a Kafka library"
    return ""
