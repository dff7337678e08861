"""One client connection: its requests are served one after another, and answered in the order in which they came.

The next frame is dispatched only when the previous response has been handed to the transport. This also bounds the
memory that a client can occupy by not reading. A request whose response was postponed is the exception: it has done
its work and waits for others, as a produce does for its followers, and requests that may follow it (see
`Dispatcher.may_follow`) are served meanwhile. So followers fetch several batches of one producer together.

The connection consists of a transport, which carries bytes; a `Reader`, which splits them into frames; a `Writer`,
which sends responses; a `Throttle`, which delays a client that is above a quota; and a `Session`, which says who the
client is.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.config.listeners import Endpoint
from broker.net.chunks import Chunk
from broker.net.disk_reads import DiskReads
from broker.net.framing import FrameError
from broker.net.memory import RequestMemory
from broker.net.reader import Reader
from broker.net.session import Session
from broker.net.sockets.event_loop import Clock
from broker.net.throttle import Throttle
from broker.net.transport.interface import Transport
from broker.net.writer import SliceUnreadableError, Wait, Writer

logger = logging.getLogger(__name__)

FRAMES_PER_EVENT = 32
"""Frames that are served before other connections get their turn."""
MOST_POSTPONED = 32
"""The most requests of a connection that wait for their postponed responses at one time."""


class Dispatcher(Protocol):
    """Serves the frames of connections."""

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request; `reply`, `skip_reply` or `postpone` of the connection must follow, now or later.

        The frame is valid during this call only, because its memory is reused; `connection.keep_frame` returns one
        that stays.

        Raises:
            BadRequestError: the bytes are no request this broker can follow; the connection is closed.
        """

    def may_follow(self, head: memoryview) -> bool:
        """Return whether a request may be served while earlier ones wait for their postponed responses.

        Args:
            head: the first `HEAD_BYTES` of its frame, or fewer where it has fewer.
        """


class Cancellable(Protocol):
    """An operation that a request waits for."""

    def cancel(self) -> None:
        """End without an answer, because the client no longer waits for one."""


class BadRequestError(ValueError):
    """A request that cannot be answered; its connection is closed with one line in the log."""


class PostponedResponse:
    """The response to a request that waits; it keeps its place among the responses of its connection.

    Attributes:
        operation: what the request waits on; it is cancelled when the connection closes.
        chunks: the response, once it is there.
    """

    __slots__ = ("_on_reply", "chunks", "operation")

    def __init__(
        self,
        on_reply: Callable[[], None],
        operation: Cancellable | None = None,
        chunks: Iterable[Chunk] | None = None,
    ) -> None:
        self._on_reply = on_reply
        self.operation = operation
        self.chunks = chunks

    def reply(self, chunks: Iterable[Chunk]) -> None:
        """Send the response, after those to earlier requests."""
        self.operation = None
        self.chunks = chunks
        self._on_reply()


class Connection:
    """The connection of one client. All methods run on the event loop's thread.

    Attributes:
        session: who the client is.
        closed: whether the connection is closed.
        state: the operation that the request under way waits on; it is cancelled when the connection closes.
        postponed: the responses that earlier requests wait for, in order.
    """

    __slots__ = (
        "_clock", "_dispatcher", "_is_resuming", "_is_sending", "_on_close", "_reader", "_throttle", "_transport",
        "_unanswered", "_writer", "closed", "postponed", "session", "state",
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
        """The current request is being served. Responses to earlier ones may still be postponed, or being sent."""
        self._is_resuming = False
        """Buffered frames are served in the next round of the loop."""
        self._is_sending = False
        """Postponed responses are sent in the next round of the loop."""
        self.postponed: deque[PostponedResponse] = deque()
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
        """Whether the next request has to wait: for the current one, for responses to be sent, or for a throttle."""
        return self._unanswered or self._throttle.active or self._writer.waits_for is not None

    @property
    def _may_go_on(self) -> bool:
        """Whether the next request may be served while responses to earlier ones are postponed."""
        head = self._reader.frames.head
        return len(self.postponed) < MOST_POSTPONED and (not head or self._dispatcher.may_follow(head))

    def _serve(self) -> None:
        """Dispatch the whole frames in the buffer one by one, until one has to wait or none is left."""
        throttle, writer = self._throttle, self._writer
        if self._unanswered or throttle.active or writer.waits_for is not None:
            return
        budget = FRAMES_PER_EVENT
        reader = self._reader
        next_frame = reader.frames.next_frame
        writer.is_corked = True
        try:
            # `_is_busy` is written out here, because it is evaluated before each frame.
            while not (self._unanswered or throttle.active or writer.waits_for is not None or self.closed):
                if budget == 0:
                    self._schedule_resume()
                    break
                if self.postponed and not self._may_go_on:
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
        """Continue with the next request, now that the transport has taken all responses."""
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

    def _send_postponed(self) -> None:
        """Send what is due of the postponed responses: several together, in the next round of the loop."""
        if self.closed or self._is_sending or self.postponed[0].chunks is None:
            return
        if len(self.postponed) == 1 and not self._writer.is_corked:
            self._put_postponed()
        else:
            self._is_sending = True
            self._clock.call_soon(self._send_gathered)

    def _send_gathered(self) -> None:
        self._is_sending = False
        if self.closed:
            return
        writer = self._writer
        writer.is_corked = True
        self._put_postponed()
        writer.is_corked = False
        writer.flush()
        if writer.waits_for is None:
            self._request_done()

    def _put_postponed(self) -> None:
        postponed = self.postponed
        while postponed and (chunks := postponed[0].chunks) is not None:
            postponed.popleft()
            self._writer.put(chunks)

    def _go_on(self) -> None:
        """Serve the client again after a throttle."""
        # Receive at once, even if the next request may take long, so that a disconnect is noticed.
        self._reader.resume()
        if self._writer.waits_for is None:
            self._request_done()

    def _write_failed(self, error: OSError) -> None:
        if isinstance(error, SliceUnreadableError):
            logger.error("closing connection from %s: a log segment cannot be read: %s", self.peer, error)
        self.close()

    # -- called by handlers

    def reply(self, chunks: Iterable[Chunk]) -> None:
        """Send the response to the current request; the next one is served once the transport has taken it."""
        if self.closed:
            return
        self.state = None
        self._unanswered = False
        if not self.postponed:
            self._writer.put(chunks)
            return
        self.postponed.append(PostponedResponse(self._send_postponed, chunks=chunks))
        if self._writer.waits_for is None:
            self._request_done()

    def postpone(self, operation: Cancellable) -> PostponedResponse:
        """Have the current request answered when `operation` has ended, and go on with requests that may follow it.

        The request must not need its frame any more.
        """
        response = PostponedResponse(self._send_postponed, operation)
        if not self.closed:
            self.postponed.append(response)
            self._unanswered = False
            if self._writer.waits_for is None:
                self._request_done()
        return response

    def skip_reply(self) -> None:
        """End the current request without a response (a produce with acks=0)."""
        if self.closed:
            return
        self.state = None
        self._unanswered = False
        if self._writer.waits_for is None:
            self._request_done()

    def hold_back(self, seconds: float) -> None:
        """Receive and serve no further request for `seconds`; the current response is still sent (KIP-219).

        Bytes that the client sends meanwhile wait in the kernel. They take no memory here, and are served later even if
        the client disconnects.
        """
        if not self.closed:
            self._throttle.hold_back(seconds)
            self._reader.pause()

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return the bytes of the current frame for a worker; their memory counts as after `keep_memory`."""
        return self._reader.keep(frame)

    def keep_memory(self) -> None:
        """Keep the current frame's memory counted until `free_memory` or the response: a worker has a copy of it."""
        self._reader.keep_copy()

    def free_memory(self) -> None:
        """Give back the memory kept by `keep_memory`: the copy is gone, even if the request is not answered."""
        self._reader.copy_gone()

    def refuse(self, error: FrameError | BadRequestError) -> None:
        """Close the connection because of bytes that cannot be parsed, and log why."""
        logger.warning("closing connection from %s on %s: %s", self.peer, self.endpoint.name, error)
        self.close()

    # -- end of life

    def idle_since(self) -> float:
        """Return the time of the last activity; now, while a request is being served.

        A peer that takes nothing of its response is idle too, and so is one that is held back.
        """
        waits_for = self._writer.waits_for
        is_served = self._unanswered or bool(self.postponed)
        is_held_back = self._throttle.active and not is_served
        if (is_served or waits_for is Wait.DISK) and waits_for is not Wait.PEER and not is_held_back:
            return self._clock.time()
        return max(self._reader.last_active, self._writer.last_active)

    def trim(self) -> None:
        """Give back the buffer memory of an idle connection."""
        if not self._is_busy:
            self._reader.trim()

    @property
    def drained(self) -> bool:
        """Whether no request is being served and every response is written."""
        return not self._unanswered and not self.postponed and self._writer.is_empty

    def close(self) -> None:
        """Close the connection, drop unsent responses, and cancel the operations that its requests wait for."""
        if self.closed:
            return
        self.closed = True
        self._throttle.close()
        self._writer.close()
        self._reader.close(is_answered=not self._unanswered)
        self._transport.close()
        operations = [self.state, *(response.operation for response in self.postponed)]
        self.state = None
        self.postponed.clear()
        for operation in operations:
            if operation is not None:
                operation.cancel()
        self._on_close(self)
