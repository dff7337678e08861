"""Reads one range of offsets as Arrow record batches, on an executor.

A thread fetches the next chunk while this one is decoded. It fetches from the partition's leader, or with
`kafka.client.rack` from a follower in that rack. Fetching and decoding release the interpreter's lock, one in the
socket, the other in compiled code. Offsets without a record (transaction markers, aborted or compacted records) are
skipped. Thread and connection end with their task; only the cluster's metadata is kept between tasks of a worker
process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from struct import Struct

import pyarrow as pa

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, ClientTimeoutError, KafkaError
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.fetch.partition_fetcher import PartitionFetcher
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import READ_UNCOMMITTED, TopicPartition
from kafkalog.protocol.errors import OffsetOutOfRangeError, UnknownTopicIdError, UnknownTopicOrPartitionError
from kafkalog.records.arrow import decode_arrow
from spark_kafkalog.data_loss import GONE_AFTER_S, RECREATED_AFTER_S, Condition, reporter
from spark_kafkalog.delegation.ended import naming_ended_token
from spark_kafkalog.executor import python_worker, stopping
from spark_kafkalog.executor.batch_pieces import ChunkPiece, bounded, cut_pieces, joined, modern
from spark_kafkalog.offsets import topic_id_of, topic_mark
from spark_kafkalog.options.limits import EARLIEST, LATEST
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.process_cache import ProcessCache

logger = logging.getLogger(__name__)

FETCH_BYTES = 4 << 20
"""Bytes of one fetch, unless `kafka.max.partition.fetch.bytes` is set."""

_START = Struct(">qi")

CLUSTERS: ProcessCache[tuple[stopping.Stop, tuple[tuple[str, str], ...]], Cluster] = ProcessCache(8, Cluster.close)
"""Clusters by `kafka.*` properties with their secrets, for the tasks of this process that are stopped together. Few are
kept, because they hold connections and a worker may serve queries of many users, each with a password of its own."""


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
) -> Generator[pa.RecordBatch, None, None]:
    """Read records with start <= offset < end, in order, as batches with exactly `columns`.

    `topic` is the mark of the topic (`offsets.topic_mark`) that the offsets belong to. If the topic was deleted and
    created again since, the whole range is lost. `on_loss` is called with each loss that does not end the reading.

    Raises:
        DataLossError: Records are gone, and `failOnDataLoss` is set.
        BatchTooLargeError: A batch expands to more than `maxBatchBytes`.
        AuthenticationError: The brokers refuse the login, or its delegation token has ended.
        ClientTimeoutError: The position has not moved for `kafkaConsumer.pollTimeoutMs`, although the log goes on.
        RuntimeError, ClientError: The task was told to stop (`stopping`).
        Exception: Fetching or decoding has failed.
    """
    with (
        naming_ended_token(options.token_ends_at),
        python_worker.task(options.keep_freed_memory),
        closing(_RangeReader(tp, start, end, options, topic=topic, on_loss=on_loss)) as reading,
        stopping.current().calling(reading.stop),
    ):
        reading.check_topic()
        yield from reading.batches(columns)


def _cluster(options: SourceOptions) -> Cluster:
    key = stopping.current(), tuple(sorted(options.properties.items()))
    return CLUSTERS.get(key, lambda: Cluster(options.client))


class _RangeReader:
    """The state of one task: its position, its fetcher, and the fetch in progress."""

    def __init__(
        self,
        tp: TopicPartition,
        start: int,
        end: int,
        options: SourceOptions,
        *,
        topic: str | None = None,
        on_loss: OnLoss | None = None,
    ) -> None:
        self._tp = tp
        self._topic = topic
        self._position = start
        self._end = end
        self._options = options
        self._report = reporter(options.fail_on_data_loss)
        self._on_loss = on_loss
        self._stop = stopping.current()
        self._patience_s = min(GONE_AFTER_S, options.poll_timeout_ms / 1000)
        self._cluster = _cluster(options)
        given = "max.partition.fetch.bytes" in options.properties
        self._fetcher = PartitionFetcher(
            self._cluster,
            tp,
            max_bytes=options.client.max_partition_fetch_bytes if given else FETCH_BYTES,
            isolation_level=options.client.isolation_level,
            rack=options.client_rack,
            topic_id=topic_id_of(topic),
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"fetch-{tp}")
        self._under_way: tuple[int, Future[FetchedRecords]] | None = None
        self._waits_since: float | None = None
        """The time of the first request of the position, or None. Spark may pause for long between two requests."""

    def check_topic(self) -> None:
        """Report the range as lost if the topic was created again since the range was planned.

        A broker that lags may still describe the topic of before. So another id counts after `RECREATED_AFTER_S`.
        """
        if self._topic is None:
            return
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        differs_since: float | None = None
        while self._position < self._end:
            self._stop.check()
            # This process's metadata may be older than the topic.
            self._cluster.forget([self._tp.topic])
            try:
                found = topic_mark(self._cluster.topic(self._tp.topic).topic_id)
            except UnknownTopicOrPartitionError:
                self._lose_if_gone()
                continue
            if found in (self._topic, None):
                return
            if differs_since is None:
                differs_since = time.monotonic()
            if time.monotonic() - differs_since >= min(RECREATED_AFTER_S, self._patience_s):
                self._lose(self._end, f"topic {self._tp.topic} was deleted and created again")
                return
            time.sleep(self._options.client.retry_backoff)

    def batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        while self._position < self._end:
            self._stop.check()
            chunk = self._take()
            if chunk is None:
                continue
            with bounded(self._tp, self._position):
                pieces = cut_pieces(chunk.records, self._position)
            if not pieces or pieces[-1].behind <= self._position:
                # There is no batch yet, or only earlier ones: no leader answers so for long.
                self._check_progress()
                continue
            behind = pieces[-1].behind
            if behind < self._end:
                self._ask(behind)
            self._check_gap(chunk)
            if chunk.aborted:
                # Whether a record belongs to an aborted transaction depends on the markers before it in the chunk.
                with bounded(self._tp, self._position):
                    pieces = [joined(pieces, self._options.max_batch_bytes)]
            for piece in pieces:
                for part in self._modern(piece):
                    yield from self._decode(part, chunk.aborted, columns)
                    if self._position >= self._end:
                        return

    def _modern(self, piece: ChunkPiece) -> Iterator[ChunkPiece]:
        parts = modern(piece, self._options.max_batch_bytes)
        while True:
            with bounded(self._tp, self._position):
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _decode(
        self, piece: ChunkPiece, aborted: list[tuple[int, int]], columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        while self._position < min(piece.behind, self._end):
            with bounded(self._tp, self._position):
                batch, next_offset = decode_arrow(
                    piece.records,
                    topic=self._tp.topic,
                    partition=self._tp.partition,
                    start=self._position,
                    end=self._end,
                    columns=columns,
                    aborted=aborted,
                    check_crc=self._options.client.check_crcs,
                    max_batch=self._options.max_batch_bytes,
                    converted=piece.converted,
                )
            if next_offset <= self._position:
                raise AssertionError(f"decoding {self._tp} does not move beyond offset {self._position}")
            self._move(next_offset)
            if batch is not None and batch.num_rows:
                yield batch

    def stop(self) -> None:
        """Have requests in progress, and all later ones, fail. Any thread may call it.

        The cluster's client is that of tasks which stop together.
        """
        self._fetcher.stop()
        self._cluster.close()

    def close(self) -> None:
        """Cancel the fetch in progress and close its connection."""
        self._fetcher.stop()
        self._thread.shutdown(cancel_futures=True)
        self._fetcher.close()

    # Fetching

    def _ask(self, offset: int) -> None:
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        self._under_way = offset, self._thread.submit(self._fetcher.fetch, offset, deadline=deadline)

    def _take(self) -> FetchedRecords | None:
        """Return the chunk at the position; None if the position had to move first."""
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        is_there = self._under_way is not None and self._under_way[0] == self._position
        if not is_there:
            if self._under_way is not None:
                # That fetch was sent before the position jumped.
                self._under_way[1].exception()
            self._ask(self._position)
        assert self._under_way is not None
        future, self._under_way = self._under_way[1], None
        try:
            return future.result()
        except ClientTimeoutError:
            # A fetch sent in advance may have timed out while Spark processed the rows before.
            if not is_there:
                raise
        except OffsetOutOfRangeError:
            # The offset may be one of another topic: leaders before Kafka 3.1 read topics by their names.
            self.check_topic()
            if self._position < self._end:
                self._skip_lost()
        except UnknownTopicIdError:
            # If the id is still the topic's, it is the leader that lags.
            self.check_topic()
            if self._position < self._end:
                self._check_progress()
        except UnknownTopicOrPartitionError:
            self.check_topic()
            self._lose_if_gone()
        return None

    def _move(self, offset: int) -> None:
        if offset > self._position:
            self._position = offset
            self._waits_since = None

    def _check_progress(self) -> None:
        """Check that the position has not been awaited for too long. Report the rest as lost if the log ends there.

        Raises:
            ClientTimeoutError: It has, and the log goes on.
        """
        assert self._waits_since is not None
        waited_ms = (time.monotonic() - self._waits_since) * 1000
        if waited_ms >= self._options.poll_timeout_ms:
            end = self._end_of_log()
            if end is not None and end <= self._position:
                self._lose(self._end, f"the log has ended at {end} for {self._options.poll_timeout_ms} milliseconds")
                return
            raise ClientTimeoutError(
                f"Cannot fetch record for offset {self._position} of {self._tp} in {self._options.poll_timeout_ms} "
                f"milliseconds; the task is to read up to offset {self._end}. Does the partition hold that much? "
                "kafkaConsumer.pollTimeoutMs sets how long to wait."
            )

    # Lost records

    def _end_of_log(self) -> int | None:
        """Ask the partition's leader for the high watermark; return None if it does not answer.

        The last stable offset is no end: the records of an open transaction are behind it.
        """
        deadline = time.monotonic() + self._patience_s
        with suppress(ClientError, KafkaError):
            asked = dict.fromkeys([self._tp], LATEST)
            return list_offsets(self._cluster, asked, READ_UNCOMMITTED, deadline)[self._tp].offset
        return None

    def _check_gap(self, chunk: FetchedRecords) -> None:
        """Report missing offsets as lost if the log begins behind them; otherwise they never held a record."""
        if chunk.log_start_offset > self._position and _START.unpack_from(chunk.records)[0] > self._position:
            self._lose(min(chunk.log_start_offset, self._end), f"the log now begins at {chunk.log_start_offset}")

    def _skip_lost(self) -> None:
        """Handle a position out of the leader's range: report the loss, and go on where the log begins."""
        asked = dict.fromkeys([self._tp], EARLIEST), dict.fromkeys([self._tp], LATEST)
        level = self._options.client.isolation_level
        try:
            earliest, latest = (list_offsets(self._cluster, each, level)[self._tp].offset for each in asked)
        except UnknownTopicOrPartitionError:
            self._lose_if_gone()
            return
        if earliest <= self._position < latest:
            # The partition grew in the meantime, so the offset exists after all. If this repeats, it does not.
            self._check_progress()
            time.sleep(self._options.client.retry_backoff)
        elif self._position < earliest < self._end:
            self._lose(earliest, f"the log now begins at {earliest}")
        else:
            self._lose(self._end, f"the log now holds offsets [{earliest}, {latest})")

    def _lose_if_gone(self) -> None:
        """Report the rest as lost if brokers have not known the topic for long enough."""
        if self._waits_since is not None and time.monotonic() - self._waits_since >= self._patience_s:
            self._lose(self._end, f"{self._tp} was deleted")

    def _lose(self, to: int, why: str) -> None:
        """Report offsets up to `to` as lost, and go on there."""
        count = to - self._position
        self._report(
            Condition.COULD_NOT_READ, f"Could not read {count} offsets [{self._position}, {to}) of {self._tp}: {why}."
        )
        if self._on_loss is not None:
            self._on_loss(self._position, to, why)
        self._move(to)
