"""Threads that do what would block the event loop: their interface, and the one that is threads of this process.

Long work on a worker (a cleaning, a move) changes state on the event loop and keeps to a rate. It does both through
its `Workers`, so that a simulator decides when the work goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


LOOP_CHECK_S = 1.0
"""How often a worker that waits for the event loop looks whether the loop has been closed."""


class LoopClosedError(Exception):
    """The event loop was closed while a worker waited for it."""


class Workers(Protocol):
    """Threads that do what would block the event loop.

    ``run``, ``pool`` and ``close`` are called on the loop's thread, ``on_loop`` and ``sleep`` by work on a worker.
    """

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call ``work(*args)`` on a worker; the future, which belongs to the event loop, gets its result or error."""

    def pool(self, threads: int, name: str) -> Workers:
        """Make a separate set of so many workers, whose work does not hold up this one's."""

    def close(self, *, wait: bool) -> None:
        """Take no more work; with ``wait``, return once all of it is done."""

    def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, wait for it, and return its result or raise its error.

        Raises:
            LoopClosedError: the loop was closed meanwhile.
        """

    def sleep(self, seconds: float) -> None:
        """Hold the calling work up for so long."""


class ThreadWorkers:
    """Workers that are threads of this process.

    Args:
        threads: how many there are at most.
        name: what their names begin with.
    """

    def __init__(self, threads: int, name: str = "kafkalog-worker") -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that has given these workers work."""

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        self._loop = asyncio.get_running_loop()
        return self._loop.run_in_executor(self._executor, work, *args)

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

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class WorkerShare:
    """At most so many of a set of workers, in the order of asking: the others stay free for shorter work."""

    def __init__(self, workers: Workers, limit: int) -> None:
        self._workers = workers
        self._free = asyncio.Semaphore(limit)

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """See `Workers.run`."""
        return asyncio.get_running_loop().create_task(self._run(work, *args))

    async def _run(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        async with self._free:
            return await self._workers.run(work, *args)
