"""Reading what may never come, while a signal may come at any time."""

from __future__ import annotations

import os
import select
import signal

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
    """The end to wait for of the pipe that tells of signals."""
    global _wakeup
    if _wakeup is None:
        _wakeup = os.pipe()
        for end in _wakeup:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(_wakeup[1], warn_on_full_buffer=False)
    return _wakeup[0]
