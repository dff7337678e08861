"""Signals that end a command, also while it waits for input, but not between printing records and counting them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

SAME_S = 1.0

_wakeup: tuple[int, int] | None = None


def read_interruptibly(descriptor: int, size: int) -> bytes:
    """`os.read`, which Python's signal handlers interrupt without fail; the main thread's only.

    A signal that comes just before the system call begins does not interrupt it: its handler runs once the read
    returns, which for a terminal may be never. So the wait is for a pipe as well, to which the interpreter writes
    whenever a signal comes.
    """
    wakeup = _wakeup_pipe()
    while True:
        ready, _, _ = select.select([descriptor, wakeup], [], [])
        if wakeup in ready:
            # The handlers have run when this returns, and most of them raise.
            os.read(wakeup, 64)
        if descriptor in ready:
            return os.read(descriptor, size)


def _wakeup_pipe() -> int:
    """Return the reading end of the pipe that the interpreter writes to when a signal comes."""
    global _wakeup
    if _wakeup is None:
        _wakeup = os.pipe()
        for end in _wakeup:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(_wakeup[1], warn_on_full_buffer=False)
    return _wakeup[0]


class InterruptedCommand(BaseException):
    """A signal asked the command to end."""


class Interruption:
    """SIGINT and SIGTERM end the command, but not between printing records and counting them.

    The first signal then waits for that; a second one does not, nor for the end to be made in good order. What comes
    within `SAME_S` of the first is no second one: `timeout` of the GNU tools sends its signal to the command and to its
    process group.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self._held = False
        self._first = 0.0

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, number: int, frame: object) -> None:
        now = time.monotonic()
        again = self.exit_code != 0
        if again and now - self._first < SAME_S:
            return
        if not again:
            self._first = now
        self.exit_code = 128 + number
        if again or not self._held:
            raise InterruptedCommand

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the first signal back until the block ends."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.exit_code:
            raise InterruptedCommand
