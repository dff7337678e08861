"""Small micro-batches, read in the planner instead of in tasks.

A Python task costs PySpark tens of milliseconds of processor time before and after the records, and each partition
takes a task. In a micro-batch of few records that is most of the time. PySpark has a way around it, made for its
`SimpleDataSourceStreamReader`: a planner that already has the rows of a batch sends them to the JVM with the plan, as
Arrow, and no Python runs in the tasks (`compat.streams.prefetched`). The stream reader does the same for batches of at
most `smallBatchBytes` and ROWS records.

Nothing depends on it. The rows are exactly those of the offsets in the plan. If they cannot be read completely at once
(lost records, a leader that moves, records larger than expected), tasks read the batch: they wait, retry and report.
The JVM also falls back to tasks if it has lost the rows.

All rows of such a batch are in one partition, which would slow down expensive queries. So if batches take long, tasks
read some for comparison, and all if they are quicker (`pace`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.client.errors import ClientError, KafkaError
from kafkalog.client.types import TopicPartition
from kafkalog.records.errors import RecordsError, RecordTooLargeError
from spark_kafkalog.compat.streams.prefetched import WRAPPER
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.driver.pace import Pace
from spark_kafkalog.offsets import OffsetRange, Offsets
from spark_kafkalog.options.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

ROWS = 10_000
"""A batch of more offsets than this is not small, whatever its bytes."""
ROUNDS = 4
"""Fetches for one batch: a leader leaves out partitions that do not fit in a response."""

TRY_AFTER = 10
"""After this many batches that are expected to be too large, one is read all the same: records may be smaller now."""
MOST_DOUBLINGS = 6
"""The number of batches between such tries doubles with each try in vain, this many times at most."""


class SmallBatches:
    """Reads the small batches of a query. Belongs to one planner."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], discovery: Discovery) -> None:
        self._options = options
        self._columns = columns
        self._discovery = discovery
        # A user who sets the number or size of partitions gets them. One who sets a rack wants to read from followers,
        # and the planner asks leaders only.
        asks_for_tasks = (
            options.min_partitions
            or options.max_records_per_partition
            or options.max_bytes_per_partition
            or options.client_rack
        )
        self._limit = 0 if asks_for_tasks or WRAPPER is None else options.small_batch_bytes
        self._density = 0.0
        """Bytes of Arrow per offset in the last batch that was read; infinite if a record batch was too large."""
        self._left_out = 0
        """Batches since the last one that was read."""
        self._in_vain = 0
        """Reads in a row that have found too many bytes."""
        self._pace = Pace()
        self._begun: float | None = None
        """The time when the plan of the present batch began; None if the batch is not a small one."""
        self._by_tasks = False
        """True if tasks read it for comparison."""

    def asked(self) -> None:
        """Note that Spark asks for the next offsets, so the batch before has been processed."""
        if self._begun is not None:
            self._pace.took(time.monotonic() - self._begun, by_tasks=self._by_tasks)
            self._begun = None

    def is_small(self, ranges: Sequence[OffsetRange]) -> bool:
        """Return whether a batch of these ranges is expected to be small."""
        offsets = sum(each.size for each in ranges)
        if not 0 < offsets <= ROWS or self._limit == 0:
            return False
        patience = TRY_AFTER << min(max(self._in_vain - 1, 0), MOST_DOUBLINGS)
        return offsets * self._density <= self._limit or self._left_out >= patience

    def read(self, ranges: Sequence[OffsetRange], topics: Mapping[str, str]) -> list[pa.RecordBatch] | None:
        """Read the records of a batch; None if tasks have to read it.

        `topics` has the marks of the ranges' topics.
        """
        self._begun = None
        if not self.is_small(ranges):
            self._left_out += 1
            return None
        begun, self._by_tasks = time.monotonic(), self._pace.wants_tasks
        if self._by_tasks:
            self._begun = begun
            return None
        try:
            found = self._read(ranges)
            # If ids are the same before and after, the records read in between are of the planned topics. The query may
            # name further topics, of which it reads nothing.
            if found is not None:
                now = self._discovery.assigned(self._discovery.gone).topics
                found = found if topics.items() <= now.items() else None
        except RecordTooLargeError as error:
            logger.info("a small batch is left to tasks: %s", error)
            # Any part of such a record batch is too large, however few records of it are wanted.
            self._density = math.inf
            self._was_in_vain()
            found = None
        except (ClientError, KafkaError, RecordsError, OSError) as error:
            logger.info("a small batch is left to tasks: %s", error)
            found = None
        if found is not None:
            self._begun = begun
        return found

    def _read(self, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch] | None:
        left = {each.tp: each for each in ranges}
        found: dict[TopicPartition, list[pa.RecordBatch]] = {each.tp: [] for each in ranges}
        offsets = size = 0
        for _ in range(ROUNDS):
            asked: Offsets = {tp: each.start for tp, each in left.items()}
            for tp, chunk in self._discovery.records(asked, self._limit).items():
                if chunk.log_start_offset > asked[tp]:
                    return None
                batches, behind = self._decode(left[tp], chunk.records, chunk.aborted, self._limit - size)
                found[tp] += batches
                size += sum(each.nbytes for each in batches)
                offsets += behind - asked[tp]
                left[tp] = left[tp]._replace(start=behind)
                self._density = size / max(offsets, 1)
                if size > self._limit:
                    self._was_in_vain()
                    return None
            left = {tp: each for tp, each in left.items() if each.size}
            if not left:
                self._left_out = self._in_vain = 0
                return [batch for batches in found.values() for batch in batches]
        return None

    def _was_in_vain(self) -> None:
        """Note that too many bytes were found."""
        self._left_out, self._in_vain = 0, self._in_vain + 1

    def _decode(
        self, wanted: OffsetRange, records: memoryview, aborted: list[tuple[int, int]], most: int
    ) -> tuple[list[pa.RecordBatch], int]:
        """Decode the records of a range until they have more than `most` bytes; return them and the offset after."""
        # Slow to import, and a query with large batches never needs it here.
        from kafkalog.records.arrow import decode_arrow

        batches, position, size = [], wanted.start, 0
        while position < wanted.end and size <= most:
            batch, behind = decode_arrow(
                records,
                topic=wanted.tp.topic,
                partition=wanted.tp.partition,
                start=position,
                end=wanted.end,
                columns=self._columns,
                aborted=aborted,
                check_crc=self._options.client.check_crcs,
                max_decompressed=max(most, 1 << 20),
            )
            if batch is not None and batch.num_rows:
                batches.append(batch)
                size += batch.nbytes
            if behind <= position:
                break
            position = behind
        return batches, position
