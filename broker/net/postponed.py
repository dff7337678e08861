"""Responses that are postponed: requests have done their work and wait for others, as produces do for followers.

A connection serves further requests meanwhile. All responses keep the order of their requests, so one that is there
waits for those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from broker.net.chunks import Chunk
from broker.net.sockets.event_loop import Clock
from broker.net.writer import CORK_LIMIT, Writer

MOST_POSTPONED = 10
"""The most responses of a connection that are postponed at one time: two times what Kafka's producer has in flight."""


class Cancellable(Protocol):
    """An operation that a request waits for."""

    def cancel(self) -> None:
        """End without an answer, because the client no longer waits for one."""


class PostponedResponse:
    """The response to one request, which comes later.

    Attributes:
        operation: what the request waits for.
        chunks: the response, once it is there.
    """

    __slots__ = ("_responses", "chunks", "operation")

    def __init__(self, responses: PostponedResponses | None, operation: Cancellable | None) -> None:
        self._responses = responses
        self.operation = operation
        self.chunks: Sequence[Chunk] | None = None

    def reply(self, chunks: Sequence[Chunk]) -> None:
        """Send the response after those to earlier requests; do nothing if the connection is closed."""
        responses = self._responses
        self.operation = None
        if responses is not None:
            responses.take(self, chunks)

    def cancel(self) -> None:
        """Cancel what the request waits for. The response refers to nothing any more."""
        operation, self.operation, self._responses = self.operation, None, None
        if operation is not None:
            operation.cancel()


class PostponedResponses:
    """The postponed responses of one connection, and responses that are there and wait for those.

    Args:
        clock: calls back in the next round of the loop.
        writer: sends responses.
        on_sent: called when the writer has taken what was due.
    """

    __slots__ = ("_clock", "_is_scheduled", "_kept", "_on_sent", "_responses", "_writer")

    def __init__(self, clock: Clock, writer: Writer, on_sent: Callable[[], None]) -> None:
        self._clock = clock
        self._writer = writer
        self._on_sent = on_sent
        self._responses: deque[PostponedResponse] = deque()
        self._kept = 0
        """The bytes of the responses that are there."""
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._responses)

    def __iter__(self) -> Iterator[PostponedResponse]:
        return iter(self._responses)

    @property
    def is_full(self) -> bool:
        """Return whether no further request may be served before one of these has its response."""
        return len(self._responses) >= MOST_POSTPONED or self._kept >= CORK_LIMIT

    def add(self, operation: Cancellable) -> PostponedResponse:
        """Postpone a response until `operation` has ended."""
        response = PostponedResponse(self, operation)
        self._responses.append(response)
        return response

    def put(self, chunks: Sequence[Chunk]) -> None:
        """Send a response after all of these."""
        response = PostponedResponse(self, None)
        self._responses.append(response)
        self.take(response, chunks)

    def take(self, response: PostponedResponse, chunks: Sequence[Chunk]) -> None:
        """Take a response, and send what is due: several responses together, in the next round of the loop."""
        response.chunks = chunks
        self._kept += sum(map(len, chunks))
        if self._is_scheduled or self._responses[0].chunks is None:
            return
        if len(self._responses) == 1 and not self._writer.is_corked:
            self._put_due()
        else:
            self._is_scheduled = True
            self._clock.call_soon(self._send_due)

    def _send_due(self) -> None:
        self._is_scheduled = False
        writer = self._writer
        writer.is_corked = True
        self._put_due()
        writer.is_corked = False
        writer.flush()
        if writer.waits_for is None:
            self._on_sent()

    def _put_due(self) -> None:
        responses = self._responses
        while responses and (chunks := responses[0].chunks) is not None:
            responses.popleft()
            self._kept -= sum(map(len, chunks))
            self._writer.put(chunks)

    def close(self) -> None:
        """Drop the responses, and cancel what their requests wait for."""
        responses, self._responses = self._responses, deque()
        self._on_sent = _nothing
        for response in responses:
            response.cancel()


def _nothing() -> None:
    pass
