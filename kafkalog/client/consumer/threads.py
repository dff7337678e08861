"""The lock that the threads of a consumer share, what keeps a second application thread out, and its own threads."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from kafkalog.client.forks import FORKED, own

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Monitor:
    """The lock of a consumer's state, and a way to wait for a change of it (a monitor).

    The application's thread waits here; the others call `notify`. `wakeup` interrupts the application's current or next
    wait.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self.woken = False
        self._deaf = False

    def notify(self) -> None:
        """Wake the waiting thread, because the state has changed."""
        with self.lock:
            self._changed.notify_all()

    def wakeup(self) -> None:
        """Interrupt the application's wait."""
        with self.lock:
            self.woken = not self._deaf
            self._changed.notify_all()

    def lose(self) -> None:
        """Take a new lock, in a forked process: nobody releases the one that another thread held."""
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)

    def ignore_wakeups(self) -> None:
        """Make `wakeup` without effect from now on, and forget an earlier one."""
        with self.lock:
            self.woken, self._deaf = False, True

    def wait(self, deadline: float, done: Callable[[], bool]) -> bool:
        """Wait until `done()`, which is called under the lock, or a wakeup.

        Returns False where `deadline` came first.
        """
        with self.lock:
            while not done():
                if self.woken:
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                # Wait an hour at most: on some platforms signals do not interrupt a wait without end.
                self._changed.wait(min(left, 3600.0))
            return True


class SingleThread:
    """Let one thread in; it may enter again from listeners and callbacks.

    Attributes:
        user: The identifier of the thread that is inside.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._depth = 0
        self.user: int | None = None
        self.closed = self._is_lost = False
        own(self)

    def lose(self) -> None:
        """Let nobody in from now on, in a forked process, which has none of the consumer's threads."""
        self._monitor.lose()
        self.closed = self._is_lost = True

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep other threads out.

        Raises:
            RuntimeError: Another thread is inside, the consumer is closed, or this is a forked process.
        """
        if self._is_lost:
            raise RuntimeError(f"the consumer {FORKED}")
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


class Worker:
    """A thread that runs calls in their order. It starts with the first call, and does not keep the process alive."""

    def __init__(self, name: str, notify: Callable[[], None]) -> None:
        self._name = name
        self._notify = notify
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue `call`; its result or exception will be in the future."""
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._notify())
        self._calls.put((call, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return future

    def stop(self, timeout: float) -> None:
        """End the thread after the queued calls; wait up to `timeout` seconds for that."""
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
    """Base of the threads that send heartbeats; `_changed` is notified when a heartbeat may be due sooner."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(name="kafkalog-consumer-heartbeat", daemon=True)
        self._monitor = monitor
        self._changed = threading.Condition(monitor.lock)
        self._stopping = False

    def wake(self) -> None:
        """Tell the thread that the member's state has changed."""
        with self._monitor.lock:
            self._changed.notify_all()

    def stop(self, timeout: float) -> None:
        """End the thread; wait up to `timeout` seconds for that."""
        with self._monitor.lock:
            self._stopping = True
            self._changed.notify_all()
        if self.ident is not None:
            self.join(timeout)
