"""The thread that fetches: one request in flight to each leader, ahead of the application.

It also finds the offsets of partitions that begin at a timestamp, validates positions after a change of leaders
(KIP-320), and watches the metadata of the topics of interest. An error that is not retriable is kept with its
partition, or with the consumer, until the application's next call raises it.

Partitions are fetched by the id of the topic in which their positions are (KIP-516). A leader that does not have it,
because the topic was deleted, answers UNKNOWN_TOPIC_ID or INCONSISTENT_TOPIC_ID. Then metadata is fetched, as in Java
(`FetchCollector.handleInitializeErrors`). Where it names another topic, Java reads that from the old position on. Here
the position counts as out of range.

The thread waits for no single broker. Requests to leaders are in flight side by side (`leader_connections`). Metadata
(`metadata_watcher`) and offsets of timestamps (`offset_lookup`) can only be waited for, so threads of their own ask for
them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from kafkalog.client.backoff import client_backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.config import STEADY_TRIES, ConsumerConfig
from kafkalog.client.consumer.fetcher.asked_partition import AskedPartition, asked_at
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_position import (
    NO_EPOCH,
    FetchPosition,
    find_truncation,
    validation_request,
)
from kafkalog.client.consumer.fetcher.fetch_sessions import FetchSessions, names_of, newest_version
from kafkalog.client.consumer.fetcher.leader_connections import LeaderConnections
from kafkalog.client.consumer.fetcher.lost_positions import LostPositions
from kafkalog.client.consumer.fetcher.metadata_watcher import MetadataWatcher
from kafkalog.client.consumer.fetcher.offset_lookup import OffsetLookup, OffsetLookups
from kafkalog.client.consumer.subscription import PartitionState, SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError, InvalidResponseError, is_retriable
from kafkalog.client.fetch.fetch_request import (
    MIN_VERSION,
    named_leaders,
    read_partition,
    topic_of,
)
from kafkalog.client.metadata import Broker, ClusterMetadata, Leader
from kafkalog.client.network.waker import Waker
from kafkalog.client.types import OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.errors import (
    CorruptMessageError,
    InconsistentTopicIdError,
    KafkaError,
    OffsetOutOfRangeError,
    UnknownServerError,
    UnknownTopicIdError,
    UnsupportedVersionError,
    error_for,
)
from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from kafkalog.protocol.schema import ZERO_UUID
from kafkalog.protocol.wire.releases import EPOCHS_FOR_CONSUMERS

logger = logging.getLogger(__name__)

_IMPATIENT_S = 0.025
"""The time that a leader waits for records while some of its partitions are left out, because enough of them was
fetched. It is short, so that they are asked for soon after the application has taken records."""
_IDLE_S = 5.0


class Fetcher(threading.Thread):
    """Fill the partitions' completed fetches. `on_metadata` is called with metadata of the topics of interest.

    Attributes:
        columns: The Arrow columns to which fetches are decoded as they arrive; None: they are not.
        failure: An error that belongs to no partition, for the application's next call to raise.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        monitor: Monitor,
        on_metadata: Callable[[ClusterMetadata], None],
    ) -> None:
        super().__init__(name="kafkalog-consumer-fetch", daemon=True)
        self._client, self._rack = config.client, config.client_rack
        self._cluster, self._subscription, self._monitor = cluster, subscription, monitor
        self._waker = Waker()
        self._stopping = False
        self._leaders = LeaderConnections(cluster, self._waker)
        self._sessions = FetchSessions()
        self._busy: set[TopicPartition] = set()
        """The partitions that a request in flight is about."""
        self._watcher = MetadataWatcher(config, cluster, subscription, monitor, on_metadata, self._waker.wake)
        self._lookups = OffsetLookups(cluster, config.client.isolation_level, self._waker.wake)
        self._lost = LostPositions(config.client)
        self._nothing_before = 0.0
        self._backoff = client_backoff(config.client, steady=STEADY_TRIES)
        self.columns: tuple[str, ...] | None = None
        self.failure: Exception | None = None
        self.fetches = 0

    # The application's side

    def wake(self) -> None:
        """Wake the thread, because it may have something to do."""
        self._waker.wake()

    def refresh_metadata(self) -> None:
        """Fetch the metadata of the topics of interest now."""
        self._watcher.refresh()
        self._waker.wake()

    def stop(self, timeout: float) -> None:
        """End the thread and close all connections; wait up to `timeout` seconds for that."""
        self._stopping = True
        self._waker.wake()
        self._leaders.interrupt()
        if self.ident is not None:
            self.join(timeout)
        else:
            # The thread closes it at its end, and there was none.
            self._waker.close()

    # The thread

    def run(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._once()
                except Exception as error:
                    # The error belongs to no partition or leader, so the same step would fail again at once.
                    self._report(error)
                    self._nothing_before = time.monotonic() + self._client.retry_backoff
        finally:
            self._leaders.close()
            self._watcher.stop()
            self._waker.close()

    def _report(self, error: Exception) -> None:
        """Keep an error for the application's next call, unless it is retriable."""
        if self._stopping:
            return
        if is_retriable(error):
            logger.info("trying again: %s", error)
        else:
            with self._monitor.lock:
                self.failure = error
            self._monitor.notify()

    def _once(self) -> None:
        pause = self._nothing_before - time.monotonic()
        if pause <= 0:
            try:
                self._watcher.step()
            except Exception as error:
                # The watcher pauses by itself; known leaders are asked all the same.
                self._report(error)
            self._look_up()
            self._ask()
        self._leaders.wait(self._patience())

    def _patience(self) -> float:
        """Return how many seconds to wait at most for sockets."""
        now = time.monotonic()
        with self._monitor.lock:
            retries = [state.retry_at for state in self._subscription.partitions.values() if state.retry_at > now]
        times = [now + _IDLE_S, *retries, self._leaders.next_deadline(), self._watcher.next_time()]
        if self._nothing_before > now:
            times = [self._nothing_before]
        return max(min(times) - now, 0.001)

    # Positions

    def _look_up(self) -> None:
        """Look up the offsets of partitions that begin at a timestamp."""
        for lookup, answer in self._lookups.finished():
            self._found(lookup, answer)
        now, busy = time.monotonic(), self._lookups.partitions
        with self._monitor.lock:
            wanted = [
                OffsetLookup(state, state.version, state.reset)
                for tp, state in self._subscription.partitions.items()
                if state.reset is not None and state.retry_at <= now and state.error is None and tp not in busy
            ]
        by_leader: dict[int, dict[TopicPartition, OffsetLookup]] = defaultdict(dict)
        for each in wanted:
            leader = self._leader_of(each.state, each.version)
            if leader is not None and self._lookups.idle(leader.broker.node_id):
                by_leader[leader.broker.node_id][each.state.tp] = each._replace(topic_id=leader.topic_id)
        for node_id, lookups in by_leader.items():
            self._lookups.begin(node_id, lookups)

    def _found(self, lookup: OffsetLookup, answer: OffsetAndTimestamp | Exception) -> None:
        state = lookup.state
        if isinstance(answer, Exception):
            self._partition_failed(state, lookup.version, answer)
            return
        with self._monitor.lock:
            if state.version == lookup.version:
                # Without the epoch: a log of old message formats cannot validate it (Java's `resetPositionIfNeeded`).
                state.move(FetchPosition(max(answer.offset, 0)), lookup.topic_id)
        self._monitor.notify()

    def _leader_of(self, state: PartitionState, version: int) -> Leader | None:
        """Return the leader; None while it is being looked for."""
        try:
            leader = self._cluster.known_leader(state.tp)
        except Exception as error:
            self._partition_failed(state, version, error)
            return None
        if leader is None:
            self._watcher.soon()
        else:
            state.note_leader(leader)
        return leader

    def _fail(self, state: PartitionState, error: Exception) -> None:
        """Pause the partition where the error may pass; otherwise keep the error for the application."""
        if _may_pass(error):
            # As in Java, a broker's error that tells nothing is no reason to stop, and none to be silent.
            level = logging.INFO if is_retriable(error) else logging.WARNING
            logger.log(level, "partition %s: trying again: %s", state.tp, error)
            state.failures += 1
        else:
            state.error = error
        state.retry_at = time.monotonic() + self._backoff.pause(state.failures)

    def _to_validate(self, asked: AskedPartition) -> bool:
        """Tell whether the position must be validated at the leader before the partition is fetched."""
        with self._monitor.lock:
            state, epoch = asked.state, asked.leader_epoch
            if epoch > state.leader_epoch and asked.position.epoch != NO_EPOCH:
                return True
            if state.version == asked.version:
                state.leader_epoch = max(epoch, state.leader_epoch)
            return False

    def _take_epochs(
        self,
        asked: dict[TopicPartition, AskedPartition],
        response: OffsetForLeaderEpochResponse | None,
        failure: Exception | None,
    ) -> None:
        """Handle a leader's answer about the epochs of positions."""
        answers = {
            TopicPartition(topic.topic, each.partition): each
            for topic in (response.topics if response is not None else ())
            for each in topic.partitions
        }
        for tp, each in asked.items():
            try:
                if failure is not None:
                    raise failure
                if tp not in answers:
                    raise InvalidResponseError(f"the leader's answer leaves out partition {tp}")
                divergent = find_truncation(tp, each.position, answers[tp])
            except Exception as error:
                self._partition_failed(each.state, each.version, error)
                continue
            with self._monitor.lock:
                if each.state.version == each.version:
                    if divergent is not None:
                        self._lost.truncated(each.state, divergent)
                    if each.state.error is None:
                        each.state.leader_epoch = each.leader_epoch
        self._monitor.notify()

    # Fetching

    def _ask(self) -> None:
        """Send a request to every leader that has none in flight."""
        now = time.monotonic()
        states = list(self._subscription.partitions.values())
        for state in states:
            if state.failures and state.retry_at > now:
                # It may have another leader by now.
                with suppress(KafkaError):
                    if (known := self._cluster.known_leader(state.tp)) is not None:
                        state.note_leader(known)
        with self._monitor.lock:
            states = list(self._subscription.partitions.values())
            open_ = [
                (state, state.version, state.fetched)
                for state in states
                if state.tp not in self._busy and state.fetchable(now)
            ]
            full = any(state.ready() and not state.fetchable(now) for state in states)
        by_broker: dict[Broker, list[AskedPartition]] = defaultdict(list)
        for state, version, position in open_:
            leader = self._leader_of(state, version)
            if leader is None or position is None or not self._is_there(state, version, leader):
                continue
            asked = asked_at(state, version, position, leader)
            follower = None if self._to_validate(asked) else self._follower_of(state, now)
            if follower is not None and follower != leader.broker:
                asked = replace(asked, of_follower=True)
            broker = follower or leader.broker
            if self._leaders.idle(broker):
                by_broker[broker].append(asked)
        for broker, wanted in by_broker.items():
            try:
                if self._leaders.connected(broker) is not None:
                    self._send(broker, wanted, impatient=full)
            except Exception as error:
                self._failed(wanted, error)

    def _is_there(self, state: PartitionState, version: int, leader: Leader) -> bool:
        """Tell whether the topic of the position may still be there; begin again in the new one where it is not."""
        with self._monitor.lock:
            if state.version != version:
                return False
            if state.topic_id == ZERO_UUID:
                state.topic_id = leader.topic_id
            if not state.refused:
                return True
            if leader.topic_id in (state.topic_id, ZERO_UUID):
                # The leader may not have been told yet of a new topic.
                state.refused = False
                return True
            self._lost.created_again(state)
        self._monitor.notify()
        return False

    def _follower_of(self, state: PartitionState, now: float) -> Broker | None:
        """Return the follower to which the leader wants fetches of a partition sent; or None."""
        if state.replica is None:
            return None
        node_id, until = state.replica
        found = self._cluster.metadata([]).brokers.get(node_id) if now < until else None
        if found is None:
            state.replica = None
        return found

    def _failed(self, asked: Iterable[AskedPartition], error: Exception) -> None:
        for each in asked:
            self._partition_failed(each.state, each.version, error)

    def _partition_failed(
        self, state: PartitionState, version: int, error: Exception, *, has_leader: bool = False
    ) -> None:
        """Handle an error of a partition. Where `has_leader`, metadata already has another leader of it."""
        with self._monitor.lock:
            state.replica = None
            if state.version == version:
                state.refused |= isinstance(error, UnknownTopicIdError | InconsistentTopicIdError)
                self._fail(state, error)
        if _may_pass(error):
            if not has_leader:
                self._cluster.forget([state.tp.topic])
            self._watcher.soon()
        self._monitor.notify()

    def _send(self, broker: Broker, wanted: list[AskedPartition], *, impatient: bool) -> None:
        """Fetch the records of partitions; or, if some positions must be validated, send the request for that first."""
        unsound = {each.state.tp: each for each in wanted if self._to_validate(each)}
        client = self._client
        if unsound and self._validate(broker, unsound):
            return
        asked = {each.state.tp: each for each in wanted}
        version = self._leaders.version_of(broker, FetchRequest, newest_version(asked), MIN_VERSION)
        fetch = self._sessions.build(broker.node_id, asked, version, client.max_partition_fetch_bytes)
        max_wait = min(_IMPATIENT_S, client.fetch_max_wait) if impatient else client.fetch_max_wait
        fetch.max_wait_ms, fetch.min_bytes = round(max_wait * 1000), client.fetch_min_bytes
        fetch.max_bytes, fetch.isolation_level = client.fetch_max_bytes, client.isolation_level
        fetch.rack_id = self._rack
        try:
            self._leaders.send(
                broker,
                fetch,
                lambda response, error: self._answered(asked, lambda: self._take_fetch(broker, asked, response, error)),
                client.request_timeout + client.fetch_max_wait,
                min_version=version,
                max_version=version,
            )
        except Exception:
            self._sessions.unanswered(broker.node_id)
            raise
        self._busy |= asked.keys()

    def _validate(self, broker: Broker, unsound: dict[TopicPartition, AskedPartition]) -> bool:
        """Ask the leader about the epochs of positions; return False if it is too old to be asked."""
        try:
            self._leaders.send(
                broker,
                validation_request((tp, each.position, each.leader_epoch) for tp, each in unsound.items()),
                lambda response, error: self._answered(unsound, lambda: self._take_epochs(unsound, response, error)),
                self._client.request_timeout,
                min_version=EPOCHS_FOR_CONSUMERS.version,
            )
        except UnsupportedVersionError:
            return False
        self._busy |= unsound.keys()
        return True

    def _answered(self, asked: dict[TopicPartition, AskedPartition], act: Callable[[], None]) -> None:
        self._busy -= asked.keys()
        if not self._stopping:
            act()

    def _take_fetch(
        self,
        broker: Broker,
        asked: dict[TopicPartition, AskedPartition],
        response: FetchResponse | None,
        error: Exception | None,
    ) -> None:
        if response is None:
            self._sessions.unanswered(broker.node_id)
        elif not self._sessions.answered(broker.node_id, response):
            logger.info("fetching: broker %d has lost the session: %s", broker.node_id, error_for(response.error_code))
            return
        elif response.error_code:
            error = error_for(response.error_code)
        if error is not None or response is None:
            if isinstance(error, ConnectionFailedError | ClientTimeoutError):
                logger.info("fetching: %s", error)
            self._failed(asked.values(), error or InvalidResponseError("no answer"))
            return
        self.fetches += 1
        moved = self._cluster.learn_leaders(*named_leaders(response, names_of(asked, with_others=False)))
        names = names_of(asked, with_others=True)
        for topic in response.responses:
            name = topic_of(topic, names)
            if name is None:
                continue
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                found = asked.get(tp)
                if found is not None and topic.topic_id in (found.topic_id, ZERO_UUID):
                    self._take(found, data, topic.topic_id, has_moved=tp in moved)
        self._monitor.notify()

    def _take(self, asked: AskedPartition, data: PartitionData, topic_id: UUID, *, has_moved: bool) -> None:
        """Take what a response has of a partition; `topic_id` is zero where the topic goes by its name.

        `has_moved` says that the response has named its leader, which was unknown.
        """
        state, tp = asked.state, asked.state.tp
        completed: CompletedFetch | None = None
        try:
            if asked.is_other and topic_id == ZERO_UUID:
                # The broker speaks no version with ids, so this may be of the new topic.
                raise UnknownTopicIdError(f"the topic of partition {tp} has another id now")
            fetched = read_partition(tp, data, asked.position.offset)
            if len(fetched.records):
                completed = CompletedFetch(tp, asked.position.offset, fetched, asked.leader_epoch, topic_id)
                if self.columns is not None:
                    completed.decode_arrow(self.columns, self._client)
        except OffsetOutOfRangeError as error:
            with self._monitor.lock:
                state.replica = None
                if state.version == asked.version:
                    self._lost.out_of_range(asked, error)
            return
        except CorruptMessageError as error:
            with self._monitor.lock:
                state.replica = None
                if state.version == asked.version:
                    self._lost.unreadable(asked, error)
            return
        except Exception as error:
            self._partition_failed(state, asked.version, error, has_leader=has_moved)
            return
        with self._monitor.lock:
            if state.version != asked.version:
                return
            state.failures = 0
            state.high_watermark = fetched.high_watermark
            state.last_stable_offset = fetched.last_stable_offset
            state.log_start_offset = fetched.log_start_offset
            if data.preferred_read_replica >= 0:
                state.replica = data.preferred_read_replica, time.monotonic() + self._client.metadata_max_age
            if completed is None:
                return
            if completed.next.offset > asked.position.offset:
                state.completed_fetches.append(completed)
                state.fetched = completed.next
            elif completed.failure is not None:
                state.completed_fetches.append(completed)


def _may_pass(error: BaseException) -> bool:
    """Tell whether to try again without the application's doing."""
    return is_retriable(error) or isinstance(error, UnknownServerError)
