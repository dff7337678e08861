"""Search a log by time, all of it on this thread."""

from __future__ import annotations

from broker.log.log import Log
from broker.log.read.log_reader import MAX_TIMESTAMP
from broker.log.read.time_search import TimestampOffset


def found_by_time(log: Log, timestamp: int) -> TimestampOffset | None:
    """Return the first record at or after `timestamp`; None if there is none."""
    return next((found for look in log.time_search(timestamp) if (found := look.find()) is not None), None)


def found_latest(log: Log) -> TimestampOffset | None:
    """Return the first record with the largest timestamp of the log; None if no record has one."""
    return found_by_time(log, MAX_TIMESTAMP)
