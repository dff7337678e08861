"""Threads that fetch the partitions of streams.

Each stream has `num.consumer.fetchers` threads, which share its partitions as Kafka 0.8's fetchers do: by the hash of
topic and partition. (Kafka has so many threads for each broker. A stream that is not read then holds up the others.) A
thread asks all leaders of its partitions at once, and follows them when they move.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.connector.streams import Chunk, MessageStream, PartitionState
from kafkalog.client.consumer.assignors.java_order import string_hash
from kafkalog.client.errors import is_retriable
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.offsets import EARLIEST, LATEST, ask_leaders
from kafkalog.client.types import READ_UNCOMMITTED, ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import UnknownTopicOrPartitionError

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_ALL = 1 << 31
_OTHERS_WAIT_S = 0.5
"""The time that leaders have to tell the offsets at which partitions begin, while others are to be fetched."""
_ASK_AGAIN_S = 2.0
"""The time until they are asked again, while others are fetched."""
_STOP_S = 5.0
"""The time to wait for a thread's end. One that hangs at a broker ends later, and can put nothing into its stream."""


def fetcher_of(tp: TopicPartition, fetchers: int) -> int:
    """Return which of a stream's fetchers has a partition (`AbstractFetcherManager.getFetcherId`)."""
    value = (31 * string_hash(tp.topic) + tp.partition) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    # Java's least integer has no positive counterpart; Kafka takes 0 for it.
    return (0 if signed == -(1 << 31) else abs(signed)) % fetchers


class Fetchers:
    """The threads of one assignment: from `start` on, until `stop`.

    Args:
        config: The settings of fetching.
        fetchers: The threads of each stream.
    """

    def __init__(self, config: ClientConfig, fetchers: int) -> None:
        self._cluster = Cluster(config)
        self._fetchers = fetchers
        self._threads: list[_Fetcher] = []

    def start(self, streams: Mapping[MessageStream, Iterable[PartitionState]]) -> None:
        """Begin to fetch these partitions for their streams."""
        for stream, partitions in streams.items():
            shares: dict[int, list[PartitionState]] = defaultdict(list)
            for each in partitions:
                shares[fetcher_of(each.tp, self._fetchers)].append(each)
            for share in shares.values():
                thread = _Fetcher(self._cluster, stream, share)
                self._threads.append(thread)
                thread.start()

    def stop(self) -> None:
        """End the threads. Their partitions must have been given up before (`MessageStream.revoke`)."""
        for thread in self._threads:
            thread.ended.set()
        self._cluster.close()
        for thread in self._threads:
            thread.join(_STOP_S)
        self._threads.clear()


class _Fetcher(threading.Thread):
    def __init__(self, cluster: Cluster, stream: MessageStream, partitions: list[PartitionState]) -> None:
        super().__init__(name="kafkalog-connector-fetcher", daemon=True)
        self._cluster = cluster
        self._stream = stream
        self._partitions = {each.tp: each for each in partitions}
        self._first = partitions[0]
        """The partition by which the stream knows this fetcher's errors."""
        self._has_told = False
        """True if the stream has an error of this fetcher."""
        self._due: dict[TopicPartition, int] = {}
        """The offsets after what was put into the stream, of the partitions that are fetched."""
        self._ask_at = 0.0
        """The time (`time.monotonic`) at which leaders are asked for the offsets of the others."""
        self._is_failing = False
        self.ended = threading.Event()

    def run(self) -> None:
        """Fetch until the end."""
        with SimpleConsumer(self._cluster.config, cluster=self._cluster) as consumer:
            while not self.ended.is_set():
                try:
                    if len(self._due) < len(self._partitions):
                        self._begin(consumer)
                    records = consumer.poll(_POLL_S, _ALL)
                except Exception as error:
                    self._failed(error)
                    continue
                if len(self._due) == len(self._partitions):
                    self._is_failing = False
                    self._note_recovery(consumer)
                for tp in self._due:
                    if (end := consumer.high_watermark(tp)) >= 0:
                        self._partitions[tp].high_watermark = end
                for tp, part in groupby(records, key=_partition_of):
                    if not self._put(tp, list(part)):
                        return

    def _put(self, tp: TopicPartition, records: list[ConsumerRecord]) -> bool:
        # The consumer never returns records before its position, unless it was out of the log's range.
        is_reset = records[0].offset < self._due[tp]
        self._due[tp] = records[-1].offset + 1
        return self._stream.put(Chunk(self._partitions[tp], records, is_reset))

    def _begin(self, consumer: SimpleConsumer) -> None:
        """Assign the partitions at their offsets; those without one begin at an end of the log.

        A partition without a leader waits alone. (Kafka 0.8's `ConsumerFetcherManager.LeaderFinderThread`)

        Raises:
            KafkaError, ClientError: No partition can be fetched.
        """
        error = self._find_offsets() if time.monotonic() >= self._ask_at else None
        new = [tp for tp, each in self._partitions.items() if each.consumed is not None and tp not in self._due]
        consumer.assign([*self._due, *new])
        for tp in new:
            offset = self._partitions[tp].consumed
            assert offset is not None
            self._due[tp] = offset
            consumer.seek(tp, offset)
        if error is not None and not self._due:
            raise error
        if error is not None:
            self._tell(error)

    def _find_offsets(self) -> Exception | None:
        """Ask for the ends of the logs of partitions without an offset; return the error of one that has none yet."""
        reset = EARLIEST if self._cluster.config.auto_offset_reset == "earliest" else LATEST
        unknown = {tp: reset for tp, each in self._partitions.items() if each.consumed is None}
        if not unknown:
            return None
        failed: dict[TopicPartition, Exception] = {}
        deadline = time.monotonic() + (_OTHERS_WAIT_S if self._due else self._cluster.config.request_timeout)
        for tp, answer in ask_leaders(self._cluster, unknown, READ_UNCOMMITTED, deadline).items():
            if isinstance(answer, Exception):
                failed[tp] = answer
            else:
                self._partitions[tp].consumed = answer.offset
        self._cluster.forget({tp.topic for tp in failed})
        self._ask_at = time.monotonic() + (_ASK_AGAIN_S if self._due else 0.0)
        # One that does not pass counts more.
        return min(failed.values(), key=is_retriable, default=None)

    def _note_recovery(self, consumer: SimpleConsumer) -> None:
        """End the error that the stream has, if each partition was fetched again since."""
        if self._has_told and not any(map(consumer.is_failing, self._partitions)):
            self._stream.recovered(self._first)
            self._has_told = False

    def _failed(self, error: Exception) -> None:
        """Tell of an error, and pause."""
        if self.ended.is_set():
            return
        self._tell(error)
        self.ended.wait(max(self._cluster.config.retry_backoff, 0.01))

    def _tell(self, error: Exception) -> None:
        """Log an error that may pass; tell the application of others."""
        if is_retriable(error) or isinstance(error, UnknownTopicOrPartitionError):
            # A topic that was deleted leaves the group's partitions with the next rebalance.
            if not self._is_failing:
                logger.warning("fetching %s: %s; trying again", ", ".join(map(str, self._partitions)), error)
            self._is_failing = True
        else:
            self._stream.fail(self._first, error)
            self._has_told = True


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
