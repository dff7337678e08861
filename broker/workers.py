"""Threads that do what would block the event loop: their interface, and the one that is threads of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Workers(Protocol):
    """Threads that do what would block the event loop. ``run`` is called on the loop's thread."""

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call ``work(*args)`` on a worker; the future, which belongs to the event loop, gets its result or error."""

    def pool(self, threads: int, name: str) -> Workers:
        """Make a separate set of so many workers, whose work does not hold up this one's."""

    def close(self, *, wait: bool) -> None:
        """Take no more work; with ``wait``, return once all of it is done."""


class ThreadWorkers:
    """Workers that are threads of this process.

    Args:
        threads: how many there are at most.
        name: what their names begin with.
    """

    def __init__(self, threads: int, name: str = "kafkalog-worker") -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work, *args)

    def pool(self, threads: int, name: str) -> Workers:
        return ThreadWorkers(threads, name)

    def close(self, *, wait: bool) -> None:
        self._executor.shutdown(wait=wait)


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
