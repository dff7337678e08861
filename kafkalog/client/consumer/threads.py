"""What the consumer's threads share: a lock, waiting, and workers that do one thing after the other."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Monitor:
    """The lock of a consumer's state, and a way to wait for something in it to change.

    The application's thread waits here; the others call `notify`. `wakeup` has the next (or present) wait of the
    application's end.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self.woken = False
        self._deaf = False

    def notify(self) -> None:
        """Something has changed."""
        with self.lock:
            self._changed.notify_all()

    def wakeup(self) -> None:
        """End the application's wait."""
        with self.lock:
            self.woken = not self._deaf
            self._changed.notify_all()

    def ignore_wakeups(self) -> None:
        """Have `wakeup` end no wait any more, nor an earlier one the next."""
        with self.lock:
            self.woken, self._deaf = False, True

    def wait(self, deadline: float, done: Callable[[], bool]) -> bool:
        """Wait until ``done()``, which is asked under the lock, or a wakeup; False where ``deadline`` came first."""
        with self.lock:
            while not done():
                if self.woken:
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                # Not for ever at once: a wait without end cannot be interrupted by signals on every platform.
                self._changed.wait(min(left, 3600.0))
            return True


class Worker:
    """A thread that runs calls in their order; it begins with the first, and does not keep the process alive."""

    def __init__(self, name: str, notify: Callable[[], None]) -> None:
        self._name = name
        self._notify = notify
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Have ``call`` run; its result or exception is in the future."""
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._notify())
        self._calls.put((call, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return future

    def stop(self, timeout: float) -> None:
        """End after the calls that were submitted; waits for that up to ``timeout`` seconds."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            call, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)


class HeartbeatThread(threading.Thread):
    """What sends a member's heartbeats; ``_changed`` is notified when there may be something to do sooner."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(name="kafkalog-consumer-heartbeat", daemon=True)
        self._monitor = monitor
        self._changed = threading.Condition(monitor.lock)
        self._stopping = False

    def wake(self) -> None:
        """The member's state has changed."""
        with self._monitor.lock:
            self._changed.notify_all()

    def stop(self, timeout: float) -> None:
        """End; waits for that up to ``timeout`` seconds."""
        with self._monitor.lock:
            self._stopping = True
            self._changed.notify_all()
        if self.ident is not None:
            self.join(timeout)
