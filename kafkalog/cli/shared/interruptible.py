"""Signals that end a command, also while it waits for input, but not between printing and counting records."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kafkalog.signalled import SignalledEvent

SAME_S = 1.0
ENDING_S = 5.0
"""The time for which a process that was told to end may wait for clusters that do not answer."""

_wakeup: tuple[int, int] | None = None


def read_interruptibly(descriptor: int, size: int) -> bytes:
    """Call `os.read` so that signal handlers always interrupt it; for the main thread only.

    A signal that comes just before the system call begins does not interrupt it: its handler runs once the read
    returns, which for a terminal may be never. So this waits for a pipe as well, to which the interpreter writes
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


def set_by_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set, for a command that goes on until then."""
    return SignalledEvent((signal.SIGINT, signal.SIGTERM))


@contextmanager
def ended_soon(stop: threading.Event, seconds: float = ENDING_S) -> Iterator[None]:
    """End the process with exit code 0 if the block does not end within `seconds` after `stop` was set.

    For commands that lose nothing when they are killed. Their calls may wait for a cluster that is down for minutes, on
    several threads.
    """
    done = threading.Event()

    def watch() -> None:
        stop.wait()
        if not done.wait(seconds):
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(0)

    threading.Thread(target=watch, name="ended-soon", daemon=True).start()
    try:
        yield
    finally:
        done.set()


class InterruptedCommand(BaseException):
    """A signal asked the command to end."""


class Interruption:
    """SIGINT and SIGTERM end the command, but not between printing and counting records.

    The first signal then waits for the end of that block. A second one ends the command at once, even during its
    clean-up. Further signals within `SAME_S` of the first do not count: `timeout` of the GNU tools sends its signal to
    the command and to its process group.
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
