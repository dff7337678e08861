"""A client of kazoo whose requests can be withdrawn while they wait for a connection.

kazoo keeps the requests that are made without a connection, and sends them with the next one, however late that comes.
A caller that was told of a failure would see its write happen.

`WithdrawingClient` overrides `_reset` and `_queue`, which are private names of kazoo. kazoo's thread reads the first
request with `[0]`, writes it, and takes it out with `popleft`. `tests/kafkalog/zookeeper/test_withdrawing.py` fails
when a release changes that.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from kazoo.client import KazooClient


class Requests(deque[tuple[Any, Any]]):
    """The requests of one client that are not sent yet, each with the object that will hold its answer."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._is_sending = False
        """True while kazoo's thread sends the first request."""

    def __getitem__(self, index: Any) -> Any:
        with self._lock:
            found = super().__getitem__(index)
            self._is_sending = True
            return found

    def append(self, request: tuple[Any, Any], /) -> None:
        with self._lock:
            super().append(request)

    def popleft(self) -> tuple[Any, Any]:
        with self._lock:
            self._is_sending = False
            return super().popleft()

    def withdraw(self, answer: Any) -> bool:
        """Remove the request whose answer the object would hold; return False if it is being sent, or was sent."""
        with self._lock:
            for place, (_, waiting) in enumerate(self):
                if waiting is answer and not (self._is_sending and place == 0):
                    del self[place]
                    return True
            return False


class WithdrawingClient(KazooClient):  # type: ignore[misc]
    """A client of kazoo with `withdraw`."""

    def _reset(self) -> None:
        super()._reset()
        self._queue = Requests()

    def withdraw(self, answer: Any) -> bool:
        """Withdraw the request that has returned `answer`; return False if it is being sent, or was sent."""
        return bool(self._queue.withdraw(answer))
