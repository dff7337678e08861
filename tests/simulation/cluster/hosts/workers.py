"""Workers of a simulated process: their work runs on its loop, a while later, in an order of chance.

Work of the pools, which compact and move logs, may wait for the loop, and has threads (`tests.simulation.workers`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from broker.system.workers import Workers
from tests.simulation.workers import SimulatedWorkers
from tests.support.in_process.runtime import InlineExecutor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONGEST_S = 0.003


class ProcessWorkers:
    """The workers of one process.

    Attributes:
        longest_s: the longest that work waits before it begins; a slow disk raises it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._is_closed = False
        self.longest_s = LONGEST_S

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: asyncio.Future[T] = self._loop.create_future()

        def do() -> None:
            try:
                result = work(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self._loop.call_later(self._chance.uniform(0, self.longest_s), do)
        return future

    def pool(self, threads: int, name: str) -> Workers:
        return SimulatedWorkers(self._loop, self._chance)

    def executor(self, threads: int, name: str) -> Executor:
        return InlineExecutor()

    def make_lock(self) -> AbstractContextManager[object]:
        # Work that holds a lock never waits, so nothing else runs meanwhile.
        return nullcontext()

    def close(self, *, wait: bool) -> None:
        self._is_closed = True

    def on_loop(self, coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
        raise AssertionError("this work cannot wait for the loop: use a pool")

    def sleep(self, seconds: float) -> NoReturn:
        raise AssertionError("this work cannot sleep: use a pool")
