"""The streaming reader, which the planner process of a query calls batch after batch.

PySpark runs one such process a query. It ends the query at any exception, never repeats a call, gives no checkpoint
directory and compares offsets as JSON text. Therefore:

- Calls to brokers have deadlines and are retried here (`discovery`).
- The constructor never fails.
- `commit` does nothing: Spark's offset log is the only truth, and Spark calls `commit` for a batch only while it
  plans the next one.
- `stop` need not be called.
- If there is nothing new to read, `latestOffset` returns the start itself.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets
from spark_kafkalog.brief import EXPECTED, brief, brief_rows
from spark_kafkalog.columns import columns_of
from spark_kafkalog.compat.streams.prefetched import RowsInPlanner
from spark_kafkalog.data_loss import reporter
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.driver.group_commits import GroupProgress
from spark_kafkalog.driver.small_batches import SmallBatches
from spark_kafkalog.executor.tasks import SmallBatch, read_task, tasks
from spark_kafkalog.offsets import Offsets, Position
from spark_kafkalog.options.limits import EARLIEST, Limit
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.options.subscription import named_topics
from spark_kafkalog.plan import admission, byte_sizes
from spark_kafkalog.plan.ranges import stream_ranges
from spark_kafkalog.plan.start_and_end import resolve


class KafkalogStreamReader(RowsInPlanner, SupportsTriggerAvailableNow):
    """Reads a streaming query. Offsets are documents as `spark_kafkalog.offsets` describes them."""

    def __init__(self, options: SourceOptions, schema: StructType, discovery: Discovery | None = None) -> None:
        self._options = options
        self._schema = schema
        self._discovery = Discovery(options) if discovery is None else discovery
        self._progress = GroupProgress(options)
        self._initial: Position | None = None
        self._no_start: Exception | None = None
        """The reason why `initialOffset` has found no start."""
        self._latest: Position | None = None
        self._available_now = False
        self._target: Position | None = None
        """The end of a query with Trigger.AvailableNow."""
        self._profiles: Mapping[TopicPartition, byte_sizes.Profile] = {}
        self._last_trigger = float("-inf")

    @cached_property
    def _start(self) -> Limit:
        """The start. It is checked late, because the planner's clean-up would hide an exception in the constructor."""
        columns_of(self._schema)
        return self._options.stream_start()

    @cached_property
    def _small(self) -> SmallBatches:
        return SmallBatches(self._options, columns_of(self._schema), self._discovery)

    # Asked by the planner

    @brief
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options, _ = self._options, self._start
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Switch to Trigger.AvailableNow. The first `latestOffset` sets the target, as in Spark's source.

        It comes after `initialOffset`. A target set here would lie before a start at "latest" if records are written in
        between.
        """
        self._available_now = True

    @brief
    def initialOffset(self) -> offsets.OffsetJson:  # noqa: N802
        """Return the start of the query, the same in every call; see `offsets` for a start after a crash.

        Spark asks for it also to repeat the first batch, whose end has the start. A topic may have changed since, so
        that the options no longer tell a start. So the error is raised by the next call, and only if that needs it.
        """
        if self._initial is None:
            try:
                partitions, topics = self._discovery.assigned()
                found = resolve(self._start, partitions, self._discovery.lookup, starting=True)
            except EXPECTED as error:
                self._no_start = error
                return {}
            self._initial = Position(found, topics)
        self._no_start = None
        return offsets.to_json(self._initial)

    @brief
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._small.asked()
        position = offsets.position_of(start)
        self._check_start(position)
        if self._initial is None or position.offsets != self._initial.offsets:
            self._progress.processed(position.offsets)
        if self._target is not None and position.offsets == self._target.offsets:
            # All is read. What has become of the topics since does not matter, and may contradict the target.
            return start
        self._latest = self._discovery.latest(position, self._may_be_gone(position))
        if self._available_now and self._target is None:
            self._target = self._latest
        end = self._end(position.surviving(self._latest), limit)
        if end is None:
            return start
        first = self._initial is not None and position.offsets == self._initial.offsets
        unsaid = first and offsets.initial_of(start) is None
        if end == position.offsets and not unsaid and not position.recreated(self._latest):
            return start
        document = offsets.to_json(Position(end, self._latest.topics))
        return offsets.with_initial(document, position) if first else document

    def reportLatestOffset(self) -> offsets.OffsetJson | None:  # noqa: N802
        return None if self._latest is None else offsets.to_json(self._latest.offsets)

    @brief
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, until = offsets.initial_of(end), offsets.position_of(end)
        if begin is None:
            begin = offsets.position_of(start)
            self._check_start(begin)
        ranges = stream_ranges(
            begin,
            until,
            self._discovery.lookup,
            reporter(self._options.fail_on_data_loss),
        )
        self.rows = self._small.read(ranges, until.topics)
        if self.rows is not None:
            return [SmallBatch(tasks(ranges, until.topics, self._options))]
        measure = byte_sizes.measure_for(self._options, ranges, self._discovery.densities, self._profiles)
        return tasks(ranges, until.topics, self._options, measure)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the offset log is the only truth, and Spark skips a run's last batch (`group_commits`)."""

    def stop(self) -> None:
        self._progress.close()
        self._discovery.close()

    # Asked on executors

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return brief_rows(read_task(partition, self._options, self._schema))

    # Inside

    def _check_start(self, start: Position) -> None:
        """Raise the error of `initialOffset` if a batch is to begin where that has found no start."""
        if self._no_start is not None and not start.offsets:
            raise self._no_start

    def _may_be_gone(self, position: Position) -> Container[str]:
        """Return the topics of the query that need not exist any more.

        Those that were read are reported as data loss when the batch is planned. With `failOnDataLoss=false` others
        may have been reported in an earlier run.
        """
        read = {tp.topic for tp in position.offsets}
        return read if self._options.fail_on_data_loss else read.union(named_topics(self._options.strategy))

    def _end(self, position: Offsets, limit: ReadLimit) -> Offsets | None:
        """Return the end of the next batch, within the available records or the target of Trigger.AvailableNow.

        None if the batch is held back until more records have arrived.
        """
        assert self._latest is not None
        available = self._latest.offsets
        if self._target is not None:
            available = self._target.offsets
            admission.check_available_now(self._target, self._latest)
        if isinstance(limit, ReadAllAvailable):
            return available
        least = self._options.min_offsets_per_trigger
        # With Trigger.AvailableNow, no more records will come.
        if least is not None and self._target is None:
            now = time.monotonic()
            since = now - self._last_trigger
            if admission.is_held_back(position, available, least, since, self._options.max_trigger_delay_s):
                return None
            self._last_trigger = now
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes_per_trigger
        if not isinstance(limit, ReadMaxRows) and most_bytes is None:
            return available
        new = available.keys() - position.keys()
        earliest_of_new = self._discovery.lookup(dict.fromkeys(new, EARLIEST))
        end: Offsets = available
        if isinstance(limit, ReadMaxRows):
            end = admission.rate_limited(position, available, earliest_of_new, limit.max_rows)
        if most_bytes is not None:
            begins = {tp: offset for tp, offset in {**position, **earliest_of_new}.items() if offset <= end.get(tp, -1)}
            within, profiles = byte_sizes.limited(
                begins, {tp: end[tp] for tp in begins}, most_bytes, self._discovery.densities, self._profiles
            )
            self._profiles = {**self._profiles, **profiles}
            end = {**end, **within}
        return end
