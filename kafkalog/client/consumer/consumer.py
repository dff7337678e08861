"""The consumer that users hold."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.arrow_reading import ARROW_COLUMNS, read_batches
from kafkalog.client.consumer.classic.coordinator import ClassicCoordinator
from kafkalog.client.consumer.config import CLASSIC, ConsumerConfig
from kafkalog.client.consumer.deserializers import Deserializers
from kafkalog.client.consumer.fetcher.fetch_collector import FetchCollector, FetchedBatches
from kafkalog.client.consumer.fetcher.fetch_position import checked_position
from kafkalog.client.consumer.fetcher.fetcher import Fetcher
from kafkalog.client.consumer.group.abstract_coordinator import AbstractCoordinator
from kafkalog.client.consumer.group.commits import CommitCallback, checked_offsets
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.kip848.coordinator import Kip848Coordinator
from kafkalog.client.consumer.listener import RebalanceListener
from kafkalog.client.consumer.offsets.offset_queries import OffsetQueries
from kafkalog.client.consumer.offsets.position_reset import PositionReset
from kafkalog.client.consumer.poll_loop import PollLoop
from kafkalog.client.consumer.subscription import SubscriptionState, checked_topics
from kafkalog.client.consumer.threads import Monitor, SingleThread
from kafkalog.client.consumer.topic_filter import SubscriptionPattern, TopicFilter
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.foreign import warn_about
from kafkalog.client.types import (
    EARLIEST,
    LATEST,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]

_CLOSE_S = 30.0


class Consumer(Closing):
    """Read topics, alone (`assign`) or as a member of a group (`subscribe`).

    `config` holds Kafka's consumer properties, or is a ConsumerConfig. One thread at a time may use a consumer; only
    `wakeup` is for other threads. A consumer fetches, sends heartbeats and commits in threads of its own, but calls
    listeners, callbacks and interceptors in the thread that polls.

        with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "words"}) as consumer:
            consumer.subscribe(["words"])
            for batch in consumer.read_arrow():
                print(batch.num_rows)

    Every call may raise `AuthenticationError`, `WakeupError` and errors of the broker that are not retriable, such as
    those of authorization. Lost connections, and leaders and coordinators that move, raise nothing. Where another
    consumer takes this `group.instance.id`, `poll` and `commit` raise `FencedInstanceIdError` until `unsubscribe`.

    Raises:
        ConfigError: A property cannot be used.
    """

    def __init__(self, config: ConsumerConfig | Mapping[str, Any]) -> None:
        if not isinstance(config, ConsumerConfig):
            config = ConsumerConfig.from_dict(config)
            warn_about(config.unknown)
        self.config = config
        self._monitor = Monitor()
        self._single_thread = SingleThread(self._monitor)
        self._use = self._single_thread.use
        self._cluster = Cluster(self.config.client)
        self._subscription = SubscriptionState()
        self._fetcher = Fetcher(self.config, self._cluster, self._subscription, self._monitor, self._note_metadata)
        self._collector = FetchCollector(self.config.client, self._subscription, self._monitor, self._fetcher.wake)
        self._interceptors = ConsumerInterceptors(self.config)
        self._coordinator: AbstractCoordinator | None = None
        if self.config.group_id is not None:
            kind = ClassicCoordinator if self.config.group_protocol == CLASSIC else Kip848Coordinator
            self._coordinator = kind(
                *(self.config, self._cluster, self._subscription, self._monitor, self._fetcher.refresh_metadata),
                self._interceptors,
            )
        self._position_reset = PositionReset(
            self.config, self._coordinator, self._subscription, self._monitor, self._fetcher.wake
        )
        self._loop = PollLoop(
            self._subscription,
            self._monitor,
            self._fetcher,
            self._collector,
            Deserializers(self.config),
            self._interceptors,
            self._coordinator,
            self._position_reset,
        )
        self._queries = OffsetQueries(self._cluster, self.config.client.isolation_level, self._monitor, self._loop)

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | TopicFilter | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group `group.id`, whose members share the partitions.

        Replaces an earlier subscription, and takes effect in the next `poll`. An empty list of topics means
        `unsubscribe`.

        Args:
            topics: The topics' names.
            pattern: In place of topics: a regular expression that must match whole names, a `Whitelist` or a
                `Blacklist`; new topics are found within `metadata.max.age.ms`. Or a `SubscriptionPattern`, which the
                broker matches (`group.protocol=consumer`).
            listener: Called when partitions are assigned, revoked or lost.

        Raises:
            ConfigError: There is no `group.id`.
        """
        with self._use():
            coordinator = self._member()
            if (topics is None) == (pattern is None):
                raise ValueError("subscribe takes either topics or a pattern")
            named = checked_topics(() if topics is None else topics)
            if pattern is None and not named:
                self._unsubscribe()
                return
            if isinstance(pattern, SubscriptionPattern) and self.config.group_protocol == CLASSIC:
                raise ConfigError("a SubscriptionPattern is matched by the broker: that takes group.protocol=consumer")
            with self._monitor.lock:
                if pattern is None:
                    self._subscription.subscribe(named)
                else:
                    self._subscription.subscribe_to(pattern)
            coordinator.listener = listener or RebalanceListener()
            self._changed()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions and no others, whatever the group does.

        Partitions assigned before keep their positions.
        """
        with self._use():
            wanted = [TopicPartition(*tp) for tp in partitions]
            if not wanted:
                self._unsubscribe()
                return
            with self._monitor.lock:
                self._subscription.assign_manually(wanted)
            self._changed()

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group.

        The group keeps a static member's place until its session ends (KIP-345).
        """
        with self._use():
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        try:
            if self._coordinator is not None and self._subscription.grouped:
                self._coordinator.leave("the consumer unsubscribed from all topics", self.config.client.request_timeout)
        finally:
            with self._monitor.lock:
                self._subscription.unsubscribe()
            self._position_reset.forget()

    def _changed(self) -> None:
        if self._fetcher.ident is None:
            self._fetcher.start()
        self._fetcher.refresh_metadata()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read."""
        return self._subscription.assigned

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics; for a pattern, the topics that it has matched."""
        return self._subscription.topics

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Ask the group to rebalance at the next `poll`; does nothing under `group.protocol=consumer`."""
        with self._use():
            self._member().enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity, with which a producer can commit its offsets in a transaction (KIP-447)."""
        return self._member().metadata

    # Records

    def poll(self, timeout: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return at most `max_records` records (`max.poll.records`); wait `timeout` seconds for the first one.

        Joins the group and takes part in its rebalances: call it again within `max.poll.interval.ms`. Records that
        earlier calls returned count as read; with `enable.auto.commit` they are committed every
        `auto.commit.interval.ms`. Records of a partition are in order. Deserializers have been applied to keys and
        values.

        Raises:
            ValueError: `max_records` is less than 1.
            NoOffsetForPartitionError, PositionOutOfRangeError, LogTruncationError: `auto.offset.reset` is none.
            UnreadableBatchError: The next bytes are not a record batch. The position stays before them.
            Exception: A deserializer has raised it (the position stays before the record), or a listener.
        """
        limit = self.config.client.max_poll_records if max_records is None else max_records
        if limit < 1:
            raise ValueError(f"{limit} records: ask for one at least")
        return self._loop.poll(self._use(), timeout, lambda: self._loop.take(limit))

    def consume(self, num_messages: int = 1, timeout: float = 1.0) -> list[ConsumerRecord]:
        """Return the records that come within `timeout` seconds, up to `num_messages`.

        Returns early at a rebalance, an error or a wakeup, which the next call handles, and after a third of
        `max.poll.interval.ms`. Raises as `poll` does.
        """
        deadline = time.monotonic() + timeout
        taken: list[ConsumerRecord] = []
        try:
            taken = self.poll(timeout, num_messages)
            deadline = min(deadline, time.monotonic() + self.config.max_poll_interval / 3)
            with self._use():
                self._loop.take_more(taken, num_messages, deadline)
            return taken
        except BaseException:
            # It is of a signal's handler where there are records, and keeps them from the caller.
            if taken:
                self._collector.go_back()
            raise

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records without end.

        They come from `poll`. A commit inside the loop covers all records that the last `poll` returned. A loop that
        ends early gets the rest of them again next time.
        """
        while True:
            records = self.poll(self._heartbeat_pause)
            if not records:
                continue
            after = self._collector.after
            left = iter(records)
            try:
                yield from left
            finally:
                if rest := list(left):
                    self._loop.go_back(rest, after)

    def poll_fetched(self, timeout: float = 0.0) -> FetchedBatches | None:
        """Poll as `poll` does, but return what one fetch returned of one partition: record batches as the log has them.

        Batches of aborted transactions are among them, as are transaction markers and batches that begin before the
        position. Deserializers and interceptors are not applied.
        """
        return self._loop.poll(self._use(), timeout, self._collector.take_fetched)

    def poll_arrow(self, timeout: float = 0.0, columns: Sequence[str] = ARROW_COLUMNS) -> pa.RecordBatch | None:
        """Poll as `poll` does, but return one Arrow record batch: records that one fetch returned of one partition.

        `columns` are some of key, value, topic, partition, offset, timestamp, timestampType, headers, with the types of
        Spark's Kafka source. The next batches are fetched and decoded in the background. Deserializers and interceptors
        are not applied. Needs pyarrow.

        Raises:
            ValueError: A column is unknown.
        """
        from kafkalog.records.arrow import arrow_schema

        wanted = tuple(columns)
        arrow_schema(wanted)
        return self._loop.poll(self._use(), timeout, lambda: self._collector.take_arrow(wanted), wanted)

    def read_arrow(
        self, columns: Sequence[str] = ARROW_COLUMNS, *, timeout: float | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches, as `poll_arrow` returns them, until none comes for `timeout` seconds.

        Without a timeout there is no end. The position moves with each batch that is yielded, so a commit after a batch
        covers it. The timeout starts again when the first partitions are assigned.
        """
        return read_batches(
            lambda pause: self.poll_arrow(pause, columns),
            lambda: bool(self.assignment()),
            self._heartbeat_pause,
            timeout,
        )

    @property
    def _heartbeat_pause(self) -> float:
        return min(self.config.max_poll_interval / 3, 1.0)

    # Positions

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at `offset`.

        Raises:
            ValueError: The offset is negative or too large, or the partition is not assigned.
        """
        with self._use():
            wanted = checked_position(offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset))
            with self._monitor.lock:
                self._subscription.state(tp).move(wanted)
            self._fetcher.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first records of these partitions; of all assigned partitions, unless some are given."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last records of these partitions; they are looked up in the background."""
        self._seek_to(LATEST, partitions)

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        with self._use():
            with self._monitor.lock:
                for state in [self._subscription.state(tp) for tp in partitions or self._subscription.partitions]:
                    state.look_up(timestamp)
            self._fetcher.wake()

    def position(self, tp: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record.

        Raises:
            ClientTimeoutError: It is not known within `timeout` seconds.
        """
        with self._use():
            deadline = self._deadline(timeout)
            return self._loop.wait_for_position(tp, deadline, self.config.client.retry_backoff).offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, False)

    def _set_paused(self, partitions: Sequence[TopicPartition], paused: bool) -> None:
        with self._use():
            with self._monitor.lock:
                for state in [self._subscription.state(tp) for tp in partitions]:
                    state.paused = paused
            self._fetcher.wake()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return frozenset(tp for tp, state in self._subscription.partitions.items() if state.paused)

    # Commits

    def commit(self, offsets: Offsets | None = None, timeout: float | None = None) -> None:
        """Commit positions (the next offsets to read), or all that `poll` has returned, and wait until that is done.

        Raises:
            ClientTimeoutError: The commit failed again and again for `timeout` seconds (`default.api.timeout.ms`).
            CommitFailedError: The group has gone on without this member.
            RebalanceInProgressError: Call `poll` first.
        """
        with self._use():
            coordinator = self._member()
            deadline = self._deadline(timeout)
            future = coordinator.commits.begin(self._to_commit(offsets), deadline)
            # The callbacks of earlier commits are called, too.
            try:
                self._loop.wait_for(future, deadline, "the commit")
            finally:
                coordinator.commits.call_back()

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commit as `commit` does, but without waiting, and try only once; a later `poll` calls `callback`."""
        with self._use():
            self._member().commits.begin_async(self._to_commit(offsets), callback)

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._subscription.to_commit() if offsets is None else checked_offsets(offsets)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; partitions without one are left out."""
        with self._use():
            deadline = self._deadline(timeout)
            future = self._member().begin_fetching_offsets([TopicPartition(*tp) for tp in partitions], deadline)
            return self._loop.wait_for(future, deadline, "reading committed offsets")

    # Topics and offsets, whatever is assigned

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """List a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        with self._use():
            return self._queries.partitions_for(topic, self._deadline(timeout))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record of each partition that is not older than a timestamp (ms); None where there is none."""
        with self._use():
            return self._queries.offsets_for_times(timestamps, self._deadline(timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the first offset of each partition."""
        with self._use():
            return self._queries.offsets(dict.fromkeys(partitions, EARLIEST), self._deadline(timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the high watermarks; with `isolation.level=read_committed`, the last stable offsets."""
        with self._use():
            return self._queries.offsets(dict.fromkeys(partitions, LATEST), self._deadline(timeout))

    # State

    def lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end of the log; None before the first fetch."""
        return self._subscription.state(tp).lag

    def metrics(self) -> dict[str, int]:
        """Return counts under the names of Kafka's consumer metrics."""
        lags = [lag for state in self._subscription.partitions.values() if (lag := state.lag) is not None]
        member = self._coordinator
        return {
            "records-consumed-total": self._collector.records,
            "records-lag-max": max(lags, default=0),
            "fetch-total": self._fetcher.fetches,
            "assigned-partitions": len(self._subscription.partitions),
            "rebalance-total": member.rebalances if member else 0,
            "commit-total": member.commits.count if member else 0,
        }

    # Ending

    def wakeup(self) -> None:
        """Interrupt the call in which another thread waits, or else the next call: it ends with WakeupError."""
        self._monitor.wakeup()

    def close(self, timeout: float = _CLOSE_S) -> None:
        """Commit (if that is automatic), leave the group, and end all threads, within `timeout` seconds."""
        if self._single_thread.closed:
            return
        with self._use():
            # This holds for other threads, and afterwards. Until then listeners may commit.
            self._single_thread.closed = True
            self._monitor.ignore_wakeups()
            deadline = time.monotonic() + timeout
            member = self._coordinator
            try:
                if member is not None:
                    try:
                        member.commit_last(deadline)
                    finally:
                        if self._subscription.grouped:
                            member.leave("the consumer is being closed", max(deadline - time.monotonic(), 0.1))
            finally:
                # Threads that wait for a broker would otherwise try until their own deadlines.
                self._cluster.end_retries()
                self._fetcher.stop(max(deadline - time.monotonic(), 0.1))
                if member is not None:
                    member.stop(max(deadline - time.monotonic(), 0.1))
                self._cluster.close()

    # Inside

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self.config.client.default_api_timeout if timeout is None else timeout)

    def _member(self) -> AbstractCoordinator:
        if self._coordinator is None:
            raise ConfigError("group.id is missing; name the group whose partitions and offsets are meant")
        return self._coordinator

    def _note_metadata(self, found: Any) -> None:
        if self._coordinator is not None:
            self._coordinator.note_metadata(found)
