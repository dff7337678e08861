"""Reading ahead of who reads a file on and on, off the disk. Pure: it says what to read, and when.

The disk is to be busy while the loop sends what it has read. A reader who was found to wait for the disk begins a
stream; from his next read on, if that follows, a stretch is read in whenever less than `AHEAD_BYTES` lie before him.
Who looks up single records gets nothing, and a reader who stops leaves at most `AHEAD_BYTES` and one stretch in the
page cache. Several readers of one file have a stream each, those who began last; readers close to each other share one.
"""

from __future__ import annotations

AHEAD_BYTES = 8 << 20
STRETCH_BYTES = 4 << 20
MAX_STREAMS = 4
"""Of one file. Further readers read without it."""
_NEAR = AHEAD_BYTES + STRETCH_BYTES


class Stretch:
    """Bytes ``[position, position + length)`` to be read in by a worker; ``done`` must be told afterwards."""

    __slots__ = ("__weakref__", "_stream", "length", "position")

    def __init__(self, stream: _Stream, position: int, length: int) -> None:
        self._stream = stream
        self.position = position
        self.length = length

    def done(self) -> None:
        self._stream.busy = False


class _Stream:
    __slots__ = ("busy", "end", "first")

    def __init__(self, end: int) -> None:
        self.end = end
        """Everything before it was read in, or is on its way."""
        self.first = -1
        """Where its first read began."""
        self.busy = False


class ReadAhead:
    """The streams of one file."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: list[_Stream] = []

    def missed(self, position: int, end: int) -> None:
        """[position, end) is not in memory, and is being read in for somebody who waits for it."""
        stream = self._near(position)
        if stream is not None:
            stream.end = max(stream.end, end)
            return
        self._streams.append(_Stream(end))
        if len(self._streams) > MAX_STREAMS:
            del self._streams[0]

    def after(self, position: int, end: int) -> Stretch | None:
        """What to read in now that [position, end) is being sent; one stretch at a time a stream."""
        stream = self._near(position)
        if stream is None or stream.busy:
            return None
        if stream.first < 0:
            stream.first = position
        start = max(stream.end, end)
        if position == stream.first or start - end >= AHEAD_BYTES:
            return None
        stream.end = start + STRETCH_BYTES
        stream.busy = True
        return Stretch(stream, start, STRETCH_BYTES)

    def _near(self, position: int) -> _Stream | None:
        for stream in self._streams:
            if -_NEAR <= position - stream.end <= _NEAR:
                return stream
        return None
