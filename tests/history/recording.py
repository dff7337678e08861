"""Record a client's side of a history: every event is in its file before the client continues."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

from tests.history.events import Action, Event, Outcome


class Recorder:
    """Write the events of one client. An event survives a SIGKILL after `write` has returned."""

    def __init__(self, client: str, path: Path) -> None:
        self.client = client
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._counts: dict[str, int] = {}

    def event(self, action: Action, outcome: Outcome, **told: str | int) -> Event:
        """Return an event with the current time, not yet written."""
        return Event(time.monotonic_ns(), self.client, action, outcome, **told)  # type: ignore[arg-type]

    def write(self, *events: Event) -> None:
        os.write(self._file, b"".join(event.to_line() for event in events))

    def tell(self, action: Action, outcome: Outcome, **told: str | int) -> None:
        """Write an event with the current time."""
        self.write(self.event(action, outcome, **told))

    def name(self, kind: str) -> str:
        """Return a name that is unique in this history."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{self.client}/{kind}{self._counts[kind]}"


class Ending:
    """The request (SIGTERM) to end."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
