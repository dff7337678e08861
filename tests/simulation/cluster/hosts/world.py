"""Simulated time, and the event loops of all processes that live in it.

Each process has an event loop of its own, so that it can be frozen, with everything that it waits for, or end from one
instant to the next, as `kill -9` ends it: none of its callbacks ever runs again. All loops share one queue. What is due
at the same time runs in the order in which it was asked for, so a run depends on nothing but its seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    # It has what an abstract loop lacks and nobody here calls.
    _Loop = asyncio.SelectorEventLoop
else:
    _Loop = asyncio.AbstractEventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BUSIEST = 300_000
"""The callbacks that may run without the time advancing: more are an endless loop."""


class Handle:
    """A callback that waits for its turn; stands for both of asyncio's handles."""

    __slots__ = ("_is_cancelled", "_when", "args", "callback", "context", "loop")

    def __init__(
        self,
        loop: ProcessLoop,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self.loop = loop
        self._when = when
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self._is_cancelled = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self._is_cancelled = True
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self._is_cancelled


class NumberedFuture(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address."""

    number: int

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, number: int, coroutine: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class Life(Enum):
    """The state of a process."""

    RUNS = "runs"
    FROZEN = "frozen"
    DEAD = "dead"


class World:
    """The time and the queue.

    Attributes:
        now: seconds since the beginning.
        errors: exceptions that callbacks and tasks of living processes let go.
        add: has a callback run as soon as its turn comes.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.errors: list[str] = []
        self._ready: deque[Handle] = deque()
        self.add = self._ready.append
        self._timers: list[tuple[float, int, Handle]] = []
        self._number = self._futures = 0
        self._loops: list[ProcessLoop] = []

    def loop(self, name: str) -> ProcessLoop:
        """Make the event loop of a process."""
        loop = ProcessLoop(self, name)
        self._loops.append(loop)
        return loop

    def number(self) -> int:
        """Return the next number of a future."""
        self._futures += 1
        return self._futures

    def add_timer(self, handle: Handle) -> None:
        """Have a callback run at its time."""
        self._number += 1
        heapq.heappush(self._timers, (handle._when, self._number, handle))

    def run(self, main: Coroutine[Any, Any, T], loop: ProcessLoop) -> T:
        """Run until `main`, a coroutine on `loop`, has ended; afterwards all processes are dead."""
        task: asyncio.Task[T] = loop.create_task(main)
        try:
            self._run_until(task)
        finally:
            _set_running_loop(None)
            for each in self._loops:
                each.life = Life.DEAD
        return task.result()

    def _run_until(self, task: asyncio.Task[Any]) -> None:
        ready, timers, busy = self._ready, self._timers, 0
        running: ProcessLoop | None = None
        while not task.done():
            if ready:
                busy += 1
                handle = ready.popleft()
                assert busy < BUSIEST, f"{handle.loop} does not come to rest"
            else:
                when, _, handle = heapq.heappop(timers)
                if when > self.now:
                    self.now, busy = when, 0
            callback, loop = handle.callback, handle.loop
            if callback is None:
                # It was cancelled.
                continue
            if loop.life is Life.FROZEN:
                loop.missed.append(handle)
            elif loop.life is Life.RUNS:
                if loop is not running:
                    _set_running_loop(loop)
                    running = loop
                # Called here and not by the handle, because a schedule has some ten thousands of callbacks.
                try:
                    if handle.context is None:
                        callback(*handle.args)
                    else:
                        handle.context.run(callback, *handle.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    loop.call_exception_handler({"message": f"exception in {callback!r}", "exception": error})


class ProcessLoop(_Loop):
    """The event loop of one process.

    Attributes:
        life: what the process does.
        missed: what should have run while the process was frozen.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._add = world.add
        self.life = Life.RUNS
        self.missed: list[Handle] = []

    def __repr__(self) -> str:
        return f"the process {self.name}"

    def freeze(self) -> None:
        """Stop the process, as SIGSTOP does."""
        if self.life is Life.RUNS:
            self.life = Life.FROZEN

    def thaw(self) -> None:
        """Let it go on: what was due meanwhile runs at once."""
        if self.life is Life.FROZEN:
            self.life = Life.RUNS
            for handle in self.missed:
                self.world.add(handle)
            self.missed = []

    def kill(self) -> None:
        """End the process from one instant to the next."""
        self.life = Life.DEAD
        self.missed = []

    # What asyncio and the product call

    def time(self) -> float:
        return self.world.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Any:
        handle = Handle(self, self.world.now, callback, args, context)
        self._add(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Any:
        # Simulated threads run while the loop waits for them.
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Any:
        handle = Handle(self, when, callback, args, context)
        self.world.add_timer(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_at(self.world.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        future = NumberedFuture(loop=self)
        future.number = self.world.number()
        return future

    def create_task(self, coro: Any, **options: Any) -> Any:
        return NumberedTask(self.world.number(), coro, loop=self, **options)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.life is Life.DEAD or "Task was destroyed but it is pending" in context.get("message", ""):
            # The tasks of a process that was killed.
            return
        error = context.get("exception")
        self.world.errors.append(f"{self.world.now:.3f} {self}: {context.get('message')}: {error!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
