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
one before took when it asks for the next, and asks for all of it at once. So who waits has nothing, and who has
something waits for its client or for a worker only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

Granted = Callable[[int], None]


class RequestMemory:
    """Counts bytes taken; a taker that is refused is given its bytes when some come free, in order of asking.

    As in Kafka's memory pool, a request is admitted while any memory is left, so the bound may be passed by one
    request; otherwise a request larger than the bound could never be served.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._waiting: OrderedDict[Granted, int] = OrderedDict()
        """Bytes that takers wait for; there are none while any memory is left."""

    @property
    def bounded(self) -> bool:
        return self.limit > 0

    @property
    def used(self) -> int:
        """Bytes taken."""
        return self._used

    def take(self, count: int, granted: Granted) -> bool:
        """Take ``count`` bytes; False: none are left.

        They are taken once some are, unless the taker is forgotten before, and ``granted`` is called with ``count``.
        A taker has one place among those that wait, however often it asks.
        """
        if self.bounded and self._used >= self.limit:
            self._waiting[granted] = count
            return False
        self._used += count
        return True

    def give_back(self, count: int) -> None:
        self._used -= count
        while self._waiting and self._used < self.limit:
            granted, wanted = self._waiting.popitem(last=False)
            self._used += wanted
            granted(wanted)

    def forget(self, granted: Granted) -> None:
        """Drop a waiting taker, for its connection has closed."""
        self._waiting.pop(granted, None)
