"""The bound on memory for requests over all connections (``queued.max.request.bytes``).

Counted is what a request takes beyond the `BASE_CAPACITY` (32 KiB) of buffer that every connection has: the whole of
it from when its size is known, until its handler is done with its bytes. A request whose handler has read it and waits
for something (a produce for its acknowledgement, a join for the other members) is not counted any more; what it was
decoded to never is. Source: Kafka's ``SimpleMemoryPool``, and ``KafkaRequestHandler``, which releases a request's
buffer when its handler returns.

Guaranteed, where there is a limit: less than the limit and one request is taken, that request being the largest one
that was admitted. All buffers together hold no more than that and 32 KiB for each connection; and while one of them
grows, its old bytes too.

Connections do not wait for one another for ever: a connection receives one request at a time, has given back what the
one before took when it asks for the next, and asks for all of it at once. So a connection that waits has taken nothing,
and one that has taken something waits for its client or for a worker only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class RequestMemory:
    """Counts bytes taken. A share that is refused is given its bytes when some come free, in order of asking.

    As in Kafka's memory pool, a request is admitted while any memory is left, so the bound may be passed by one
    request; otherwise a request larger than the bound could never be served.

    Attributes:
        limit: the bytes that may be taken; 0 or less for no limit.
        bounded: whether there is a limit.
        used: the bytes taken by all shares.
    """

    __slots__ = ("_waiting", "bounded", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bounded = limit > 0
        self.used = 0
        self._waiting: OrderedDict[Share, int] = OrderedDict()
        """Bytes that shares wait for; none waits while any memory is left."""

    def share(self, on_granted: Callable[[], None]) -> Share:
        """Return the share of one connection; ``on_granted`` is called when it has got what it waited for."""
        return Share(self, on_granted)

    def _grant(self) -> None:
        while self._waiting and self.used < self.limit:
            share, count = self._waiting.popitem(last=False)
            self.used += count
            share.taken += count
            share._on_granted()


class Share:
    """What one connection has taken of the memory.

    Attributes:
        taken: bytes taken; a part of the memory's ``used``.
    """

    __slots__ = ("_memory", "_on_granted", "taken")

    def __init__(self, memory: RequestMemory, on_granted: Callable[[], None]) -> None:
        self._memory = memory
        self._on_granted = on_granted
        self.taken = 0

    @property
    def waits(self) -> bool:
        """Whether it was refused bytes, and will be given them."""
        return self in self._memory._waiting

    def take(self, count: int) -> bool:
        """Take ``count`` bytes more; False if none are left.

        They are taken once some are, unless the share is closed before, and ``on_granted`` is called. A share has one
        place among those that wait, however often it asks.
        """
        memory = self._memory
        if memory.bounded and memory.used >= memory.limit:
            memory._waiting[self] = count
            return False
        memory.used += count
        self.taken += count
        return True

    def keep(self, count: int) -> None:
        """Give back all but ``count`` bytes."""
        freed = self.taken - count
        if freed:
            self.taken = count
            self._memory.used -= freed
            self._memory._grant()

    def close(self) -> None:
        """Wait for nothing any more, for the connection has closed. What is taken is given back by ``keep``."""
        self._memory._waiting.pop(self, None)
        self._on_granted = _nothing


def _nothing() -> None:
    pass
