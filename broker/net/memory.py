"""The bound on memory for requests over all connections (``queued.max.request.bytes``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class RequestMemory:
    """Counts bytes taken; a taker that is refused is called back when bytes come free, in order of asking.

    As in Kafka's memory pool, a request is admitted while any memory is left, so the bound may be passed by one
    request; otherwise a request larger than the bound could never be served.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def bounded(self) -> bool:
        return self.limit > 0

    def take(self, count: int, retry: Callable[[], None]) -> bool:
        """Take ``count`` bytes; False: none are left, and ``retry`` is called once some are."""
        if self.bounded and self.used >= self.limit:
            self._waiting.append(retry)
            return False
        self.used += count
        return True

    def give_back(self, count: int) -> None:
        self.used -= count
        while self._waiting and self.used < self.limit:
            self._waiting.popleft()()

    def forget(self, retry: Callable[[], None]) -> None:
        """Drop a waiting taker, for its connection has closed."""
        if retry in self._waiting:
            self._waiting.remove(retry)
