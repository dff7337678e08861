"""The bound on memory for requests over all connections (`queued.max.request.bytes`).

A request counts for the memory that it needs beyond the `BASE_CAPACITY` (32 KiB) of buffer that every connection may
have. It counts in full as soon as its size is known, and until its handler has finished with its bytes. A request whose
handler has read it and waits for something (a produce for its acknowledgement, a join for the other members) no longer
counts. Decoded objects never count. Source: Kafka's `SimpleMemoryPool`, and `KafkaRequestHandler`, which releases a
request's buffer when its handler returns.

If there is a limit, less than the limit plus the size of the largest admitted request is taken at any time. All buffers
together hold no more than that plus 32 KiB for each connection; while a buffer grows, its old bytes come on top.

There is no deadlock. A connection receives one request at a time, gives back the memory of the previous request before
it asks for the next, and asks for all of it at once. So a connection that waits for memory holds none, and a connection
that holds memory waits only for its client or for a worker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class RequestMemory:
    """Count the bytes taken. Refused shares get their bytes in the order of their requests, when memory is given back.

    As in Kafka's memory pool, a request is admitted while any memory is left, so the limit may be exceeded by one
    request. Otherwise a request larger than the limit could never be served.

    Attributes:
        limit: the number of bytes that may be taken; 0 or less for no limit.
        bounded: whether there is a limit.
        used: the number of bytes taken by all shares.
    """

    __slots__ = ("_waiting", "bounded", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bounded = limit > 0
        self.used = 0
        self._waiting: OrderedDict[Share, int] = OrderedDict()
        """The bytes that each share waits for. No share waits while any memory is left."""

    def share(self, on_granted: Callable[[], None]) -> Share:
        """Return the share of one connection; `on_granted` is called when it gets the bytes that it waited for."""
        return Share(self, on_granted)

    def _grant(self) -> None:
        while self._waiting and self.used < self.limit:
            share, count = self._waiting.popitem(last=False)
            self.used += count
            share.taken += count
            share._on_granted()


class Share:
    """The memory that one connection has taken.

    Attributes:
        taken: the number of bytes taken; a part of the memory's `used`.
    """

    __slots__ = ("_memory", "_on_granted", "taken")

    def __init__(self, memory: RequestMemory, on_granted: Callable[[], None]) -> None:
        self._memory = memory
        self._on_granted = on_granted
        self.taken = 0

    @property
    def waits(self) -> bool:
        """Return whether the share was refused bytes and will get them later."""
        return self in self._memory._waiting

    def take(self, count: int) -> bool:
        """Take `count` more bytes; return False if no memory is left.

        In that case they are taken once memory is given back, unless the share is closed first, and `on_granted` is
        called. A share has one place in the queue, however often it asks.
        """
        memory = self._memory
        if memory.bounded and memory.used >= memory.limit:
            memory._waiting[self] = count
            return False
        memory.used += count
        self.taken += count
        return True

    def keep(self, count: int) -> None:
        """Give back all but `count` bytes."""
        freed = self.taken - count
        if freed:
            self.taken = count
            self._memory.used -= freed
            self._memory._grant()

    def close(self) -> None:
        """Stop waiting, because the connection has closed. The bytes taken are given back by `keep`."""
        self._memory._waiting.pop(self, None)
        self._on_granted = _nothing


def _nothing() -> None:
    pass
