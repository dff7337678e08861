"""What the driver asks the brokers: which partitions there are, and where they begin and end.

One ListOffsets request a broker, all with deadlines (``kafka.default.api.timeout.ms``). What fails for a reason that
may pass is tried again ``fetchOffset.numRetries`` times over new connections.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalog.client.cluster import Cluster, TopicMetadata
from kafkalog.client.errors import ClientError, KafkaError, is_retriable
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import READ_UNCOMMITTED, TopicPartition
from kafkalog.protocol.errors import UnknownTopicOrPartitionError, error_for
from spark_kafkalog.offsets import Offsets, Position, topic_mark
from spark_kafkalog.options.java_patterns import compile_java
from spark_kafkalog.options.limits import LATEST
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.options.subscription import Assign, SubscribePattern

if TYPE_CHECKING:
    from kafkalog.client.fetch.fetch_request import FetchedChunk
    from kafkalog.protocol.messages.fetch import PartitionData

_BATCH_BYTES = 64 << 10
"""Bytes of a partition that a fetch asks for to see a batch's header: most batches are smaller."""
_LARGE_BATCHES = 8
"""Further requests for partitions whose batch is larger."""
_DENSITY = Struct(">qi11xi")
"""Base offset, length and last offset delta of a record batch."""
T = TypeVar("T")
_Asked = tuple[TopicPartition, int, int]
"""A partition, an offset and its leader's epoch."""
_log = logging.getLogger(__name__)


class Assigned(NamedTuple):
    """The partitions of a query, and the marks of their topics (``offsets.topic_mark``) where they have ids."""

    partitions: frozenset[TopicPartition]
    topics: dict[str, str]


class Discovery:
    """Partitions and offsets of what ``assign``, ``subscribe`` or ``subscribePattern`` names. Close it after use."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None

    def assigned(self) -> Assigned:
        """The partitions as they are now. UnknownTopicOrPartitionError where a subscribed topic does not exist."""
        return self._trying(self._assigned)

    def lookup(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        """Offsets of timestamps (ms; -2 earliest, -1 latest), as ``offsets.Lookup`` says."""
        return self._trying(lambda cluster: self._lookup(cluster, timestamps)) if timestamps else {}

    def latest(self, known: Position) -> Position:
        """Ends of all assigned partitions.

        An end before a ``known`` offset may come from a broker that is behind: it is asked for again a few times, and
        then taken as it is.
        """
        attempts = max(self._options.offset_retries, 1)
        for attempt in range(1, attempts + 1):
            partitions, topics = self.assigned()
            found = Position(self.lookup(dict.fromkeys(partitions, LATEST)), topics)
            before = known.surviving(found)
            behind = {str(tp): (before[tp], end) for tp, end in found.offsets.items() if end < before.get(tp, 0)}
            if not behind:
                break
            _log.warning("ends of partitions lie before what is known (partition: known, end): %s", behind)
            if attempt < attempts:
                time.sleep(self._options.offset_retry_interval_ms / 1000)
        return found

    def densities(self, at: Offsets) -> dict[TopicPartition, float]:
        """Bytes per offset of the record batch at an offset of each partition, as ``byte_sizes.Densities`` says.

        One request a leader where batches are small: Kafka leaves out a batch that is larger than a partition's share
        of the response, but for the first of them. Those are asked for again, up to ``_LARGE_BATCHES`` times a leader;
        an estimate does without partitions that are still missing, or cannot be asked.
        """
        cluster = self._connected()
        found: dict[TopicPartition, float] = {}
        for node_id, asked in self._by_leader(cluster, at).items():
            try:
                for _ in range(1 + _LARGE_BATCHES):
                    known = len(found)
                    found |= self._densities_of(cluster, node_id, asked, at)
                    asked = [each for each in asked if each[0] not in found]
                    if not asked or len(found) == known:
                        break
            except (ClientError, KafkaError) as error:
                _log.info("the sizes of %d partitions are not known: %s", len(asked), error)
        return found

    def _densities_of(
        self, cluster: Cluster, node_id: int, asked: list[_Asked], at: Offsets
    ) -> dict[TopicPartition, float]:
        """What one request finds. Raises what the request raises."""
        limits = self._options.client.fetch_max_bytes, _BATCH_BYTES
        answers = self._fetched(cluster, node_id, asked, *limits, READ_UNCOMMITTED)
        found = {}
        for tp, data in answers.items():
            if tp in at and (density := batch_density(data.records, at[tp])) is not None:
                found[tp] = density
        return found

    def records(self, at: Offsets, max_bytes: int) -> dict[TopicPartition, FetchedChunk]:
        """What lies at an offset of each partition, as far as there is room: one request a leader, about ``max_bytes``.

        Asked once: raises ClientError and KafkaError at the first thing that is not as it should be.
        """
        from kafkalog.client.fetch.fetch_request import read_partition

        cluster = self._connected()
        level = self._options.client.isolation_level
        found = {}
        for node_id, asked in self._by_leader(cluster, at, strict=True).items():
            for tp, data in self._fetched(cluster, node_id, asked, max_bytes, max_bytes, level).items():
                if tp in at:
                    found[tp] = read_partition(tp, data, at[tp])
        return found

    @staticmethod
    def _by_leader(cluster: Cluster, at: Offsets, *, strict: bool = False) -> dict[int, list[_Asked]]:
        """What to ask of whom; without ``strict`` but for partitions without a leader that is known."""
        asked: dict[int, list[_Asked]] = defaultdict(list)
        for tp, offset in at.items():
            with nullcontext() if strict else suppress(ClientError, KafkaError):
                leader = cluster.leader_now(tp)
                asked[leader.broker.node_id].append((tp, offset, leader.epoch))
        return asked

    def _fetched(
        self, cluster: Cluster, node_id: int, asked: list[_Asked], max_bytes: int, partition_max_bytes: int, level: int
    ) -> dict[TopicPartition, PartitionData]:
        # Few queries ask, and what reads records is slow to import.
        from kafkalog.client.fetch.fetch_request import MAX_VERSION, fetch_request

        request = fetch_request(
            asked,
            self._options.client,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            isolation_level=level,
            max_wait=0,
        )
        answer = cluster.request_to(node_id, request, max_version=MAX_VERSION)
        if answer.error_code:
            raise error_for(answer.error_code)
        return {
            TopicPartition(topic.topic, data.partition_index): data
            for topic in answer.responses
            for data in topic.partitions
        }

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.client)
        return self._cluster

    def _trying(self, call: Callable[[Cluster], T]) -> T:
        attempts = max(self._options.offset_retries, 1)
        for attempt in range(1, attempts + 1):
            try:
                return call(self._connected())
            except Exception as error:
                self.close()
                # A topic that is still unknown after the client's own tries does not exist.
                lasting = isinstance(error, UnknownTopicOrPartitionError) or not is_retriable(error)
                if attempt == attempts or lasting:
                    raise
                _log.warning("asking for offsets failed (attempt %d of %d): %s", attempt, attempts, error)
                time.sleep(self._options.offset_retry_interval_ms / 1000)
        raise AssertionError("unreachable")

    def _assigned(self, cluster: Cluster) -> Assigned:
        strategy = self._options.strategy
        if isinstance(strategy, SubscribePattern):
            matches = compile_java(strategy.pattern)
            topics = cluster.metadata(refresh=True).topics.values()
            described = self._described(
                cluster, [topic for topic in topics if not topic.is_internal and matches(topic.name)]
            )
        else:
            if isinstance(strategy, Assign):
                names = sorted({tp.topic for tp in strategy.partitions})
            else:
                names = list(strategy.topics)
            described = self._described(cluster, cluster.metadata(names, refresh=True).topics.values())
        partitions = frozenset(TopicPartition(topic.name, each) for topic in described for each in topic.partitions)
        if isinstance(strategy, Assign):
            partitions &= strategy.partitions
        marks = {topic.name: mark for topic in described if (mark := topic_mark(topic.topic_id)) is not None}
        return Assigned(partitions, marks)

    @staticmethod
    def _described(cluster: Cluster, topics: Iterable[TopicMetadata]) -> list[TopicMetadata]:
        """The topics, those that could not be described asked for again."""
        return [cluster.topic(topic.name) if topic.error_code else topic for topic in topics]

    def _lookup(self, cluster: Cluster, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        try:
            return self._ask(cluster, timestamps)
        except UnknownTopicOrPartitionError:
            topics = cluster.metadata({tp.topic for tp in timestamps}, refresh=True).topics
            existing = {tp: time for tp, time in timestamps.items() if tp.partition in topics[tp.topic].partitions}
            return self._ask(cluster, existing) if existing else {}

    def _ask(self, cluster: Cluster, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        found = list_offsets(cluster, timestamps, self._options.client.isolation_level)
        return {tp: each.offset for tp, each in found.items()}


def batch_density(records: memoryview | None, offset: int) -> float | None:
    """Bytes per offset of the batch that a fetch from ``offset`` begins with; None where not even its header is there.

    0 where the first batch begins behind the offset: compaction has left nothing there.
    """
    from kafkalog.records.batch import LOG_OVERHEAD, MAGIC, MAGIC_AT

    if records is None or len(records) < _DENSITY.size or records[MAGIC_AT] != MAGIC:
        return None
    base_offset, length, last_delta = _DENSITY.unpack_from(records)
    if base_offset > offset:
        return 0.0
    return (LOG_OVERHEAD + length) / (last_delta + 1) if length > 0 and last_delta >= 0 else None
