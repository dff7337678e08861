"""The sending half of a connection: sends responses in the order of `put` calls.

Small responses to pipelined requests are gathered and written together. A slice of a file is sent in parts: for each
part the writer checks once whether it is in memory, and has a worker read it in if it is not.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

from broker.net.chunks import BYTES, Bytes, Chunk, FileSlice
from broker.net.disk_reads import DiskReads
from broker.net.transport.interface import MAX_GATHERED, Transport

CORK_LIMIT = 64 * 1024
"""Response bytes gathered over pipelined requests before they are written."""
PART_BYTES = 1 << 20
"""The size in bytes of the parts in which a slice is checked, read in and sent."""
SENDS_AT_ONCE = 8
"""The number of times that a transport is given something to send before other connections get their turn.

A peer may take everything as fast as it is sent. While workers are busy, each send may last as long as the interpreter
lets one of them run.
"""


class Wait(enum.Enum):
    """The event that must happen before more of a response can be sent."""

    PEER = "the peer receives what was sent"
    DISK = "a worker has read in the next part of a slice"


class SliceUnreadableError(OSError):
    """The disk failed to read bytes that belong to a response."""


class Writer:
    """Send chunks through a transport.

    Args:
        on_sent: called when the transport has taken everything that was put in.
        on_failed: called when nothing more can be sent, because the transport or a file failed.

    Attributes:
        is_corked: whether small responses wait to be written together with the next one.
        waits_for: what must happen before more can be sent; None while nothing is being sent.
        last_active: the time at which the peer last took something after a wait.
    """

    __slots__ = (
        "_disk", "_in_memory_to", "_on_failed", "_on_sent", "_out", "_queued", "_sends_left", "_sent", "_time",
        "_transport", "is_corked", "last_active", "waits_for",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        disk: DiskReads,
        time: Callable[[], float],
        on_sent: Callable[[], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        self._transport = transport
        self._disk = disk
        self._time = time
        self._on_sent = on_sent
        self._on_failed: Callable[[OSError], None] | None = on_failed
        self._out: deque[Chunk] = deque()
        self._queued = 0
        """Bytes put in since the queue was last empty."""
        self._sent = 0
        """The number of bytes of the slice at the head of the queue that have been sent."""
        self._in_memory_to = -1
        """The position in that slice's file up to which its bytes are in memory."""
        self._sends_left = 0
        """The number of sends that are left in this turn, of `SENDS_AT_ONCE`."""
        self.is_corked = False
        self.waits_for: Wait | None = None
        self.last_active = time()

    @property
    def is_empty(self) -> bool:
        """Return whether the kernel has taken all responses."""
        return not self._out and not self._transport.has_unsent

    def put(self, chunks: Iterable[Chunk]) -> None:
        """Send a response after the previous ones."""
        out = self._out
        for chunk in chunks:
            size = len(chunk)
            if size:
                out.append(chunk)
                self._queued += size
        if self.waits_for is None and not (self.is_corked and self._queued < CORK_LIMIT):
            self._flush()

    def flush(self) -> None:
        """Send the gathered responses, unless a wait is in progress."""
        if self._out and self.waits_for is None:
            self._flush()

    def _flush(self) -> None:
        waited_for = self.waits_for
        if waited_for is not None:
            # It waited for the peer: after a worker's read, `waits_for` is None here.
            self.last_active = self._time()
        try:
            wait = self._write_out()
        except OSError as error:
            self._fail(error)
            return
        # Looking up members of an enumeration is slow, so the usual case, without a wait, does not do it.
        if wait is not waited_for:
            self.waits_for = wait
            if wait is Wait.PEER:
                self._transport.watch_writable(self._flush)
            elif waited_for is not None:
                self._transport.unwatch_writable()
        if wait is None:
            self._queued = 0
            self._on_sent()

    def _write_out(self) -> Wait | None:
        """Send until nothing is left, and return None; or return what to wait for, which may be the next turn."""
        out = self._out
        self._sends_left = SENDS_AT_ONCE
        try:
            while out:
                if not self._sends_left:
                    return Wait.PEER
                chunk = out[0]
                if isinstance(chunk, BYTES):
                    self._sends_left -= 1
                    self._consume(self._transport.send(chunk) if len(out) == 1 else self._send_gathered())
                elif not self._send_slice(chunk):
                    return Wait.DISK
        except (BlockingIOError, InterruptedError):
            return Wait.PEER
        return Wait.PEER if self._transport.has_unsent else None

    def _send_gathered(self) -> int:
        """Send the chunks before the first slice in one call, as many as a transport takes."""
        out = self._out
        gathered: list[Bytes] = []
        for chunk in islice(out, MAX_GATHERED):
            if not isinstance(chunk, BYTES):
                break
            gathered.append(chunk)
        return self._transport.send_many(gathered, len(gathered) < len(out))

    def _consume(self, count: int) -> None:
        out = self._out
        while count:
            chunk = out[0]
            size = len(chunk)
            if count < size:
                assert isinstance(chunk, BYTES)
                out[0] = memoryview(chunk)[count:]
                return
            count -= size
            out.popleft()

    # -- slices

    def _send_slice(self, piece: FileSlice) -> bool:
        """Send from the slice at the head of the queue; return False if a read from disk has to finish first."""
        end = piece.position + len(piece)
        send_file = self._transport.send_file
        while (position := piece.position + self._sent) < end:
            if position >= self._in_memory_to:
                part = min(end - position, PART_BYTES)
                if not self._disk.is_in_memory(piece, position, part):
                    self._disk.read_in(piece, position, part, partial(self._on_read_in, piece, part))
                    return False
                # Checked once for each part, not each time the transport takes some more of it.
                self._begin_part(piece, position, part)
            if not self._sends_left:
                return True
            self._sends_left -= 1
            sent = send_file(piece.fd, position, min(end, self._in_memory_to) - position)
            if sent == 0:
                # The file is shorter than the response says, so nothing that follows on this stream could be parsed.
                raise OSError("log segment ended before the response did")
            self._sent += sent
        self._out.popleft()
        self._sent = 0
        self._in_memory_to = -1
        return True

    def _begin_part(self, piece: FileSlice, position: int, part: int) -> None:
        """Note that the next part of a slice is in memory, and read ahead while it is sent."""
        self._in_memory_to = position + part
        self._disk.read_ahead(piece, position, part)

    def _on_read_in(self, piece: FileSlice, part: int, error: BaseException | None) -> None:
        self.waits_for = None
        if self._on_failed is None:
            return
        if error is not None:
            self._fail(SliceUnreadableError(str(error)))
            return
        self._begin_part(piece, piece.position + self._sent, part)
        self._flush()

    # -- end of life

    def _fail(self, error: OSError) -> None:
        if self._on_failed is not None:
            self._on_failed(error)

    def close(self) -> None:
        """Drop everything that was not sent."""
        if self.waits_for is Wait.PEER:
            self.waits_for = None
            self._transport.unwatch_writable()
        self._out.clear()
        self._on_sent = _nothing
        self._on_failed = None


def _nothing() -> None:
    pass
