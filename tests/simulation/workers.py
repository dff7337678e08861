"""Workers of a simulated host."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from broker.system.workers import Workers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONGEST_S = 0.003


class Piece:
    """A piece of work on a thread of its own. Either it runs or the loop does: each waits while the other goes on.

    Args:
        work: what the thread does; it raises nothing.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._may_run = threading.Semaphore(0)
        self._has_paused = threading.Semaphore(0)
        self._wish: Callable[[], object] = lambda: None
        # Work that waits when the simulation ends never goes on.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Let the work run until it waits or ends. Called on the loop's thread."""
        self._may_run.release()
        self._has_paused.acquire()
        self._wish()

    def wait_for(self, wish: Callable[[], object]) -> None:
        """Stop the work, and have ``wish`` called on the loop's thread; `go_on` ends the waiting."""
        self._wish = wish
        self._has_paused.release()
        self._may_run.acquire()

    def _run(self) -> None:
        self._may_run.acquire()
        self._work()
        self._wish = lambda: None
        self._has_paused.release()


class SimulatedWorkers:
    """Each piece of work begins after a while of chance, so that pieces overtake each other, and takes no time itself.

    The work may wait for the loop and sleep: virtual time goes on meanwhile, and other pieces run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._closed = False
        self._pieces: dict[int, Piece] = {}
        """By the thread that works on them."""

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()

        def do() -> None:
            self._pieces[threading.get_ident()] = piece
            # Work that has begun goes on, as on any thread, though nobody waits for its result any more.
            try:
                result = work(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)
            finally:
                del self._pieces[threading.get_ident()]

        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        piece = Piece(do)
        self._loop.call_later(self._chance.uniform(0, LONGEST_S), piece.go_on)
        return future

    def pool(self, threads: int, name: str) -> Workers:
        return SimulatedWorkers(self._loop, self._chance)

    def close(self, *, wait: bool) -> None:
        self._closed = True

    def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        piece = self._pieces[threading.get_ident()]
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(lambda _: piece.go_on())

        piece.wait_for(begin)
        return tasks[0].result()

    def sleep(self, seconds: float) -> None:
        piece = self._pieces[threading.get_ident()]
        piece.wait_for(lambda: self._loop.call_later(seconds, piece.go_on))
