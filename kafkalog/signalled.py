"""An event that signals set at once, whatever the main thread does.

Python runs the handler of a signal in the main thread, between two of its instructions. That has two traps for a
handler that calls `Event.set`:

- A signal that comes just before the main thread waits for a lock does not interrupt the wait. The handler runs when
  the lock is free, which may be minutes later.
- If the main thread is within `Event.wait` or `Event.set`, it holds the event's lock, and the handler waits for that
  lock for ever.

So the handler does nothing here. The interpreter itself writes the number of each signal into a pipe as soon as it
comes (`signal.set_wakeup_fd`), and a thread that reads the pipe sets the event.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable

_CLOSING = 0
"""A number in the pipe that is no signal's."""


class SignalledEvent(threading.Event):
    """An event that signals set; only the main thread may make it, and one at a time.

    Until `close`, or the end of the process, the signals have no other effect.

    Args:
        numbers: The signals.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        super().__init__()
        self._numbers = frozenset(numbers)
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._pipe_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._handlers_before = {number: signal.signal(number, _nothing) for number in self._numbers}
        self._thread = threading.Thread(target=self._pass_on, name="signalled", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give the signals the effect that they had before."""
        for number, handler in self._handlers_before.items():
            # None stands for a handler that was not set by Python.
            if handler is not None:
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._pipe_before, warn_on_full_buffer=False)
        os.write(self._writer, bytes([_CLOSING]))
        self._thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def _pass_on(self) -> None:
        while True:
            came = os.read(self._reader, 64)
            if self._numbers.intersection(came):
                self.set()
            if _CLOSING in came:
                return


def _nothing(number: int, frame: object) -> None:
    """Keep the default effect of a signal away."""
