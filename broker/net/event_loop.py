"""What connections need of an event loop. An asyncio loop has it; a simulation brings its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that lies ahead."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time, and calls at a later time."""

    def time(self) -> float:
        """Return seconds that go on evenly."""

    def call_soon(self, callback: Callable[[], None], /) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...


class Poller(Protocol):
    """Calls back while a descriptor is ready, each time round the loop."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> object: ...

    def remove_writer(self, fd: int, /) -> object: ...
