"""Measure how long requests keep the event loop busy, for the quota `request_percentage` (KIP-124).

The time that a request waits, for a worker or in a purgatory, does not count: the loop serves other requests then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any


class LoopTime:
    """The seconds that one request has run on the loop. The clock runs from the start.

    Args:
        seconds: the clock.
    """

    __slots__ = ("_seconds", "_since", "_spent")

    def __init__(self, began: float, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._since: float | None = began
        self._spent = 0.0

    @property
    def seconds(self) -> float:
        return self._spent if self._since is None else self._spent + self._seconds() - self._since

    def resume(self) -> None:
        self._since = self._seconds()

    def pause(self) -> None:
        self._spent, self._since = self.seconds, None


async def counted(work: Awaitable[None], time: LoopTime) -> None:
    """Run `work` and count the time of its steps, without the waits between them."""
    await _Counted(work, time)


class _Counted:
    __slots__ = ("_time", "_work")

    def __init__(self, work: Awaitable[None], time: LoopTime) -> None:
        self._work = work
        self._time = time

    def __await__(self) -> Generator[Any, Any, None]:
        steps, time = self._work.__await__(), self._time
        step: Callable[[], Any] = partial(next, steps)
        while True:
            time.resume()
            try:
                waited_for = step()
            except StopIteration:
                return
            finally:
                time.pause()
            try:
                value = yield waited_for
            except BaseException as error:  # for the work to see, a cancellation among them
                step = partial(steps.throw, error)
            else:
                step = partial(steps.send, value) if value is not None else partial(next, steps)
