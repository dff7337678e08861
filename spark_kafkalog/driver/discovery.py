"""Discovers partitions and offsets: the driver's requests to the brokers.

Offsets take one ListOffsets request a broker. All requests have deadlines (`kafka.default.api.timeout.ms`). A request
that fails with a retriable error is tried again over new connections, `fetchOffset.numRetries` times.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, KafkaError, is_retriable
from kafkalog.client.metadata import TopicMetadata
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import READ_COMMITTED, READ_UNCOMMITTED, TopicPartition
from kafkalog.protocol.errors import ErrorCode, UnknownTopicOrPartitionError, error_for
from spark_kafkalog.data_loss import GONE_AFTER_S, RECREATED_AFTER_S
from spark_kafkalog.offsets import Offsets, Position, names, topic_mark
from spark_kafkalog.options.java_patterns import compile_java
from spark_kafkalog.options.limits import LATEST
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.options.subscription import Assign, SubscribePattern, covers, named_topics
from spark_kafkalog.plan.byte_sizes import ASSUMED_DENSITY

if TYPE_CHECKING:
    from kafkalog.client.admin.security.delegation_tokens import DelegationToken
    from kafkalog.client.fetch.fetch_request import FetchedRecords
    from kafkalog.protocol.messages.fetch import PartitionData

_BATCH_BYTES = 64 << 10
"""Bytes of a partition that a fetch requests to get a batch's header: most batches are smaller."""
_LARGE_BATCHES = 8
"""Further requests for partitions whose batch is larger."""
T = TypeVar("T")
_CONFIRM_EVERY_S = 0.2
"""The pause between requests for metadata that is in doubt."""
_Asked = tuple[TopicPartition, int, int]
"""A partition, an offset and its leader's epoch."""
logger = logging.getLogger(__name__)


class Assigned(NamedTuple):
    """The partitions of a query, and the marks (`offsets.topic_mark`) of those topics that have ids."""

    partitions: frozenset[TopicPartition]
    topics: dict[str, str]


class Discovery:
    """Finds partitions and offsets for `assign`, `subscribe` or `subscribePattern`. Close it after use."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None
        self._token: DelegationToken | None = None
        """The token that `_cluster` logs in by, if it does."""
        self._gone: set[str] = set()
        """Topics that did not exist when they were last looked for."""
        self._missing: frozenset[TopicPartition] = frozenset()
        self._warned_of_sizes = False
        self._confirmed: frozenset[str] = frozenset()
        """The contradictions to known positions that `latest` has confirmed, as its warnings name them."""

    @property
    def gone(self) -> frozenset[str]:
        """The topics that were left out, because they do not exist any more."""
        return frozenset(self._gone)

    def assigned(self, may_be_gone: Container[str] = ()) -> Assigned:
        """Return the current partitions.

        Topics in `may_be_gone` that brokers have not known for some seconds are left out. They are partitions that the
        query has read, so their absence is reported as data loss.

        Raises:
            UnknownTopicOrPartitionError: Another subscribed topic does not exist.
        """
        return self._trying(lambda cluster: self._assigned(cluster, may_be_gone))

    def lookup(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        """Return offsets of timestamps (ms; -2 earliest, -1 latest), as `offsets.Lookup` describes."""
        return self._trying(lambda cluster: self._lookup(cluster, timestamps)) if timestamps else {}

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the high watermarks of partitions. With `read_committed`, `lookup` finds last stable offsets."""
        asked = dict.fromkeys(partitions, LATEST)
        return self._trying(lambda cluster: self._lookup(cluster, asked, READ_UNCOMMITTED)) if asked else {}

    def latest(self, known: Position, may_be_gone: Container[str] = ()) -> Position:
        """Return the ends of all assigned partitions, after further requests if some contradict what was read.

        A broker that lags describes a topic as it was: without partitions that were added since, with the id that it
        had before it was created again, or with an end before a `known` offset. So partitions that are absent are asked
        for again for `GONE_AFTER_S`, the others for `RECREATED_AFTER_S`, over new connections. What is confirmed is not
        doubted in later batches. `may_be_gone` is that of `assigned`.
        """
        patience = min(GONE_AFTER_S, self._options.poll_timeout_ms / 1000)
        began = time.monotonic()
        warned: frozenset[str] = frozenset()
        while True:
            partitions, topics = self.assigned(may_be_gone)
            found = Position(self.lookup(dict.fromkeys(partitions, LATEST)), topics)
            recreated = known.recreated(found)
            absent = [f"partition {tp}" for tp in self._absent(known, found, self._gone | recreated)]
            renewed = [f"topic {name} has the id {topics[name]} now" for name in sorted(recreated)]
            behind = _behind(known, found)
            changed = frozenset((*absent, *renewed, *behind))
            doubted = changed - self._confirmed
            lasts = patience if doubted.intersection(absent) else min(RECREATED_AFTER_S, patience)
            new = doubted - warned
            self._warn_of_ends([each for each in behind if each in new])
            if others := [each for each in absent + renewed if each in new]:
                logger.warning(
                    "brokers do not name what was read before, so they are asked again: %s", "; ".join(others)
                )
            warned |= new
            if not doubted or time.monotonic() - began >= lasts:
                self._confirmed = changed
                return found
            self.close()
            time.sleep(_CONFIRM_EVERY_S)

    def _warn_of_ends(self, behind: list[str]) -> None:
        if behind:
            committed = self._options.client.isolation_level == READ_COMMITTED
            held = "; an open transaction may hold them back" if committed else ""
            logger.warning(
                "ends of partitions lie before what is known (known offset, end): %s%s", "; ".join(behind), held
            )

    def _absent(self, known: Position, found: Position, excused: Container[str]) -> list[TopicPartition]:
        """Return the partitions that the query has read and still reads, and that are not found."""
        return sorted(
            tp
            for tp in known.offsets.keys() - found.offsets.keys()
            if tp.topic not in excused and covers(self._options.strategy, tp)
        )

    def densities(self, at: Offsets) -> dict[TopicPartition, float]:
        """Return bytes per offset of the record batch at an offset of each partition (`byte_sizes.Densities`).

        If batches are small, this takes one request a leader. Kafka leaves out a batch that is larger than its
        partition's share of the response, unless it is the first one. The omitted ones are requested again, up to
        `_LARGE_BATCHES` times a leader. Partitions that are still missing, or whose leader fails, are left out.
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
                logger.info("the sizes of %d partitions are not known: %s", len(asked), error)
        if at and not found and not self._warned_of_sizes:
            self._warned_of_sizes = True
            logger.warning(
                "no record batch of %s tells its size, so limits in bytes go by sizes found before, or by %d bytes an "
                "offset",
                names(at),
                ASSUMED_DENSITY,
            )
        return found

    def _densities_of(
        self, cluster: Cluster, node_id: int, asked: list[_Asked], at: Offsets
    ) -> dict[TopicPartition, float]:
        """Return the densities that one request finds.

        Raises:
            ClientError, KafkaError: The request has failed.
        """
        # Few queries need this, and the modules that read records are slow to import.
        from spark_kafkalog.driver.batch_density import batch_density

        limits = self._options.client.fetch_max_bytes, _BATCH_BYTES
        answers = self._fetched(cluster, node_id, asked, *limits, READ_UNCOMMITTED)
        found = {}
        for tp, data in answers.items():
            if tp in at and (density := batch_density(data.records, at[tp])) is not None:
                found[tp] = density
        return found

    def records(self, at: Offsets, max_bytes: int) -> dict[TopicPartition, FetchedRecords]:
        """Fetch records from an offset of each partition: one request of about `max_bytes` to each leader.

        It is for no more than `kafka.fetch.max.bytes`. Nothing is retried.

        Raises:
            ClientError, KafkaError: A request has failed.
        """
        from kafkalog.client.fetch.fetch_request import read_partition

        cluster = self._connected()
        client = self._options.client
        most = min(max_bytes, client.fetch_max_bytes)
        found = {}
        for node_id, asked in self._by_leader(cluster, at, strict=True).items():
            for tp, data in self._fetched(cluster, node_id, asked, most, most, client.isolation_level).items():
                if tp in at:
                    found[tp] = read_partition(tp, data, at[tp])
        return found

    @staticmethod
    def _by_leader(cluster: Cluster, at: Offsets, *, strict: bool = False) -> dict[int, list[_Asked]]:
        """Group partitions by leader. Unless `strict`, leave out partitions without a known leader."""
        asked: dict[int, list[_Asked]] = defaultdict(list)
        for tp, offset in at.items():
            with nullcontext() if strict else suppress(ClientError, KafkaError):
                leader = cluster.leader_now(tp)
                asked[leader.broker.node_id].append((tp, offset, leader.epoch))
        return asked

    def _fetched(
        self, cluster: Cluster, node_id: int, asked: list[_Asked], max_bytes: int, partition_max_bytes: int, level: int
    ) -> dict[TopicPartition, PartitionData]:
        # Few queries need this, and the modules that read records are slow to import.
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
        token = self._options.token()
        if token != self._token:
            self.close()
        if self._cluster is None:
            self._cluster = Cluster(self._options.with_token(token).client)
            self._token = token
        return self._cluster

    def _trying(self, call: Callable[[Cluster], T]) -> T:
        attempts = max(self._options.offset_retries, 1)
        for attempt in range(1, attempts + 1):
            try:
                return call(self._connected())
            except Exception as error:
                self.close()
                # If a topic is still unknown after the client's own retries, it does not exist.
                lasting = isinstance(error, UnknownTopicOrPartitionError) or not is_retriable(error)
                if attempt == attempts or lasting:
                    raise
                logger.warning("asking for offsets failed (attempt %d of %d): %s", attempt, attempts, error)
                time.sleep(self._options.offset_retry_interval_ms / 1000)
        raise AssertionError("unreachable")

    def _assigned(self, cluster: Cluster, may_be_gone: Container[str]) -> Assigned:
        strategy = self._options.strategy
        if isinstance(strategy, SubscribePattern):
            matches = compile_java(strategy.pattern)
            topics = cluster.metadata(refresh=True).topics.values()
            asked = [topic for topic in topics if not topic.is_internal and matches(topic.name)]
        else:
            asked = list(cluster.metadata(named_topics(strategy), refresh=True).topics.values())
        described = self._described(cluster, asked, may_be_gone)
        partitions = frozenset(TopicPartition(topic.name, each) for topic in described for each in topic.partitions)
        if isinstance(strategy, Assign):
            self._warn_of_missing(strategy.partitions - partitions)
            partitions &= strategy.partitions
        marks = {topic.name: mark for topic in described if (mark := topic_mark(topic.topic_id)) is not None}
        return Assigned(partitions, marks)

    def _described(
        self, cluster: Cluster, topics: Iterable[TopicMetadata], may_be_gone: Container[str]
    ) -> list[TopicMetadata]:
        """Return topics, after further requests for those that have errors. Leave out those that are gone, and may be.

        A broker that has just started may know none. So topics are waited for, all of them together for `GONE_AFTER_S`,
        but those that are gone not again in every batch.
        """
        found = {topic.name: topic for topic in topics}
        deadline = time.monotonic() + min(GONE_AFTER_S, self._options.poll_timeout_ms / 1000)
        while doubted := [topic.name for topic in found.values() if self._is_doubted(topic, may_be_gone)]:
            if time.monotonic() >= deadline:
                break
            time.sleep(_CONFIRM_EVERY_S)
            found |= cluster.metadata(doubted, refresh=True).topics
        existing = []
        for name, topic in found.items():
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or name not in may_be_gone:
                existing.append(cluster.topic(name) if topic.error_code else topic)
                self._gone.discard(name)
            elif name not in self._gone:
                logger.warning("topic %s does not exist any more; the query goes on without it", name)
                self._gone.add(name)
        return existing

    def _is_doubted(self, topic: TopicMetadata, may_be_gone: Container[str]) -> bool:
        """Return whether a topic may be gone, and may as well be known at the next request."""
        if not topic.error_code or topic.name not in may_be_gone or topic.name in self._gone:
            return False
        return is_retriable(error_for(topic.error_code))

    def _warn_of_missing(self, missing: frozenset[TopicPartition]) -> None:
        """Warn of partitions that option `assign` names and that do not exist. Spark's source ignores them, too."""
        if missing and missing != self._missing:
            logger.warning("assign: %s do not exist and are not read", names(missing))
        self._missing = missing

    def _lookup(
        self, cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int | None = None
    ) -> Offsets:
        level = self._options.client.isolation_level if isolation_level is None else isolation_level
        try:
            return _ask(cluster, timestamps, level)
        except UnknownTopicOrPartitionError:
            topics = cluster.metadata({tp.topic for tp in timestamps}, refresh=True).topics
            existing = {tp: time for tp, time in timestamps.items() if tp.partition in topics[tp.topic].partitions}
            return _ask(cluster, existing, level) if existing else {}


def _behind(known: Position, found: Position) -> list[str]:
    """Return the partitions that end before a known offset, each with that offset and the end."""
    before = known.surviving(found)
    return [f"{tp}: {before[tp]}, {end}" for tp, end in sorted(found.offsets.items()) if end < before.get(tp, 0)]


def _ask(cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int) -> Offsets:
    found = list_offsets(cluster, timestamps, isolation_level, leave_out_old_formats=True)
    return {tp: each.offset for tp, each in found.items()}
