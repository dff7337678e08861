"""The streaming reader: what the planner process of a query asks, batch after batch.

PySpark runs one such process a query. It ends the query at any exception, never repeats a call, gives no checkpoint
directory and compares offsets as JSON text. Therefore: calls to brokers have deadlines and are repeated inside
(``discovery``), construction never fails, ``commit`` does nothing (Spark's offset log is the only truth, and it calls
``commit`` for a batch only while it plans the next), ``stop`` need not be called, and nothing new to read is said by
returning the start itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from . import offsets
from .data_loss import reporter
from .discovery import Discovery
from .offsets import Offsets
from .options import EARLIEST, Limit, SourceOptions
from .schema import columns_of
from .source import read_task, tasks


class KafkalogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Offsets are documents as ``spark_kafkalog.offsets`` describes them."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._discovery = Discovery(options)
        self._initial: Offsets | None = None
        self._latest: Offsets | None = None
        self._target: Offsets | None = None
        """Where a query with Trigger.AvailableNow ends."""
        self._last_trigger = float("-inf")

    @cached_property
    def _start(self) -> Limit:
        """Checks that wait until here: an exception in the constructor would be hidden by the planner's clean-up."""
        columns_of(self._schema)
        return self._options.stream_start()

    # Asked by the planner

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options, _ = self._options, self._start
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._discovery.latest({})

    def initialOffset(self) -> offsets.OffsetJson:  # noqa: N802
        """The same answer however often it is asked; see ``offsets`` for what happens after a crash."""
        if self._initial is None:
            assigned = self._discovery.assigned()
            self._initial = offsets.resolve(self._start, assigned, self._discovery.lookup, starting=True)
        return offsets.to_json(self._initial)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        position = offsets.from_json(start)
        self._latest = self._discovery.latest(position)
        end = self._end(position, limit)
        first = position == self._initial
        if end == position and (not first or offsets.initial_of(start) is not None):
            return start
        document = offsets.to_json(end)
        return offsets.with_initial(document, position) if first else document

    def reportLatestOffset(self) -> offsets.OffsetJson | None:  # noqa: N802
        return None if self._latest is None else offsets.to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        initial = offsets.initial_of(end)
        ranges = offsets.stream_ranges(
            offsets.from_json(start) if initial is None else initial,
            offsets.from_json(end),
            self._discovery.lookup,
            reporter(self._options.fail_on_data_loss),
        )
        return tasks(ranges, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark's offset log is the only truth, and the last batch of a run is never committed to a source."""

    def stop(self) -> None:
        self._discovery.close()

    # Asked on executors

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(partition, self._options, self._schema)

    # Inside

    def _end(self, position: Offsets, limit: ReadLimit) -> Offsets:
        """Where the next batch ends: within what there is, or within the target of Trigger.AvailableNow."""
        assert self._latest is not None
        available = self._latest if self._target is None else self._target
        if self._target is not None:
            offsets.check_available_now(available, self._target, self._latest)
        if isinstance(limit, ReadAllAvailable):
            return available
        least = self._options.min_offsets_per_trigger
        # With Trigger.AvailableNow there will be no more to wait for.
        if least is not None and self._target is None:
            now = time.monotonic()
            since = now - self._last_trigger
            if offsets.is_held_back(position, available, least, since, self._options.max_trigger_delay_s):
                return position
            self._last_trigger = now
        if not isinstance(limit, ReadMaxRows):
            return available
        new = available.keys() - position.keys()
        earliest_of_new = self._discovery.lookup(dict.fromkeys(new, EARLIEST))
        return offsets.rate_limited(position, available, earliest_of_new, limit.max_rows)
