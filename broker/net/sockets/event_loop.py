"""The types of what connections use of an event loop. An asyncio loop has them; a simulation has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time, and calls at a later time."""

    def time(self) -> float:
        """Return the seconds of a monotonic clock."""

    def call_soon(self, callback: Callable[[], None], /) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...


class Poller(Protocol):
    """Calls back in each round of the loop while a descriptor is ready."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> object: ...

    def remove_writer(self, fd: int, /) -> object: ...
