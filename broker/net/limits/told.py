"""Log lines about peers, of which each address causes only a few of a kind: nobody must be able to fill the log."""

from __future__ import annotations

import logging
from collections import OrderedDict

from broker.net.sockets.event_loop import Clock

PAUSE_S = 10.0
"""The time in which an address causes `LINES` lines at most."""
LINES = 5
MAX_KEPT = 1000
"""The most addresses, with the kinds of lines, that are remembered."""


class Told:
    """Writes warnings about addresses, at most `LINES` of each kind in `PAUSE_S`.

    The first line after a pause says how many were left out.

    Args:
        clock: the time.
        logger: writes the lines.
    """

    def __init__(self, clock: Clock, logger: logging.Logger) -> None:
        self._clock = clock
        self._logger = logger
        self._lines: OrderedDict[tuple[str, str], _Lines] = OrderedDict()
        """The lines by address and kind, the ones whose time began first first."""

    def warn(self, address: str, kind: str, message: str, *args: object) -> None:
        """Write a warning about an address, or count it if there were too many of its kind."""
        now = self._clock.time()
        key = address, kind
        lines = self._lines.get(key)
        if lines is None or now - lines.since >= PAUSE_S:
            omitted = 0 if lines is None else lines.omitted
            if omitted:
                message = f"{message} (and %d more such lines about this address since then)"
                args = (*args, omitted)
            self._lines.pop(key, None)
            lines = self._lines[key] = _Lines(now)
            if len(self._lines) > MAX_KEPT:
                self._lines.popitem(last=False)
        if lines.count >= LINES:
            lines.omitted += 1
            return
        lines.count += 1
        self._logger.warning(message, *args)


class _Lines:
    """The lines about an address in the present period."""

    __slots__ = ("count", "omitted", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = 0
        self.omitted = 0
