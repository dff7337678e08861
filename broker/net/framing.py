"""Request framing: a 4-byte big-endian size, then that many bytes. Pure: no sockets.

A connection that has received nothing for a while has no buffer.

A frame's claimed size is checked against the configured maximum at once, and memory is taken only as bytes arrive: a
buffer first grows to 1 MiB, so a peer that claims 100 MiB and sends nothing costs 1 MiB. After that it doubles whenever
it is full. A large buffer is an anonymous memory mapping, which the kernel can extend without copying. Copying 64 MiB
would make other connections wait for 100 ms.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct

from broker.net.wrong_protocol import HEAD_BYTES as HEAD_OF_OTHERS
from broker.net.wrong_protocol import SMALLEST_OF_TLS, what_it_is

_SIZE = Struct(">i")

HEAD_BYTES = 2
"""The size of a frame's head: a request's API key."""
BASE_CAPACITY = 32 * 1024
GROWTH_STEP = 1024 * 1024
LARGE_FRAME = 64 * 1024
MAPPED_FROM = 2 * GROWTH_STEP
"""Buffers of at least so many bytes are memory mappings."""
HANDED_OVER_FROM = 8 * GROWTH_STEP
"""Frames of at least so many bytes are handed over with their mapping. To copy one of 100 MiB takes up to 90 ms."""


class FrameError(ValueError):
    """A frame size is negative or above the maximum, so the rest of the stream cannot be parsed.

    Attributes:
        answer: what a peer that speaks another protocol is sent, in that protocol; empty otherwise.
    """

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """The longest frame, and how memory is taken for it."""

    max_frame: int
    key: str = "socket.request.max.bytes"
    """The configuration that sets the longest frame, for messages."""
    growth: int = GROWTH_STEP
    """The bytes to which a buffer grows at first; they are less where nobody knows the peer."""


class FrameBuffer:
    """One connection's receive buffer.

    The caller asks for a `window`, receives into it, reports with `received`, and takes whole frames with
    `next_frame`. A frame is a view into the buffer, valid until the next call of `window`, unless it was handed over
    (`hand_over`).
    """

    __slots__ = ("_buffer", "_end", "_limits", "_needed", "_start", "_usual", "_view")

    def __init__(self, max_frame: int) -> None:
        self.limit(FrameLimits(max_frame))
        self._buffer: bytearray | mmap.mmap = bytearray()
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._needed = 0

    def limit(self, limits: FrameLimits) -> None:
        """Change the limits of the frames that follow."""
        self._limits = limits
        self._usual = min(limits.max_frame, SMALLEST_OF_TLS - 1)
        """A larger size may be that of another protocol."""

    @property
    def capacity(self) -> int:
        """Bytes of memory held; none before the first byte and after `shrink`."""
        return len(self._buffer)

    @property
    def beyond_base(self) -> int:
        """Bytes of memory held beyond the base."""
        return max(0, len(self._buffer) - BASE_CAPACITY)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet taken as frames."""
        return self._end - self._start

    @property
    def is_receiving(self) -> bool:
        """Return whether a frame's size has been received, but not yet all of its bytes."""
        return self._needed > 0

    @property
    def head(self) -> memoryview:
        """The first `HEAD_BYTES` of the next frame, or fewer if it has fewer; none if it was not received whole."""
        begin = self._start + _SIZE.size
        if begin > self._end:
            return self._view[:0]
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self._end - begin:
            return self._view[:0]
        return self._view[begin : begin + min(size, HEAD_BYTES)]

    def wanted(self) -> int:
        """Return the bytes beyond the base that the buffer needs for the whole frame; at least what it has now."""
        return max(self._needed, len(self._buffer), BASE_CAPACITY) - BASE_CAPACITY

    def window(self) -> memoryview:
        """Return the view to receive the next bytes into; empty when the buffer is full of frames not yet taken."""
        if not self._buffer:
            self._replace(BASE_CAPACITY)
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
        """Return the next whole frame without its size, or None when more bytes are needed.

        Raises:
            FrameError: the size is negative or above the maximum.
        """
        start = self._start
        available = self._end - start
        if available < 4:
            self._needed = 0
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if not 0 <= size <= self._usual and not self._is_possible(size):
            self._needed = 0
            return None
        if available - 4 < size:
            self._needed = size + 4
            return None
        self._needed = 0
        self._start = start + 4 + size
        return self._view[start + 4 : start + 4 + size]

    def _is_possible(self, size: int) -> bool:
        """Return whether an unusual size is one; False if that takes more bytes.

        Raises:
            FrameError: it is not.
        """
        limits = self._limits
        is_allowed = 0 <= size <= limits.max_frame
        # More of it is looked at only where it may be a frame all the same.
        end = min(self._start + (HEAD_OF_OTHERS if is_allowed else _SIZE.size), self._end)
        first = bytes(self._view[self._start : end])
        hint, answer = what_it_is(first)
        if is_allowed and (not hint or len(first) < HEAD_OF_OTHERS):
            return not hint
        raise FrameError(f"request size {size} is not between 0 and {limits.max_frame} ({limits.key}){hint}", answer)

    def hand_over(self, size: int) -> bool:
        """Leave the memory of the frame that was taken last to the views of it, if it is a large one.

        Such a frame has a mapping, which is freed when nothing refers to the frame any more. The buffer begins anew
        with what was received after it.

        Args:
            size: the frame's.

        Returns:
            Whether the bytes of the frame stay, and may be changed. Otherwise they are overwritten by later ones.
        """
        rest = self._view[self._start : self._end]
        if size < max(HANDED_OVER_FROM, len(self._buffer) // 2) or len(rest) > GROWTH_STEP:
            return False
        self._buffer = bytearray(max(BASE_CAPACITY, len(rest)))
        self._buffer[: len(rest)] = rest
        self._view = memoryview(self._buffer)
        self._start, self._end = 0, len(rest)
        return True

    def shrink(self) -> int:
        """Give back the memory if nothing is buffered; return the number of bytes beyond the base."""
        if self._start != self._end:
            return 0
        freed = self.beyond_base
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        return freed

    def fit(self) -> int:
        """Give back the unused memory beyond the base; return the number of bytes given back."""
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
        return min(self._needed, max(self._limits.growth, 2 * capacity))

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
        """Extend the mapping to `capacity` bytes; return whether that succeeded."""
        if not isinstance(self._buffer, mmap.mmap):
            return False
        self._view.release()
        # Fails while another view of the buffer exists, or where the system cannot extend mappings.
        with suppress(BufferError, SystemError, OSError):
            self._buffer.resize(capacity)
        self._view = memoryview(self._buffer)
        return len(self._buffer) == capacity


def _mapping(capacity: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {capacity} bytes of a request") from error
