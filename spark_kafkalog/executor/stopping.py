"""Stops tasks that run in threads of this process, also while they wait for brokers.

Spark ends its tasks itself, so on executors nobody requests it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StoppedError(RuntimeError):
    """The task was stopped: its process is to end, or another task has failed."""


class Stop:
    """A request to tasks that they end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[object, Callable[[], None]] = {}
        self._requested = False

    @property
    def requested(self) -> bool:
        return self._requested

    def request(self) -> None:
        """Have all tasks end, now and in future."""
        with self._lock:
            self._requested = True
            calls = list(self._calls.values())
        for call in calls:
            call()

    def check(self) -> None:
        """Check that the task may go on.

        Raises:
            StoppedError: It may not.
        """
        if self._requested:
            raise StoppedError("the task was stopped")

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Have the request call a function of this block, which ends what the block waits for. Any thread may call it.

        Raises:
            StoppedError: The request was made before.
        """
        key = object()
        with self._lock:
            self.check()
            self._calls[key] = call
        try:
            yield
        finally:
            with self._lock:
                del self._calls[key]


class _Running(threading.local):
    """The request that the task of a thread obeys."""

    stop = Stop()
    """Nobody makes this one."""


_running = _Running()


def current() -> Stop:
    """Return the request that this thread's task obeys."""
    return _running.stop


@contextmanager
def obeying(stop: Stop) -> Iterator[None]:
    """Have the task of this block obey a request."""
    before = _running.stop
    _running.stop = stop
    try:
        yield
    finally:
        _running.stop = before
