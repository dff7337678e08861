"""Send requests to the handlers of a broker in this process, without connections."""

from __future__ import annotations

from time import perf_counter
from types import SimpleNamespace
from typing import Any

from broker.api.context import Broker, Request
from broker.counters import RequestCounter
from broker.net.session import ANONYMOUS
from kafkalog.protocol.codec import RequestHeader
from kafkalog.protocol.schema import Response


class Asked(Request):
    """A request that keeps its response instead of sending it."""

    __slots__ = ("response",)

    response: Any

    def reply(self, response: Response, wait_ms: int | None = None) -> None:
        self.response = response
        if self.turn is not None:
            self.turn.close()

    async def answer(self, response: Response, *done_with: Any, wait_ms: int | None = None) -> None:
        self.reply(response, wait_ms)


class Client:
    """The connection of a client, which may close it.

    Attributes:
        state: the operation that its request waits on.
    """

    def __init__(self) -> None:
        self.peer = "127.0.0.1"
        self.endpoint = SimpleNamespace(name="L")
        self.session = SimpleNamespace(principal=ANONYMOUS, peer=self.peer)
        self.closed = False
        self.state: Any = None

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        if self.state is not None:
            self.state.cancel()


def request_of(broker: Broker, message: Any, version: int, client: Client, nbytes: int = 1) -> Asked:
    """Return a request as the dispatcher passes it to a handler."""
    header = RequestHeader(message.api_key, version, 1, "c")
    connection: Any = client
    return Asked(broker, connection, header, message, RequestCounter("Any", 0), perf_counter(), nbytes, None)
