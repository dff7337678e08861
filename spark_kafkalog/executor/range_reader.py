"""One range of offsets as Arrow record batches, on an executor.

A thread fetches the next chunk from the partition's leader while this one is decoded: both release the interpreter's
lock, one in the socket, the other in compiled code. Offsets without a record (transaction markers, aborted or
compacted records) are jumped over. Task, thread and connection end together; what is kept between tasks of a worker
process is what is known about the cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from struct import Struct

import pyarrow as pa

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.fetch.fetch_request import FetchedChunk
from kafkalog.client.fetch.partition_fetcher import PartitionFetcher
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kafkalog.records.arrow import decode_arrow
from spark_kafkalog.data_loss import Condition, reporter
from spark_kafkalog.executor.batch_pieces import Piece, cut
from spark_kafkalog.offsets import topic_mark
from spark_kafkalog.options.limits import EARLIEST, LATEST
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.process_cache import ProcessCache

from . import python_worker

_log = logging.getLogger(__name__)

FETCH_BYTES = 4 << 20
"""Bytes of one fetch, unless ``kafka.max.partition.fetch.bytes`` is set."""
GONE_AFTER_S = 10.0
"""A topic that brokers have not known for so long is deleted. One that has just started may know of none."""

_START = Struct(">qi")

CLUSTERS: ProcessCache[tuple[tuple[str, str], ...], Cluster] = ProcessCache(8, Cluster.close)
"""Clusters by ``kafka.*`` properties, for the tasks of this worker process. Few are kept: they have connections, and a
worker may live through queries of many users, each with a password of its own."""


OnLoss = Callable[[int, int, str], None]
"""Called with the offsets [start, end) that are lost, and why."""


def read_range(
    tp: TopicPartition,
    start: int,
    end: int,
    options: SourceOptions,
    columns: tuple[str, ...],
    *,
    topic: str | None = None,
    on_loss: OnLoss | None = None,
) -> Iterator[pa.RecordBatch]:
    """Records with start <= offset < end, in order, as batches with exactly ``columns``.

    ``topic``: the mark of the topic (``offsets.topic_mark``) that the offsets are of. Those of another topic with this
    name, which was created since, are not theirs: the range is lost.
    ``on_loss`` is called with each loss that does not end the reading.

    Raises DataLossError where records are gone and ``failOnDataLoss`` is set, TimeoutError where the position does not
    move for ``kafkaConsumer.pollTimeoutMs``, and what fetching and decoding raise.
    """
    with (
        python_worker.task(options.keep_freed_memory),
        closing(_RangeReader(tp, start, end, options, on_loss)) as reading,
    ):
        reading.check_topic(topic)
        yield from reading.batches(columns)


def _cluster(options: SourceOptions) -> Cluster:
    return CLUSTERS.get(tuple(sorted(options.properties.items())), lambda: Cluster(options.client))


class _RangeReader:
    """The state of one task: its position, its fetcher, and the fetch under way."""

    def __init__(
        self, tp: TopicPartition, start: int, end: int, options: SourceOptions, on_loss: OnLoss | None = None
    ) -> None:
        self._tp = tp
        self._position = start
        self._end = end
        self._options = options
        self._report = reporter(options.fail_on_data_loss)
        self._on_loss = on_loss
        self._patience_s = min(GONE_AFTER_S, options.poll_timeout_ms / 1000)
        self._cluster = _cluster(options)
        given = "max.partition.fetch.bytes" in options.properties
        self._fetcher = PartitionFetcher(
            self._cluster,
            tp,
            max_bytes=options.client.max_partition_fetch_bytes if given else FETCH_BYTES,
            isolation_level=options.client.isolation_level,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"fetch-{tp}")
        self._under_way: tuple[int, Future[FetchedChunk]] | None = None
        self._waits_since: float | None = None
        """When it was first asked for the position; None where that is not yet. Spark may take its time in between."""

    def check_topic(self, mark: str | None) -> None:
        """Report the range as lost where the topic is not the one that it was planned for."""
        if mark is None:
            return
        self._waits_since = time.monotonic()
        found = None
        while self._position < self._end:
            # What this process knows may be from before the topic was created again.
            self._cluster.forget([self._tp.topic])
            try:
                found = topic_mark(self._cluster.topic(self._tp.topic).topic_id)
                break
            except UnknownTopicOrPartitionError:
                self._lose_if_gone()
        if found not in (mark, None):
            self._lose(self._end, f"topic {self._tp.topic} was deleted and created again")

    def batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        while self._position < self._end:
            chunk = self._take()
            if chunk is None:
                continue
            pieces = cut(chunk.records, self._position)
            if not pieces or pieces[-1].behind <= self._position:
                # There is nothing yet, or nothing but what lies before: no leader answers so for long.
                self._check_progress()
                continue
            behind = pieces[-1].behind
            if behind < self._end:
                self._ask(behind)
            self._check_gap(chunk)
            if chunk.aborted:
                # Which records of an aborted transaction are meant depends on the markers before them in the chunk.
                pieces = [Piece(memoryview(b"".join([piece.records for piece in pieces])), behind)]
            for piece in pieces:
                yield from self._decode(piece, chunk.aborted, columns)
                if self._position >= self._end:
                    return

    def _decode(
        self, piece: Piece, aborted: list[tuple[int, int]], columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        while self._position < min(piece.behind, self._end):
            batch, next_offset = decode_arrow(
                piece.records,
                topic=self._tp.topic,
                partition=self._tp.partition,
                start=self._position,
                end=self._end,
                columns=columns,
                aborted=aborted,
                check_crc=self._options.client.check_crcs,
            )
            if next_offset <= self._position:
                raise AssertionError(f"decoding {self._tp} does not move beyond offset {self._position}")
            self._move(next_offset)
            if batch is not None and batch.num_rows:
                yield batch

    def close(self) -> None:
        """Drop the fetch under way with its connection."""
        self._fetcher.stop()
        self._thread.shutdown(cancel_futures=True)
        self._fetcher.close()

    # Fetching

    def _ask(self, offset: int) -> None:
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        self._under_way = offset, self._thread.submit(self._fetcher.fetch, offset, deadline=deadline)

    def _take(self) -> FetchedChunk | None:
        """The chunk at the position; None where the position had to move first."""
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        is_there = self._under_way is not None and self._under_way[0] == self._position
        if not is_there:
            if self._under_way is not None:
                # It was asked for before the position jumped.
                self._under_way[1].exception()
            self._ask(self._position)
        assert self._under_way is not None
        future, self._under_way = self._under_way[1], None
        try:
            return future.result()
        except ClientTimeoutError:
            # What was asked for in advance may have run out of time while Spark was busy with the rows before.
            if not is_there:
                raise
        except OffsetOutOfRangeError:
            self._skip_lost()
        except UnknownTopicOrPartitionError:
            self._lose_if_gone()
        return None

    def _move(self, offset: int) -> None:
        if offset > self._position:
            self._position = offset
            self._waits_since = None

    def _check_progress(self) -> None:
        """TimeoutError where the position has been waited for too long."""
        assert self._waits_since is not None
        waited_ms = (time.monotonic() - self._waits_since) * 1000
        if waited_ms >= self._options.poll_timeout_ms:
            raise TimeoutError(
                f"Cannot fetch record for offset {self._position} of {self._tp} in {self._options.poll_timeout_ms} "
                f"milliseconds; the task is to read up to offset {self._end}. Does the partition hold that much? "
                "kafkaConsumer.pollTimeoutMs sets how long to wait."
            )

    # Lost records

    def _check_gap(self, chunk: FetchedChunk) -> None:
        """Offsets without records are a loss only if the log begins behind them; else they never held any."""
        if chunk.log_start_offset > self._position and _START.unpack_from(chunk.records)[0] > self._position:
            self._lose(min(chunk.log_start_offset, self._end), f"the log now begins at {chunk.log_start_offset}")

    def _skip_lost(self) -> None:
        """The leader does not have the position: report what is lost, and go on where the log begins."""
        asked = dict.fromkeys([self._tp], EARLIEST), dict.fromkeys([self._tp], LATEST)
        level = self._options.client.isolation_level
        try:
            earliest, latest = (list_offsets(self._cluster, each, level)[self._tp].offset for each in asked)
        except UnknownTopicOrPartitionError:
            self._lose_if_gone()
            return
        if earliest <= self._position < latest:
            # The partition grew in the meantime, so the offset is there after all; or not, if this goes on.
            self._check_progress()
            time.sleep(self._options.client.retry_backoff)
        elif self._position < earliest < self._end:
            self._lose(earliest, f"the log now begins at {earliest}")
        else:
            self._lose(self._end, f"the log now holds offsets [{earliest}, {latest})")

    def _lose_if_gone(self) -> None:
        """Brokers do not know the topic: the rest is lost once that has lasted."""
        assert self._waits_since is not None
        if time.monotonic() - self._waits_since >= self._patience_s:
            self._lose(self._end, f"{self._tp} was deleted")

    def _lose(self, to: int, why: str) -> None:
        """Report offsets up to ``to`` as lost, and go on there."""
        count = to - self._position
        self._report(
            Condition.COULD_NOT_READ, f"Could not read {count} offsets [{self._position}, {to}) of {self._tp}: {why}."
        )
        if self._on_loss is not None:
            self._on_loss(self._position, to, why)
        self._move(to)
