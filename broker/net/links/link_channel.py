"""One connection of a link, from its opening to its end: the wire core driven by an asyncio transport."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from broker.net.links.link_errors import (
    LinkAuthenticationError,
    LinkBrokenError,
    LinkError,
    LinkProtocolError,
)
from broker.system.workers import Workers
from kafkalog.protocol.codec import Chunk
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.core import Answer, State, Wire
from kafkalog.protocol.wire.errors import (
    AuthenticationFailedError,
    ConnectionEndedError,
    LocalProtocolError,
    RemoteProtocolError,
)

_JOIN_BELOW = 1 << 16
"""Chunks of frames shorter than this are joined, because copying them costs less than a second write."""
_SESSION_USE = 0.85
"""The share of a session's lifetime that is used. The rest is left for requests still in flight at its end."""
_SESSION_LEAST_S = 1.0
"""The shortest time a session is used, so that a peer cannot force constant reconnects by short sessions."""


class Channel(asyncio.BufferedProtocol):
    """Run a connection's protocol on the event loop. It fails once, together with all requests in flight.

    Args:
        loop: The event loop.
        wire: A new wire core.
        changed: Called when there may be room for another request, and when the channel has failed.

    Attributes:
        failure: why the channel failed; None while it works.
        closed: done once the transport has closed the socket; pending for ever if no transport was made.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wire: Wire, changed: Callable[[], None]) -> None:
        self.failure: LinkError | None = None
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._wire = wire
        self._changed = changed
        self._transport: asyncio.Transport | None = None
        self._step: asyncio.Future[None] | None = None
        """The response to the current step of the handshake."""
        self._in_flight: deque[asyncio.Future[Any]] = deque()
        self._takes_more = True
        self._session_ends = float("inf")
        self._pause: asyncio.TimerHandle | None = None
        """The end of the time that the peer asked to wait before the next request."""

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._in_flight)

    @property
    def ready(self) -> bool:
        """Return whether a request can be sent now without filling buffers of the transport."""
        return self.failure is None and self._takes_more and self._pause is None and self._wire.state is State.READY

    @property
    def paused(self) -> bool:
        """Return whether the peer asked to wait before the next request, and that time is not over (KIP-219)."""
        return self._pause is not None

    @property
    def expired(self) -> bool:
        """Return whether the authenticated session is about to end (KIP-368), so that a new connection is needed."""
        return self._loop.time() >= self._session_ends

    @property
    def connected(self) -> bool:
        """Return whether there is, or was, a transport."""
        return self._transport is not None

    def version_of(self, request_class: type[Request], max_version: int | None, min_version: int) -> int:
        """Choose the newest version that both sides speak.

        Raises:
            UnsupportedVersionError: There is none.
        """
        return self._wire.version_of(request_class, max_version, min_version)

    async def shake_hands(self, workers: Workers) -> None:
        """Negotiate versions, and authenticate where the wire has a mechanism.

        Raises:
            LinkError: The channel failed.
        """
        chunks = self._wire.begin()
        while chunks:
            self._check()
            self._step = self._loop.create_future()
            self._write(chunks)
            await self._step
            # It may have failed after the answer came, before this task had its turn.
            self._check()
            try:
                chunks = await self._proceed(workers)
            except (AuthenticationFailedError, UnsupportedVersionError) as error:
                self.fail(LinkAuthenticationError(str(error)))
            except RemoteProtocolError as error:
                self.fail(LinkProtocolError(str(error)))
            except LocalProtocolError:
                # It has failed before a worker took the step.
                self._check()
                raise
            self._check()
        if self._wire.session_lifetime_ms > 0:
            lifetime = self._wire.session_lifetime_ms / 1000
            self._session_ends = self._loop.time() + max(_SESSION_USE * lifetime, _SESSION_LEAST_S)

    async def _proceed(self, workers: Workers) -> list[Chunk]:
        if self._wire.state is State.NEGOTIATING:
            return self._wire.proceed()
        # SCRAM's computation takes as long as the peer's iteration count demands. Nothing else may use the wire
        # meanwhile.
        assert self._transport is not None
        self._transport.pause_reading()
        try:
            return await workers.run(self._wire.proceed)
        finally:
            self._transport.resume_reading()

    def send(self, message: Request, version: int, response: asyncio.Future[Any]) -> None:
        """Send a request; `response` gets its response or the error that prevented it."""
        chunks = self._wire.send(message, version)
        self._in_flight.append(response)
        self._write(chunks)

    def holds(self, response: asyncio.Future[Any]) -> bool:
        """Return whether this future's request is in flight here."""
        return response in self._in_flight

    def fail(self, failure: LinkError) -> None:
        """Close the connection at once; the requests in flight fail with `failure`. Later calls do nothing."""
        if self.failure is not None:
            return
        self.failure = failure
        if self._pause is not None:
            self._pause.cancel()
        if self._transport is not None:
            self._transport.abort()
        waiting = [*self._in_flight, *([self._step] if self._step is not None else [])]
        self._in_flight.clear()
        self._wire.close()
        for future in waiting:
            if not future.done():
                future.set_exception(failure.copy())
        self._changed()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.failure is not None:
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.space()

    def buffer_updated(self, nbytes: int) -> None:
        if self.failure is not None:
            return
        try:
            event = self._wire.received(nbytes)
        except RemoteProtocolError as error:
            self.fail(LinkProtocolError(str(error)))
            return
        if isinstance(event, Answer):
            response = self._in_flight.popleft()
            throttle_time_ms = getattr(event.message, "throttle_time_ms", 0)
            if throttle_time_ms > 0:
                self._wait(throttle_time_ms / 1000)
            if not response.done():
                response.set_result(event.message)
            self._changed()
        elif event is not None and self._step is not None and not self._step.done():
            self._step.set_result(None)

    def eof_received(self) -> None:
        if self.failure is not None:
            return
        try:
            self._wire.received(0)
        except ConnectionEndedError as error:
            self.fail(LinkBrokenError(str(error)))

    def pause_writing(self) -> None:
        self._takes_more = False

    def resume_writing(self) -> None:
        self._takes_more = True
        self._changed()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        reason = getattr(exc, "strerror", None) or exc or "it was closed"
        self.fail(LinkBrokenError(f"connection to {self._wire.peer}: {reason}"))

        # Internals

    def _wait(self, seconds: float) -> None:
        """Send nothing for so long, as the peer asks by its response (KIP-219)."""
        end = self._loop.time() + seconds
        if self._pause is not None:
            end = max(end, self._pause.when())
            self._pause.cancel()
        self._pause = self._loop.call_at(end, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._changed()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure.copy()

    def _write(self, chunks: list[Chunk]) -> None:
        transport = self._transport
        assert transport is not None
        views = [memoryview(chunk) for chunk in chunks if len(chunk)]  # type: ignore[arg-type]
        if sum(view.nbytes for view in views) < _JOIN_BELOW:
            views = [memoryview(b"".join(views))]
        for view in views:
            transport.write(view)
