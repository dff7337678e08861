"""Set an event from the handler of a signal.

A handler runs in the main thread, between any two of its instructions. If the main thread is within `Event.wait` or
`Event.set` at that moment, it holds the event's lock, and a handler that calls `Event.set` waits for that lock for
ever. So the handler only puts something into a `SimpleQueue`, which handlers may do, and a thread sets the event.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue


class SignalledEvent(threading.Event):
    """An event whose method `handle` may be the handler of signals.

    `close` ends its thread, which otherwise ends with the process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._came: SimpleQueue[bool] = SimpleQueue()
        threading.Thread(target=self._pass_on, name="signalled", daemon=True).start()

    def handle(self, number: int, frame: object) -> None:
        """Have the event set, soon."""
        self._came.put(True)

    def close(self) -> None:
        """End the thread. Signals do not set the event any more."""
        self._came.put(False)

    def _pass_on(self) -> None:
        if self._came.get():
            self.set()
