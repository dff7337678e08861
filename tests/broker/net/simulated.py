"""An event loop whose events happen in an order that a seed decides. Its descriptors may be real."""

from __future__ import annotations

import heapq
import random
import select
from collections.abc import Callable

from tests.broker.net.timers import Timers


class SimulatedLoop(Timers):
    """A loop that implements `Clock`, `Poller` and `RunOnWorker`. Everything happens in `step`."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(1000.0)
        self._chance = chance
        self._work: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        del self.readers[fd]

    def add_writer(self, fd: int, callback: Callable[[], None]) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> None:
        del self.writers[fd]

    def run_on_worker(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self._work.append((work, done))

    def step(self) -> None:
        """Run one of the events that may come next, if there is one."""
        choices: list[Callable[[], None]] = []
        if self._soon:
            choices.append(self._run_soon)
        if self._timers:
            choices.append(self._run_timer)
        if self._work:
            choices.append(self._run_work)
        choices.extend(self._ready())
        if choices:
            self._chance.choice(choices)()

    def settle(self) -> None:
        """Run all pending events, except those that wait for descriptors."""
        while self._soon or self._timers or self._work:
            for run, waiting in ((self._run_soon, self._soon), (self._run_timer, self._timers)):
                if waiting:
                    run()
            if self._work:
                self._run_work()

    def _ready(self) -> list[Callable[[], None]]:
        if not self.readers and not self.writers:
            return []
        readable, writable, _ = select.select(list(self.readers), list(self.writers), [], 0)
        return [self.readers[fd] for fd in readable] + [self.writers[fd] for fd in writable]

    def _run_soon(self) -> None:
        self._soon.popleft()()

    def _run_timer(self) -> None:
        when, _, timer = heapq.heappop(self._timers)
        self.now = max(self.now, when)
        if timer.callback is not None:
            timer.callback()

    def _run_work(self) -> None:
        work, done = self._work.pop(self._chance.randrange(len(self._work)))
        error: BaseException | None = None
        try:
            work()
        except OSError as failed:
            error = failed
        # The loop hears of it later.
        self.call_soon(lambda: done(error))
