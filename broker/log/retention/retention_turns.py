"""Applying retention to many logs, in turns: each takes the event loop's thread for a short time only."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator
from itertools import islice

from broker.log.log import Log
from broker.log.log_manager import LogManager
from broker.log.read.segment_times import Unread, read_unread
from broker.log.retention.retention_policy import unread
from broker.log.segment.segment import Segment
from broker.system.workers import Workers

LOGS_AT_ONCE = 64
"""The number of logs that are looked at in one turn."""
REMOVED_AT_ONCE = 100
"""The number of segments that are removed in one turn: about 20 ms, as each has several files to rename."""


async def retain(logs: LogManager, workers: Workers, now_ms: int, chosen: Iterable[Log] | None = None) -> None:
    """Apply retention as `run_retention` does; workers read the largest timestamps that are not known yet."""
    remaining = iter(list(logs) if chosen is None else chosen)
    while group := list(islice(remaining, LOGS_AT_ONCE)):
        await _read_timestamps(logs, workers, now_ms, group)
        for _ in run_retention(logs, now_ms, group):
            await asyncio.sleep(0)


async def _read_timestamps(logs: LogManager, workers: Workers, now_ms: int, group: list[Log]) -> None:
    """Have workers read what retention of these logs will ask for."""

    def look(unreadable: Container[Segment]) -> list[Unread]:
        usable = [log for log in group if _is_usable(logs, log)]
        return [unread(log.segments, log.config, now_ms, logs.retention_policy, unreadable) for log in usable]

    await read_unread(workers, look)


def run_retention(logs: LogManager, now_ms: int, chosen: Iterable[Log] | None = None) -> Iterator[int]:
    """Apply retention to every log, or to the `chosen` ones, as far as they are in service and not being cleaned.

    Yield where others should have their turn: the number of segments removed in this one.
    """
    for number, log in enumerate(list(logs) if chosen is None else chosen, 1):
        gone = REMOVED_AT_ONCE
        while gone == REMOVED_AT_ONCE and _is_usable(logs, log):
            gone = logs.apply_retention(log, now_ms, REMOVED_AT_ONCE)
            if gone:
                yield gone
        if number % LOGS_AT_ONCE == 0:
            yield 0


def _is_usable(logs: LogManager, log: Log) -> bool:
    return logs.holds(log) and log.offline is None and not log.being_cleaned
