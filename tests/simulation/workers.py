"""Workers of a simulated host."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from broker.system.workers import Workers
from tests.support.in_process.runtime import InlineExecutor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONGEST_S = 0.003
DEADLINE_S = 60.0


class Piece:
    """A piece of work on its own thread. Either it or the loop runs; the other waits.

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
        """Run the work until it waits or ends. Called on the loop's thread."""
        self._may_run.release()
        # Such as a lock of threads, whose holder waits for the loop.
        assert self._has_paused.acquire(timeout=DEADLINE_S), "work waits for something that no simulator knows of"
        self._wish()

    def wait_for(self, wish: Callable[[], object]) -> None:
        """Suspend the work, and call `wish` on the loop's thread; `go_on` resumes it."""
        self._wish = wish
        self._has_paused.release()
        self._may_run.acquire()

    def _run(self) -> None:
        self._may_run.acquire()
        self._work()
        self._wish = lambda: None
        self._has_paused.release()


class SimulatedLock:
    """A lock that one piece of work holds at a time. The loop goes on while others wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pieces: dict[int, Piece]) -> None:
        self._loop = loop
        self._pieces = pieces
        self._is_held = False
        self._waiting: deque[Piece] = deque()

    def __enter__(self) -> None:
        while self._is_held:
            piece = self._pieces.get(threading.get_ident())
            assert piece is not None, "the loop would wait for work that waits for the loop"
            piece.wait_for(partial(self._waiting.append, piece))
        self._is_held = True

    def __exit__(self, *error: object) -> None:
        self._is_held = False
        if self._waiting:
            # The piece that lets it go is on this thread; the next one goes on when it has stopped.
            self._loop.call_soon(self._waiting.popleft().go_on)


class SimulatedWorkers:
    """Workers with a random delay before each piece of work, so that pieces overtake each other.

    The work takes no time. It may wait for the loop and sleep: virtual time advances meanwhile, and other pieces run.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, chance: random.Random, pieces: dict[int, Piece] | None = None
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._closed = False
        self._pieces: dict[int, Piece] = {} if pieces is None else pieces
        """By the thread that works on them; shared with other pools."""

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
        return SimulatedWorkers(self._loop, self._chance, self._pieces)

    def executor(self, threads: int, name: str) -> Executor:
        return InlineExecutor()

    def make_lock(self) -> SimulatedLock:
        return SimulatedLock(self._loop, self._pieces)

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
