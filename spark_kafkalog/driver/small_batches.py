"""Small micro-batches, read in the planner instead of in tasks.

A task in Python costs PySpark tens of milliseconds of processor time before and after the records, and there is one a
partition. Where a micro-batch holds few records that is most of its time. PySpark has a way around it, made for its
``SimpleDataSourceStreamReader``: a planner that has the rows of a batch already sends them to the JVM with the plan, as
Arrow, and no Python runs in the tasks (``compat.prefetched``). The reader of a stream takes that way for batches of at
most ``smallBatchBytes`` and ROWS records.

Nothing depends on it. The rows are those of the offsets in the plan; where they cannot be had at once and whole (a
loss, a leader that moves, records that are large after all) the batch is read by tasks, which wait, try again and
report. The JVM reads a batch by tasks, too, where it has lost the rows.

All rows of such a batch are in one partition. That would make the slow work of a query slower, so that batches which
take long are left to tasks: there is no latency to save.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.client.errors import ClientError, KafkaError
from kafkalog.client.types import TopicPartition
from kafkalog.records.errors import RecordsError
from spark_kafkalog.compat.prefetched import WRAPPER
from spark_kafkalog.offsets import OffsetRange, Offsets
from spark_kafkalog.options.source_options import SourceOptions

from .discovery import Discovery

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

ROWS = 10_000
"""A batch of more offsets is not small, whatever its bytes."""
ROUNDS = 4
"""Fetches of a batch: a leader may leave out what a response has no room for."""
QUICK_S = 0.5
"""A batch that takes longer, from its plan to the next question for offsets, has no use for this."""
SLOW_BATCHES = 4
"""So many slow batches on end: a query's first ones always are."""


class SmallBatches:
    """Reads the small ones of a query's batches. Belongs to one planner."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], discovery: Discovery) -> None:
        self._options = options
        self._columns = columns
        self._discovery = discovery
        # Who asks for a number of partitions shall have it.
        asks_for_tasks = options.min_partitions or options.max_records_per_partition or options.max_bytes_per_partition
        self._limit = 0 if asks_for_tasks or WRAPPER is None else options.small_batch_bytes
        self._density = 0.0
        """Bytes of Arrow an offset, of the last batch that was read."""
        self._planned: float | None = None
        self._times: deque[float] = deque(maxlen=SLOW_BATCHES)

    def asked(self) -> None:
        """Spark asks for the next offsets: the batch before has been processed."""
        if self._planned is not None:
            self._times.append(time.monotonic() - self._planned)
            self._planned = None

    def is_small(self, ranges: Sequence[OffsetRange]) -> bool:
        """Whether a batch of these ranges is worth the try."""
        offsets = sum(each.size for each in ranges)
        if not 0 < offsets <= ROWS or offsets * self._density > self._limit or self._limit == 0:
            return False
        return len(self._times) < SLOW_BATCHES or min(self._times) <= QUICK_S

    def read(self, ranges: Sequence[OffsetRange], topics: Mapping[str, str]) -> list[pa.RecordBatch] | None:
        """The records of a batch; None where tasks have to read it.

        ``topics``: the marks of the topics that the ranges are of.
        """
        if not self.is_small(ranges):
            return None
        try:
            found = self._read(ranges)
            # Looked at before and after: what was read in between is of the topics that were planned.
            if found is not None and self._discovery.assigned().topics != topics:
                found = None
        except (ClientError, KafkaError, RecordsError, OSError) as error:
            _log.info("a small batch is left to tasks: %s", error)
            found = None
        if found is not None:
            self._planned = time.monotonic()
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
                batches, behind = self._decode(left[tp], chunk.records, chunk.aborted)
                found[tp] += batches
                size += sum(each.nbytes for each in batches)
                offsets += behind - asked[tp]
                left[tp] = left[tp]._replace(start=behind)
            self._density = size / max(offsets, 1)
            if size > self._limit:
                return None
            left = {tp: each for tp, each in left.items() if each.size}
            if not left:
                return [batch for batches in found.values() for batch in batches]
        return None

    def _decode(
        self, wanted: OffsetRange, records: memoryview, aborted: list[tuple[int, int]]
    ) -> tuple[list[pa.RecordBatch], int]:
        # Slow to import, and a query whose batches are large never needs it here.
        from kafkalog.records.arrow import decode_arrow

        batches, position = [], wanted.start
        while position < wanted.end:
            batch, behind = decode_arrow(
                records,
                topic=wanted.tp.topic,
                partition=wanted.tp.partition,
                start=position,
                end=wanted.end,
                columns=self._columns,
                aborted=aborted,
                check_crc=self._options.client.check_crcs,
                max_decompressed=max(self._limit, 1 << 20),
            )
            if batch is not None and batch.num_rows:
                batches.append(batch)
            if behind <= position:
                break
            position = behind
        return batches, position
