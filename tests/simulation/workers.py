"""Workers of a simulated host."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from broker.workers import Workers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONGEST_S = 0.003


class SimulatedWorkers:
    """Each piece of work is done on the loop's thread, after a while of chance: so pieces overtake each other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._closed = False

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()

        def do() -> None:
            # Work that has begun goes on, as on a thread, though nobody waits for its result any more.
            try:
                result = work(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._loop.call_later(self._chance.uniform(0, LONGEST_S), do)
        return future

    def pool(self, threads: int, name: str) -> Workers:
        return SimulatedWorkers(self._loop, self._chance)

    def close(self, *, wait: bool) -> None:
        self._closed = True
