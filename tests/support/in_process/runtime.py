"""Runtimes for brokers, and parts of brokers, in the test's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from broker.net.sockets.network import LoopNetwork
from broker.runtime import Runtime, wall_clock_ms
from broker.system.workers import ThreadWorkers, Workers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class InlineExecutor(Executor):
    """An executor that runs each piece of work at once."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class InlineWorkers:
    """Workers that run their work at once on the loop's thread, so that a seed always makes the same run."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future: asyncio.Future[T] = (self._loop or asyncio.get_running_loop()).create_future()
        try:
            future.set_result(work(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def pool(self, threads: int, name: str) -> Workers:
        # Threads: the cleaner's and the mover's work waits for the loop, which would wait for itself.
        return ThreadWorkers(threads, name)

    def on_loop(self, coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
        raise AssertionError("inline work cannot wait for the loop that it runs on: use a pool")

    def executor(self, threads: int, name: str) -> Executor:
        return InlineExecutor()

    def make_lock(self) -> AbstractContextManager[object]:
        return Lock()

    def sleep(self, seconds: float) -> NoReturn:
        raise AssertionError("inline work cannot sleep: use a pool")

    def close(self, *, wait: bool) -> None:
        """Do nothing: all work is done."""


def inline_runtime(loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int] = wall_clock_ms) -> Runtime:
    """Return a runtime whose workers run inline."""
    return Runtime(loop, InlineWorkers(loop), LoopNetwork(loop), now_ms)
