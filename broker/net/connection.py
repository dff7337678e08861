"""One client connection: a non-blocking socket on the event loop.

Requests of a connection are answered in the order they came: the next frame is dispatched only when the response to
the one before has been handed to the kernel, which also bounds the memory of a client that does not read. Responses
are lists of chunks; a chunk with a file descriptor (a slice of a log segment) goes out by ``sendfile``, after a worker
thread has read it in where it is not in memory. While a part is on its way, a worker reads ahead for who reads on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from broker.config.listeners import Endpoint
from broker.net.framing import BASE_CAPACITY, FrameBuffer, FrameError
from broker.net.memory import RequestMemory
from broker.page_cache import read_in, resident, try_read_in

logger = logging.getLogger("kafkalog.broker.net")

Chunk = Any
"""``bytes``-like, or a slice of a file: ``file`` (a `SegmentFile`), ``fd``, ``position`` and ``length``, the latter two
advanced as it is sent.
"""

FRAMES_PER_EVENT = 32
"""Frames served before other connections get their turn."""
CORK_LIMIT = 64 * 1024
"""Response bytes gathered over pipelined requests before they are written."""
_MORE = getattr(socket, "MSG_MORE", 0)
PART_BYTES = 1 << 20
"""A slice is looked for in memory, read in and sent in parts of so many bytes."""
MAX_READING_AHEAD = 4
"""Workers that read ahead at once, of the process; the others are for those who wait."""


class Dispatcher(Protocol):
    """Who serves the frames of a connection."""

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; ``connection.reply`` or ``connection.skip_reply`` must follow, now or later.

        The frame is not to be looked at later: its memory is for others, unless ``connection.keep_memory`` was called.

        Raises:
            BadRequestError: the bytes are no request this broker can follow; the connection is closed.
        """


class BadRequestError(ValueError):
    """A request that cannot be answered; its connection is closed with one line in the log."""


# Weak, for a loop that ends drops the callbacks that would take them out.
_read_ahead_now: weakref.WeakSet[Any] = weakref.WeakSet()


class Connection:
    """See the module. All methods run on the event loop's thread."""

    __slots__ = (
        "_bounded", "_busy", "_charged", "_copied", "_corked", "_dispatcher", "_frames", "_held_back", "_loop",
        "_memory", "_on_close", "_out", "_out_bytes", "_reading", "_ready_to", "_resume_scheduled", "_sock",
        "_unanswered", "_waiting_for_disk", "_writing", "closed", "endpoint", "fd", "last_active", "peer", "state",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        endpoint: Endpoint,
        dispatcher: Dispatcher,
        memory: RequestMemory,
        max_request: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._dispatcher = dispatcher
        self._memory = memory
        self._frames = FrameBuffer(max_request)
        self._on_close = on_close
        self._bounded = memory.bounded
        self._charged = 0
        """Bytes taken of ``memory``: for the buffer beyond its base, and for what is to come of the frame in it."""
        self._copied = False
        """They are for a copy of the frame under way, which outlives its bytes in the buffer."""
        self._out: deque[Chunk] = deque()
        self._out_bytes = 0
        self._busy = False
        """The next request waits: for the one under way, or until responses are written."""
        self._unanswered = False
        """The request under way has no response yet; those before it may still be on their way."""
        self._held_back: asyncio.TimerHandle | None = None
        """Until then no request is served, for the client is above a quota."""
        self._corked = False
        self._writing = False
        self._waiting_for_disk = False
        self._ready_to = -1
        self._reading = False
        self._resume_scheduled = False
        self.fd = sock.fileno()
        self.endpoint = endpoint
        self.closed = False
        self.last_active = loop.time()
        self.state: Any = None
        """What the request under way waits on; closed with the connection when it has a ``cancel`` method."""
        try:
            self.peer = str(sock.getpeername()[0])
        except OSError:
            self.peer = "?"
        self._resume_reading()

    # -- reading

    def _on_readable(self) -> None:
        self.last_active = self._loop.time()
        frames = self._frames
        more = frames.wanted() - self._charged
        if more > 0:
            if not self._memory.take(more, self._memory_granted):
                self._pause_reading()
                return
            self._charged += more
        window = frames.window()
        if not len(window):
            # Full of requests that wait for the one under way: let TCP push back.
            self._pause_reading()
            return
        try:
            count = self._sock.recv_into(window)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        frames.received(count)
        if not self._busy:
            self._serve()

    def _give_back(self) -> None:
        """The memory that no frame takes any more is for others, before the next frame is begun."""
        frames = self._frames
        if frames.is_receiving:
            return
        frames.fit()
        if self._copied and self._unanswered:
            return
        self._copied = False
        held = frames.capacity - BASE_CAPACITY
        freed, self._charged = self._charged - held, held
        if freed:
            self._memory.give_back(freed)

    def keep_memory(self) -> None:
        """The frame under way was copied for a worker: its memory is taken until ``free_memory`` or the response."""
        self._copied = self._charged > 0

    def free_memory(self) -> None:
        """The copy of the frame under way is gone, though it may not be answered yet."""
        if self._copied:
            self._copied = False
            if self.closed:
                self._memory.give_back(self._charged)
                self._charged = 0
            elif self._bounded:
                self._give_back()

    def _serve(self) -> None:
        """Dispatch whole frames, one after the other, until one has to wait or none is left."""
        self._corked = True
        budget = FRAMES_PER_EVENT
        frames = self._frames
        try:
            while not self._busy and not self.closed:
                if budget == 0:
                    self._schedule_resume()
                    break
                frame = frames.next_frame()
                if frame is None:
                    break
                budget -= 1
                self._busy = self._unanswered = True
                self._dispatcher.dispatch(self, frame)
        except (FrameError, BadRequestError) as error:
            self.refuse(error)
            return
        finally:
            self._corked = False
        if self.closed:
            return
        if self._bounded and self._charged:
            self._give_back()
        if self._out and not self._writing and not self._waiting_for_disk:
            self._flush()

    def refuse(self, error: FrameError | BadRequestError) -> None:
        """Close the connection over bytes that cannot be followed, and say so."""
        logger.warning("closing connection from %s on %s: %s", self.peer, self.endpoint.name, error)
        self.close()

    def _schedule_resume(self) -> None:
        if not self._resume_scheduled:
            self._resume_scheduled = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resume_scheduled = False
        if self.closed or self._busy:
            return
        self._serve()
        if not self._reading and not self._busy and not self.closed:
            self._resume_reading()

    def _memory_granted(self, count: int) -> None:
        self._charged += count
        if self._held_back is None:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self.fd)

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self.fd, self._on_readable)

    # -- writing

    def reply(self, chunks: Iterable[Chunk]) -> None:
        """Send the response of the request under way; the next request is served once it is on its way."""
        if self.closed:
            return
        self.state = None
        self._unanswered = False
        out = self._out
        for chunk in chunks:
            size = len(chunk)
            if size:
                out.append(chunk)
                self._out_bytes += size
        if self._corked and self._out_bytes < CORK_LIMIT:
            self._busy = self._held_back is not None
            return
        if not self._writing and not self._waiting_for_disk:
            self._flush()

    def skip_reply(self) -> None:
        """The request under way has no response (a produce with acks=0)."""
        self.state = None
        self._unanswered = False
        if not self._writing and not self._waiting_for_disk:
            self._request_done()

    def hold_back(self, seconds: float) -> None:
        """Serve and receive no further request for so long; the response of the one under way goes out (KIP-219).

        What the client sends meanwhile waits in the kernel: it takes no memory, and is served though the client leaves.
        """
        if self.closed:
            return
        if self._held_back is not None:
            self._held_back.cancel()
        self._held_back = self._loop.call_later(seconds, self._go_on)
        self._pause_reading()

    def _go_on(self) -> None:
        self._held_back = None
        # At once, though a request that comes next may take long: a client that leaves is to be noticed.
        self._resume_reading()
        if not self._writing and not self._waiting_for_disk:
            self._request_done()

    def _request_done(self) -> None:
        self._busy = self._unanswered or self._held_back is not None
        if ((self._bounded and self._charged) or self._held_back is not None) and not self._unanswered:
            self._give_back()
        if not self._busy and not self._corked and (self._frames.buffered or not self._reading):
            self._schedule_resume()

    def _flush(self) -> None:
        if self._writing:
            self.last_active = self._loop.time()
        try:
            done = self._write_out()
        except OSError:
            self.close()
            return
        if done:
            self._out_bytes = 0
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self.fd)
            self._request_done()
        elif self._waiting_for_disk:
            self._busy = True
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self.fd)
        elif not self._writing:
            # Further requests wait: a client that does not read must not fill memory.
            self._busy = True
            self._writing = True
            self._loop.add_writer(self.fd, self._flush)

    def _write_out(self) -> bool:
        """Write until done (True) or the socket's buffer is full (False)."""
        out = self._out
        while out:
            chunk = out[0]
            if hasattr(chunk, "fd"):
                if not self._send_slice(chunk):
                    return False
                continue
            try:
                sent = self._send_bytes()
            except (BlockingIOError, InterruptedError):
                return False
            self._consume(sent)
        return True

    def _send_bytes(self) -> int:
        out = self._out
        if len(out) == 1:
            return self._sock.send(out[0])
        gathered = []
        for chunk in out:
            if hasattr(chunk, "fd"):
                break
            gathered.append(chunk)
        flags = _MORE if len(gathered) < len(out) else 0
        return self._sock.sendmsg(gathered, (), flags)

    def _consume(self, sent: int) -> None:
        out = self._out
        while sent:
            chunk = out[0]
            if sent >= len(chunk):
                sent -= len(chunk)
                out.popleft()
            else:
                out[0] = memoryview(chunk)[sent:]
                return

    def _send_slice(self, piece: Any) -> bool:
        position, remaining = piece.position, len(piece)
        while remaining:
            if position >= self._ready_to:
                part = min(remaining, PART_BYTES)
                piece.position, piece.length = position, remaining
                if not resident(piece.fd, position, part):
                    self._wait_for_disk(piece, part)
                    return False
                # Asked once a part, not each time the socket takes some more of it.
                self._has_part(piece, part)
            try:
                sent = os.sendfile(self.fd, piece.fd, position, min(remaining, self._ready_to - position))
            except (BlockingIOError, InterruptedError):
                piece.position, piece.length = position, remaining
                return False
            if sent == 0:
                # The file is shorter than promised: nothing sensible can follow on this stream.
                raise OSError("log segment ended before the response did")
            position += sent
            remaining -= sent
        self._out.popleft()
        self._ready_to = -1
        return True

    def _has_part(self, piece: Any, part: int) -> None:
        """The next part of a slice is in memory: while it is sent, let the disk go on."""
        self._ready_to = piece.position + part
        if len(_read_ahead_now) >= MAX_READING_AHEAD:
            return
        stretch = piece.file.stretch_after(piece.position, part)
        if stretch is None:
            return
        file = piece.file

        def on_read(_: asyncio.Future[None]) -> None:
            _read_ahead_now.discard(stretch)
            stretch.done()

        _read_ahead_now.add(stretch)
        # With the file itself, not its descriptor, which may be another's once the slice is gone.
        work = self._loop.run_in_executor(None, lambda: try_read_in(file.fd, stretch.position, stretch.length))
        work.add_done_callback(on_read)

    def _wait_for_disk(self, piece: Any, part: int) -> None:
        self._waiting_for_disk = True
        piece.file.missed(piece.position, part)
        work = self._loop.run_in_executor(None, read_in, piece.fd, piece.position, part)

        def on_disk_read(work: asyncio.Future[None]) -> None:
            self._waiting_for_disk = False
            error = work.exception()
            if error is not None:
                logger.error("closing connection from %s: a log segment cannot be read: %s", self.peer, error)
                self.close()
            elif not self.closed:
                self._has_part(piece, part)
                self._flush()

        work.add_done_callback(on_disk_read)

    # -- end of life

    def idle_since(self) -> float:
        """Loop time of the last activity; now, while a request is being served.

        A peer that takes nothing of its response is idle too, and so is one that is held back.
        """
        is_held_back = self._held_back is not None and not self._unanswered
        return self._loop.time() if self._busy and not self._writing and not is_held_back else self.last_active

    def trim(self) -> None:
        """Give back buffer memory of a connection that has been quiet."""
        if not self._busy and self._frames.shrink():
            self._give_back()

    @property
    def drained(self) -> bool:
        """No request is under way and no response is unwritten."""
        return not self._unanswered and not self._out

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._pause_reading()
        if self._held_back is not None:
            self._held_back.cancel()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self.fd)
        self._out.clear()
        self._sock.close()
        self._memory.forget(self._memory_granted)
        if not self._copied:
            self._memory.give_back(self._charged)
            self._charged = 0
        cancel = getattr(self.state, "cancel", None)
        self.state = None
        if cancel is not None:
            cancel()
        self._on_close(self)
