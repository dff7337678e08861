"""Read Arrow batches again and again, as `Consumer.read_arrow` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns that are read by default: those of Spark's Kafka source."""


def read_batches(
    poll: Callable[[float], pa.RecordBatch | None],
    has_partitions: Callable[[], bool],
    longest_pause: float,
    timeout: float | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `poll` returns, until none comes for `timeout` seconds; None: without end.

    The timeout starts again when the first partitions are assigned.

    Args:
        poll: Returns the next batch, or None after a number of seconds.
        has_partitions: Tells whether partitions are assigned.
        longest_pause: The most seconds between two polls; a member of a group must poll regularly.
        timeout: How long to wait for a batch, in seconds.
    """
    from kafkalog.records.kernels import loader

    # On a new machine this compiles. That time must not count as silence of the broker.
    loader.load("reading")
    is_assigned = has_partitions()
    while True:
        quiet = time.monotonic()
        while (batch := poll(_pause(longest_pause, timeout, quiet))) is None:
            if not is_assigned and has_partitions():
                is_assigned, quiet = True, time.monotonic()
            if timeout is not None and time.monotonic() - quiet >= timeout:
                return
        yield batch


def _pause(longest: float, timeout: float | None, since: float) -> float:
    return longest if timeout is None else max(min(longest, since + timeout - time.monotonic()), 0.0)
