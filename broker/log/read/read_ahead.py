"""Reading ahead of a sequential reader of a cold file. Pure: it decides what to read, and when.

The aim is that the disk works while the event loop sends what was read before. A stream begins when a reader has to
wait for the disk. If the reader's next read follows that one, a stretch is read ahead whenever less than `AHEAD_BYTES`
lie before the reader. A reader that looks up single records causes no reading ahead, and a reader that stops leaves at
most `AHEAD_BYTES` and one stretch in the page cache. Several readers of one file have a stream each, up to
`MAX_STREAMS` with the newest kept; readers close to each other share one.
"""

from __future__ import annotations

AHEAD_BYTES = 8 << 20
STRETCH_BYTES = 4 << 20
MAX_STREAMS = 4
"""Streams of one file. Further readers read without one."""
_NEAR = AHEAD_BYTES + STRETCH_BYTES


class Stretch:
    """Hold a range `[position, position + length)` for a worker to read; call `done` afterwards."""

    __slots__ = ("__weakref__", "_stream", "length", "position")

    def __init__(self, stream: _Stream, position: int, length: int) -> None:
        self._stream = stream
        self.position = position
        self.length = length

    def done(self) -> None:
        self._stream.busy = False


class _Stream:
    """The reads of one reader that goes forward through the file.

    Attributes:
        end: everything before it was read, or is being read.
        first: position of its first read; -1 before that.
    """

    __slots__ = ("busy", "end", "first")

    def __init__(self, end: int) -> None:
        self.end = end
        self.first = -1
        self.busy = False


class ReadAhead:
    """Hold the streams of one file."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: list[_Stream] = []

    def missed(self, position: int, end: int) -> None:
        """Note that [position, end) is being read from the disk for a reader that waits for it."""
        stream = self._near(position)
        if stream is not None:
            stream.end = max(stream.end, end)
            return
        self._streams.append(_Stream(end))
        if len(self._streams) > MAX_STREAMS:
            del self._streams[0]

    def after(self, position: int, end: int) -> Stretch | None:
        """Return what to read ahead now that [position, end) is being sent; one read per stream at a time."""
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
