"""One client connection: its requests are served one after another, and answered in the order in which they came.

While a request is being served, and while its response is being sent, the next frame waits. This also bounds the
memory that a client can occupy by not reading. A produce that has appended its records, and waits for followers or an
fsync, is not in the way of the next produce: its response is `postponed`. So followers fetch several batches of one
producer together. The next frame has to be whole in the buffer by then: a connection takes no memory for requests while
responses are postponed.

The connection consists of a transport, which carries bytes; a `Reader`, which splits them into frames; a `Writer`,
which sends responses; a `Throttle`, which delays a client that is above a quota; and a `Session`, which says who the
client is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.config.listeners import Endpoint
from broker.net.chunks import Chunk
from broker.net.disk_reads import DiskReads
from broker.net.framing import FrameError, FrameLimits
from broker.net.limits.memory import RequestMemory
from broker.net.limits.throttle import Throttle
from broker.net.postponed import Cancellable, PostponedResponse, PostponedResponses
from broker.net.reader import Reader
from broker.net.session import Session
from broker.net.sockets.event_loop import Clock, Timer
from broker.net.transport.interface import Transport
from broker.net.writer import SliceUnreadableError, Wait, Writer
from broker.net.wrong_protocol import TLS_ALERT

logger = logging.getLogger(__name__)

FRAMES_PER_EVENT = 32
"""Frames that are served before other connections get their turn."""
SECONDS_PER_EVENT = 0.005
"""About the longest time for which frames are served before that, beside the first one."""
LINGER_S = 10.0
"""The longest time for which the requests of a client that has left are served."""


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
            head: the first `HEAD_BYTES` of its frame, or fewer if it has fewer.
        """


class BadRequestError(ValueError):
    """A request that cannot be answered; its connection is closed with one line in the log."""


class Connection:
    """The connection of one client. All methods run on the event loop's thread.

    Attributes:
        session: who the client is.
        closed: whether the connection is closed.
        is_silent: whether the current request gets no response (a produce with acks=0). It is served whole, although
            the client has left: a client that sends such requests does not wait before it closes its connection.
        state: the operation that the request under way waits on; it is cancelled when the connection closes.
        postponed: the responses that earlier requests wait for.
    """

    __slots__ = (
        "_clock", "_dispatcher", "_is_ending", "_is_resuming", "_lingering", "_on_close", "_reader", "_throttle",
        "_transport", "_unanswered", "_warn", "_writer", "closed", "is_silent", "postponed", "session", "state",
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
        warn: Callable[..., None] | None = None,
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._dispatcher = dispatcher
        self._on_close = on_close
        self._warn = _warn if warn is None else warn
        self._throttle = Throttle(clock, self._go_on)
        self._reader = Reader(
            transport, memory, self._throttle, max_request, clock.time, on_received=self._serve, on_end=self._peer_left
        )
        self._writer = Writer(transport, disk, clock.time, on_sent=self._request_done, on_failed=self._write_failed)
        self._unanswered = False
        """The current request is being served. Responses to earlier ones may still be postponed, or being sent."""
        self._is_resuming = False
        """Buffered frames are served in the next round of the loop."""
        self._is_ending = False
        """Nothing more is served, and the connection closes when the responses to what was served are sent."""
        self.postponed = PostponedResponses(clock, self._writer, self._request_done)
        self.session = session
        self.closed = False
        self.is_silent = False
        self._lingering: Timer | None = None
        """Closes the connection of a client that has left, if its last requests take too long."""
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
        """Return whether the next request has to wait: for the current one, for unsent responses, or for a throttle."""
        return self._unanswered or self._throttle.active or self._writer.waits_for is not None

    @property
    def _may_go_on(self) -> bool:
        """Return whether the next request may be served while responses to earlier ones are postponed."""
        head = self._reader.frames.head
        return len(head) > 0 and not self.postponed.is_full and self._dispatcher.may_follow(head)

    def _serve(self) -> None:
        """Dispatch the whole frames in the buffer one by one, until one has to wait or none is left."""
        throttle, writer = self._throttle, self._writer
        if self._unanswered or throttle.active or writer.waits_for is not None or self._is_ending:
            return
        budget, until = FRAMES_PER_EVENT, 0.0
        reader = self._reader
        next_frame = reader.frames.next_frame
        writer.is_corked = True
        try:
            # `_is_busy` is written out here, because it is evaluated before each frame.
            while not (self._unanswered or throttle.active or writer.waits_for is not None or self._is_ending):
                if budget < FRAMES_PER_EVENT:
                    now = self._clock.time()
                    until = until or now + SECONDS_PER_EVENT
                    if budget == 0 or now >= until:
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
        except Exception:
            # The client would wait for a response until its time-out.
            logger.exception("closing connection from %s: its request could not be served", self.peer)
            self.end()
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
        if self._is_ending:
            self._close_if_answered()
        if self._unanswered or self.closed:
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
        """Serve the client again after a throttle."""
        if not self._is_ending:
            # Receive at once, even if the next request may take long, so that a disconnect is noticed.
            self._reader.resume()
        if self._writer.waits_for is None:
            self._request_done()

    def _write_failed(self, error: OSError) -> None:
        if isinstance(error, SliceUnreadableError):
            logger.error("closing connection from %s: a log segment cannot be read: %s", self.peer, error)
        self.close()

    # -- called by handlers

    def reply(self, chunks: Sequence[Chunk]) -> None:
        """Send the response to the current request; the next one is served once the transport has taken it."""
        if self.closed:
            return
        self.state = None
        self._unanswered = False
        if not self.postponed:
            self._writer.put(chunks)
            return
        self.postponed.put(chunks)
        if self._writer.waits_for is None:
            self._request_done()

    def postpone(self, operation: Cancellable) -> PostponedResponse:
        """Answer the current request when `operation` has ended, and serve requests that may follow it meanwhile.

        The request must not need its frame any more.
        """
        if self.closed:
            return PostponedResponse(None, operation)
        response = self.postponed.add(operation)
        self._unanswered = False
        if self._writer.waits_for is None:
            self._request_done()
        return response

    def skip_reply(self) -> None:
        """End the current request without a response (a produce with acks=0)."""
        if self.closed:
            return
        self.state = None
        self._unanswered = self.is_silent = False
        if self._writer.waits_for is None:
            self._request_done()

    def hold_back(self, seconds: float) -> None:
        """Receive and serve no further request for `seconds`; the current response is still sent (KIP-219).

        Bytes that the client sends meanwhile wait in the kernel. They take no memory here, and are served later even if
        the client disconnects. The time begins now, also if the response still waits for those before it.
        """
        if not self.closed:
            self._throttle.hold_back(seconds)
            self._reader.pause()

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return the bytes of the current frame for a worker; their memory counts as after `keep_memory`."""
        return self._reader.keep(frame)

    def keep_memory(self, size: int) -> bool:
        """Keep the memory of the current frame, of `size` bytes, counted until `free_memory` or the response.

        Returns:
            Whether views of the frame stay valid, because it is a large one. Otherwise the caller copies what it needs.
        """
        return self._reader.hand_over(size)

    def free_memory(self) -> None:
        """Give back the memory kept by `keep_memory`: its bytes are gone, even if the request is not answered."""
        self._reader.copy_gone()

    def serve_by(self, dispatcher: Dispatcher) -> None:
        """Have another dispatcher serve the requests that follow the current one."""
        self._dispatcher = dispatcher

    def admit(self, limits: FrameLimits, memory: RequestMemory) -> None:
        """Take requests within other limits and in another memory, from the next one on."""
        self._reader.admit(limits, memory)

    def refuse(self, error: FrameError | BadRequestError) -> None:
        """End the connection because of bytes that cannot be parsed, and log why."""
        words = "closing connection from %s on %s: %s", self.peer, self.endpoint.name, error
        if isinstance(error, FrameError):
            # Its peer may be anybody: it has not authenticated where that is asked for.
            answer = error.answer
            self._warn(self.peer, "TLS" if answer == TLS_ALERT else "HTTP" if answer else "sizes", *words)
            if answer:
                self._writer.put([answer])
        else:
            logger.warning(*words)
        self.end()

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
        """Return whether no request is being served and every response is written."""
        return not self._unanswered and not self.postponed and self._writer.is_empty

    @property
    def waits(self) -> bool:
        """Return whether it serves only operations that wait for others. A broker that stops does not wait for them."""
        if self.state is not None:
            return True
        return len(self.postponed) > 0 and (not self._unanswered or self._is_ending)

    def end(self) -> None:
        """Serve nothing more, and close the connection when the responses to earlier requests are sent.

        These requests have done their work: a client that did not hear of it would have it done again.
        """
        if self.closed:
            return
        self._is_ending = self._unanswered = True
        self._reader.pause()
        self._writer.is_corked = False
        self._writer.flush()
        self._close_if_answered()

    def _peer_left(self) -> None:
        """Close the connection, but not before the requests that were received whole are served.

        Produces with acks=0 are never sent again, and a client may only have ended its own direction. After each round
        the reader finds the end once more. A response that cannot be sent closes the connection, as in Kafka, and so
        does a request that waits for something.
        """
        if self.state is not None or not (self._unanswered or len(self._reader.frames.head)):
            self.close()
            return
        self._reader.pause()
        if self._lingering is None:
            self._lingering = self._clock.call_later(LINGER_S, self.close)

    def _close_if_answered(self) -> None:
        if not self.postponed and self._writer.waits_for is None:
            self.close()

    def close(self) -> None:
        """Close the connection, drop unsent responses, and cancel the operations that its requests wait for."""
        if self.closed:
            return
        self.closed = self._is_ending = True
        self._throttle.close()
        self._writer.close()
        self._reader.close(is_answered=not self._unanswered)
        self._transport.close()
        self.postponed.close()
        if self._lingering is not None:
            self._lingering.cancel()
        operation, self.state = self.state, None
        if operation is not None:
            operation.cancel()
        self._on_close(self)


def _warn(address: str, kind: str, message: str, *args: object) -> None:
    logger.warning(message, *args)
