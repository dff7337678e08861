"""Applying retention to many logs, in turns: each takes the event loop's thread for a short time only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.log.log import Log
from broker.log.log_manager import LogManager

LOGS_AT_ONCE = 64
"""The number of logs that are looked at in one turn."""
REMOVED_AT_ONCE = 100
"""The number of segments that are removed in one turn: about 20 ms, as each has several files to rename."""


def run_retention(logs: LogManager, now_ms: int, chosen: Iterable[Log] | None = None) -> Iterator[int]:
    """Apply retention to every log, or to the `chosen` ones, as far as they are in service and not being cleaned.

    Yield where others should have their turn: the number of segments removed in this one.
    """
    for number, log in enumerate(list(logs) if chosen is None else chosen, 1):
        gone = REMOVED_AT_ONCE
        while gone == REMOVED_AT_ONCE and logs.holds(log) and log.offline is None and not log.being_cleaned:
            gone = logs.apply_retention(log, now_ms, REMOVED_AT_ONCE)
            if gone:
                yield gone
        if number % LOGS_AT_ONCE == 0:
            yield 0
