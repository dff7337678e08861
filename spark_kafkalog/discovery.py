"""What the driver asks the brokers: which partitions there are, and where they begin and end.

One ListOffsets request a broker, all with deadlines (``kafka.default.api.timeout.ms``). What fails for a reason that
may pass is tried again ``fetchOffset.numRetries`` times over new connections.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from kafkalog.client.cluster import Cluster, TopicMetadata
from kafkalog.client.errors import is_retriable
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import UnknownTopicOrPartitionError

from .offsets import Offsets, Position, topic_mark
from .options import LATEST, Assign, SourceOptions, SubscribePattern
from .patterns import compile_java

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Assigned(NamedTuple):
    """The partitions of a query, and the marks of their topics (``offsets.topic_mark``) where they have ids."""

    partitions: frozenset[TopicPartition]
    topics: dict[str, int]


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

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _trying(self, call: Callable[[Cluster], T]) -> T:
        attempts = max(self._options.offset_retries, 1)
        for attempt in range(1, attempts + 1):
            if self._cluster is None:
                self._cluster = Cluster(self._options.client)
            try:
                return call(self._cluster)
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
