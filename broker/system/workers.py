"""Workers for work that would block the event loop: the interface, and its implementation by threads.

Long work on a worker (a cleaning, a move) has to change state on the event loop and to keep to a rate. It does both
through its `Workers`, so that a simulator can decide when the work continues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


LOOP_CHECK_S = 1.0
"""The interval at which a worker that waits for the event loop checks whether the loop has been closed."""


class LoopClosedError(Exception):
    """The event loop was closed while a worker waited for it."""


class NoThreadError(Exception):
    """The system lets this process start no thread. That says nothing about the disk, and may pass."""


def start_thread(thread: Thread) -> None:
    """Start a thread.

    Raises:
        NoThreadError: the system does not allow it.
    """
    try:
        thread.start()
    except RuntimeError as error:
        raise _no_thread(error) from error


def _no_thread(error: RuntimeError) -> NoThreadError:
    return NoThreadError(
        f"No thread can be started ({error}): raise the limit of processes and threads (ulimit -u, or pids.max of the "
        "control group)"
    )


class Workers(Protocol):
    """Runs work that would block the event loop.

    Call `run`, `pool` and `close` on the loop's thread. Work on a worker calls `on_loop`, `sleep` and
    `executor`.
    """

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call `work(*args)` on a worker; return a future of the event loop that gets its result or error.

        The error is a NoThreadError if there is no worker for it, so that `work` was not called.
        """

    def pool(self, threads: int, name: str) -> Workers:
        """Make a separate pool of `threads` workers, whose work does not delay the work of this one."""

    def close(self, *, wait: bool) -> None:
        """Accept no more work; with `wait`, return when all work is done."""

    def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, wait for it, and return its result or raise its error.

        Raises:
            LoopClosedError: the loop was closed meanwhile.
        """

    def executor(self, threads: int, name: str) -> Executor:
        """Make `threads` more workers for a piece of work that waits for all that it gives them.

        What they do neither waits for the loop nor sleeps.
        """

    def make_lock(self) -> AbstractContextManager[object]:
        """Make a lock that one piece of work holds at a time, of this pool or another.

        A lock that is held during `on_loop` or `sleep` has to be made here: a simulator runs other work meanwhile.
        """

    def sleep(self, seconds: float) -> None:
        """Block the calling work for `seconds`."""


class _Threads(ThreadPoolExecutor):
    """Threads that are started as they are needed, as far as the system allows.

    If it does not allow a further one, work waits for the existing threads. The class of the standard library raises an
    error then, but the next thread that is free does the work all the same.
    """

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if self._threads:
                return
            # `submit` has put the work there, and holds a lock. Nobody knows of the work any more.
            self._work_queue.get_nowait()
            raise _no_thread(error) from error


class ThreadWorkers:
    """Run work on threads of this process.

    Args:
        threads: the largest number of threads.
        name: the prefix of their names.
    """

    def __init__(self, threads: int, name: str = "kafkalog-worker") -> None:
        self._executor = _Threads(threads, thread_name_prefix=name)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop from which `run` was called."""

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        self._loop = asyncio.get_running_loop()
        try:
            return self._loop.run_in_executor(self._executor, work, *args)
        except NoThreadError as error:
            failed: asyncio.Future[T] = self._loop.create_future()
            failed.set_exception(error)
            return failed

    def pool(self, threads: int, name: str) -> Workers:
        return ThreadWorkers(threads, name)

    def close(self, *, wait: bool) -> None:
        self._executor.shutdown(wait=wait)

    def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "on_loop is for work that run() was given"
        done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while not wait([done], LOOP_CHECK_S).done:
            if self._loop.is_closed():
                raise LoopClosedError
        return done.result()

    def executor(self, threads: int, name: str) -> Executor:
        return _Threads(threads, name)

    def make_lock(self) -> AbstractContextManager[object]:
        return Lock()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class WorkerShare:
    """Use at most `limit` workers of a pool at a time, in the order of calls, so that others stay free."""

    def __init__(self, workers: Workers, limit: int) -> None:
        self._workers = workers
        self._free = asyncio.Semaphore(limit)

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """See `Workers.run`."""
        return asyncio.get_running_loop().create_task(self._run(work, *args))

    async def _run(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        async with self._free:
            return await self._workers.run(work, *args)
