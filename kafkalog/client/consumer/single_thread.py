"""A guard that lets one thread at a time call a consumer's methods."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.client.consumer.threads import Monitor


class SingleThread:
    """Let one thread in; it may enter again from listeners and callbacks."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._depth = 0
        self.user: int | None = None
        """The identifier of the thread that is inside."""
        self.closed = False

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep other threads out. Raises RuntimeError in a thread that enters meanwhile, or after `close`."""
        thread = threading.get_ident()
        with self._monitor.lock:
            if self.closed and self.user != thread:
                raise RuntimeError("the consumer is closed")
            if self.user not in (None, thread):
                raise RuntimeError("a consumer is for one thread at a time; only wakeup() is for others")
            self.user = thread
            self._depth += 1
        try:
            yield
        finally:
            with self._monitor.lock:
                self._depth -= 1
                if not self._depth:
                    self.user = None
