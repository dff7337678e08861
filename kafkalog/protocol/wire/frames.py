"""Splits a stream of bytes into frames: an int32 length, then as many bytes.

A `FrameReader` offers the space for the next bytes (`FrameReader.space`), so that a socket can receive directly into a
frame's own buffer. It never offers space beyond the end of a frame: bytes after the frame stay in the socket, where
`poll` sees them.

A large buffer is reused when no view of it exists any more. New memory for every fetch of 50 MiB would cost three times
the processor time of receiving it.
"""

from __future__ import annotations

from struct import Struct

from kafkalog.protocol.wire.errors import RemoteProtocolError

_LENGTH = Struct(">i")
MIN_FRAME = 4
"""A response has at least a correlation id."""
_KEEP_FROM = 1 << 16
_KEEP = 2
"""The number of buffers, of at least 64 KiB, kept for later frames: one is filled while another is read."""
_FOREIGN = {0x15: "a TLS alert: is this an SSL listener? set security.protocol=SSL", 0x48: "HTTP"}
"""The bytes with which a peer that speaks TLS or HTTP answers, where a length should be."""


class FrameReader:
    """Receive frames one after another.

    Args:
        peer: How messages name the peer.
        limit: The most bytes that a frame may have. A longer one is refused before memory is taken for it.
        limit_name: The setting that `limit` comes from, for messages.
    """

    def __init__(self, peer: str, limit: int, limit_name: str) -> None:
        self._peer = peer
        self._limit = limit
        self._limit_name = limit_name
        self._prefix = memoryview(bytearray(_LENGTH.size))
        self._body: memoryview | None = None
        self._filled = 0
        """The number of bytes received: of the length, or of the body if its length is known."""
        self._buffers: list[bytearray] = []

    @property
    def begun(self) -> bool:
        """Return whether a part of the next frame has been received."""
        return self._body is not None or self._filled > 0

    def space(self) -> memoryview:
        """Return the view to receive the next bytes into; never empty."""
        target = self._prefix if self._body is None else self._body
        return target[self._filled :] if self._filled else target

    def received(self, count: int) -> memoryview | None:
        """Count the bytes that were written to the beginning of `space`.

        Returns:
            The frame without its length, once it is whole. It is a view of a buffer that nothing else changes while
            anything refers to the view.

        Raises:
            RemoteProtocolError: The frame's length is impossible or above the limit.
        """
        self._filled += count
        body = self._body
        if body is None:
            if self._filled < _LENGTH.size:
                return None
            (size,) = _LENGTH.unpack(self._prefix)
            if not MIN_FRAME <= size <= self._limit:
                raise self._bad_length(size)
            self._body = self._buffer(size)
            self._filled = 0
            return None
        if self._filled < len(body):
            return None
        self._body = None
        self._filled = 0
        return body

    def discard(self) -> None:
        """Let go of all buffers."""
        self._body = None
        self._filled = 0
        self._buffers.clear()

    def _buffer(self, size: int) -> memoryview:
        """Return memory for a frame, of which no other view exists."""
        if size < _KEEP_FROM:
            return memoryview(bytearray(size))
        for buffer in self._buffers:
            if len(buffer) < size:
                continue
            try:
                # A bytearray refuses to change its length while a view of it exists.
                buffer.append(0)
            except BufferError:
                continue
            buffer.pop()
            return memoryview(buffer)[:size]
        buffer = bytearray(-(-size // _KEEP_FROM) * _KEEP_FROM)
        self._buffers = [buffer, *self._buffers[: _KEEP - 1]]
        return memoryview(buffer)[:size]

    def _bad_length(self, size: int) -> RemoteProtocolError:
        hint = _FOREIGN.get(self._prefix[0])
        if hint is not None:
            return RemoteProtocolError(f"{self._peer} is no Kafka listener, it seems: it answers with {hint}")
        return RemoteProtocolError(
            f"{self._peer} announces a response of {size} bytes; at most {self._limit} are accepted "
            f"({self._limit_name})"
        )
