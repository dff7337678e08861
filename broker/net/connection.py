"""One client connection: its requests are served one at a time, and answered in the order in which they came.

The next frame is dispatched only when the response to the one before has been handed to the transport, which also
bounds the memory of a client that does not read. The connection puts its parts together: a transport carries bytes, a
`Reader` makes frames of them, a `Writer` sends responses, a `Throttle` holds a client back that is above a quota, and a
`Session` says who the client is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.config.listeners import Endpoint
from broker.net.chunks import Chunk
from broker.net.disk_reads import DiskReads
from broker.net.event_loop import Clock
from broker.net.framing import FrameError
from broker.net.memory import RequestMemory
from broker.net.reader import Reader
from broker.net.session import Session
from broker.net.throttle import Throttle
from broker.net.transport.interface import Transport
from broker.net.writer import SliceUnreadableError, Wait, Writer

logger = logging.getLogger("kafkalog.broker.net")

FRAMES_PER_EVENT = 32
"""Frames served before other connections get their turn."""


class Dispatcher(Protocol):
    """Serves the frames of connections."""

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; ``connection.reply`` or ``connection.skip_reply`` must follow, now or later.

        Do not look at the frame later: its memory is for others, unless ``connection.keep_memory`` was called.

        Raises:
            BadRequestError: the bytes are no request this broker can follow; the connection is closed.
        """


class Cancellable(Protocol):
    """An operation that a request waits on."""

    def cancel(self) -> None:
        """End without an answer, for nobody waits for it any more."""


class BadRequestError(ValueError):
    """A request that cannot be answered; its connection is closed with one line in the log."""


class Connection:
    """See the module. All methods run on the event loop's thread.

    Attributes:
        session: who the client is.
        closed: whether the connection is closed.
        state: the operation that the request under way waits on; it is cancelled when the connection closes.
    """

    __slots__ = (
        "_clock", "_dispatcher", "_is_resuming", "_on_close", "_reader", "_throttle", "_transport", "_unanswered",
        "_writer", "closed", "session", "state",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        transport: Transport,
        session: Session,
        dispatcher: Dispatcher,
        memory: RequestMemory,
        disk: DiskReads,
        max_request: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._dispatcher = dispatcher
        self._on_close = on_close
        self._throttle = Throttle(clock, self._go_on)
        self._reader = Reader(
            transport, memory, self._throttle, max_request, clock.time, on_received=self._serve, on_end=self.close
        )
        self._writer = Writer(transport, disk, clock.time, on_sent=self._request_done, on_failed=self._write_failed)
        self._unanswered = False
        """The request under way has no response yet; those before it may still be on their way."""
        self._is_resuming = False
        """Buffered frames are looked at the next time round the loop."""
        self.session = session
        self.closed = False
        self.state: Cancellable | None = None
        self._reader.resume()

    @property
    def endpoint(self) -> Endpoint:
        """The listener that the connection came through."""
        return self.session.endpoint

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self.session.peer

    # -- serving

    @property
    def _is_busy(self) -> bool:
        """Whether the next request waits: for the one under way, for responses to be sent, or for a quota."""
        return self._unanswered or self._throttle.active or self._writer.waits_for is not None

    def _serve(self) -> None:
        """Dispatch whole frames, one after the other, until one has to wait or none is left."""
        throttle, writer = self._throttle, self._writer
        if self._unanswered or throttle.active or writer.waits_for is not None:
            return
        budget = FRAMES_PER_EVENT
        reader = self._reader
        next_frame = reader.frames.next_frame
        writer.is_corked = True
        try:
            # `_is_busy` written out, for it is asked before each frame.
            while not (self._unanswered or throttle.active or writer.waits_for is not None or self.closed):
                if budget == 0:
                    self._schedule_resume()
                    break
                frame = next_frame()
                if frame is None:
                    break
                budget -= 1
                self._unanswered = True
                self._dispatcher.dispatch(self, frame)
        except (FrameError, BadRequestError) as error:
            self.refuse(error)
            return
        finally:
            writer.is_corked = False
        if not self.closed:
            if reader.is_bounded:
                reader.release(not self._unanswered)
            writer.flush()

    def _schedule_resume(self) -> None:
        if not self._is_resuming:
            self._is_resuming = True
            self._clock.call_soon(self._resume)

    def _resume(self) -> None:
        self._is_resuming = False
        if self.closed or self._is_busy:
            return
        self._serve()
        if not self._is_busy and not self.closed:
            self._reader.resume()

    def _request_done(self) -> None:
        """Go on with the next request, now that all responses are with the transport."""
        if self._unanswered:
            return
        reader = self._reader
        is_held_back = self._throttle.active
        if reader.is_bounded or is_held_back:
            reader.release(True, is_quiet=is_held_back)
        if is_held_back or self._writer.is_corked:
            return
        if reader.frames.buffered or not reader.is_receiving:
            self._schedule_resume()

    def _go_on(self) -> None:
        """Serve a client again that was held back."""
        # At once, though a request that comes next may take long: a client that leaves is to be noticed.
        self._reader.resume()
        if self._writer.waits_for is None:
            self._request_done()

    def _write_failed(self, error: OSError) -> None:
        if isinstance(error, SliceUnreadableError):
            logger.error("closing connection from %s: a log segment cannot be read: %s", self.peer, error)
        self.close()

    # -- what handlers call

    def reply(self, chunks: Iterable[Chunk]) -> None:
        """Send the response of the request under way; the next request is served once it is on its way."""
        if self.closed:
            return
        self.state = None
        self._unanswered = False
        self._writer.put(chunks)

    def skip_reply(self) -> None:
        """End the request under way, which has no response (a produce with acks=0)."""
        if self.closed:
            return
        self.state = None
        self._unanswered = False
        if self._writer.waits_for is None:
            self._request_done()

    def hold_back(self, seconds: float) -> None:
        """Serve and receive no further request for so long; the response of the one under way goes out (KIP-219).

        What the client sends meanwhile waits in the kernel: it takes no memory, and is served though the client leaves.
        """
        if not self.closed:
            self._throttle.hold_back(seconds)
            self._reader.pause()

    def keep_memory(self) -> None:
        """Keep the memory of the frame under way until ``free_memory`` or the response: a worker has a copy of it."""
        self._reader.keep_copy()

    def free_memory(self) -> None:
        """Give that memory back: the copy is gone, though the request may not be answered yet."""
        self._reader.copy_gone()

    def refuse(self, error: FrameError | BadRequestError) -> None:
        """Close the connection over bytes that cannot be followed, and say so."""
        logger.warning("closing connection from %s on %s: %s", self.peer, self.endpoint.name, error)
        self.close()

    # -- end of life

    def idle_since(self) -> float:
        """Return the time of the last activity; now, while a request is being served.

        A peer that takes nothing of its response is idle too, and so is one that is held back.
        """
        waits_for = self._writer.waits_for
        is_held_back = self._throttle.active and not self._unanswered
        if (self._unanswered or waits_for is Wait.DISK) and waits_for is not Wait.PEER and not is_held_back:
            return self._clock.time()
        return max(self._reader.last_active, self._writer.last_active)

    def trim(self) -> None:
        """Give back buffer memory of a connection that has been quiet."""
        if not self._is_busy:
            self._reader.trim()

    @property
    def drained(self) -> bool:
        """No request is under way and no response is unwritten."""
        return not self._unanswered and self._writer.is_empty

    def close(self) -> None:
        """Close the connection; unsent responses are dropped, and what the request under way waits on is cancelled."""
        if self.closed:
            return
        self.closed = True
        self._throttle.close()
        self._writer.close()
        self._reader.close(is_answered=not self._unanswered)
        self._transport.close()
        operation, self.state = self.state, None
        if operation is not None:
            operation.cancel()
        self._on_close(self)
