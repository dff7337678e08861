"""The thread that fetches: one request in flight to each leader, ahead of what the application takes.

It also finds the offsets of partitions that begin at a timestamp, validates positions after a change of leaders
(KIP-320), and keeps an eye on the metadata of the topics of interest. Errors that trying again does not help against
are left with their partition, or with the consumer, for the application's next call.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from kafkalog.client.cluster import Broker, Cluster, ClusterMetadata
from kafkalog.client.connection import Connection
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError, is_retriable
from kafkalog.client.fetcher import MAX_VERSION, MIN_VERSION, fetch_request, read_partition
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import (
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    error_for,
)
from kafkalog.protocol.messages.fetch import FetchResponse, PartitionData

from .chunk import Chunk
from .config import ConsumerConfig
from .errors import LogTruncationError
from .positions import NO_EPOCH, Position
from .shared import Shared, Waker
from .subscription import Kind, PartitionState, SubscriptionState
from .validation import Truncated, validate

_log = logging.getLogger(__name__)

RESET_TIMESTAMPS = {"earliest": EARLIEST, "latest": LATEST}
_RESOLVE_S = 5.0
"""How long finding offsets may take before other partitions have their turn."""
_IMPATIENT_S = 0.025
"""What a leader waits for records while partitions of its are left out because enough of them was fetched: they are
asked for soon after the application has taken it."""
_IDLE_S = 5.0
_MISSING_S = 1.0
"""How often is looked for topics that are not there."""


@dataclass(frozen=True)
class _Asked:
    """A partition in a request: which version of its state, from where."""

    state: PartitionState
    version: int
    offset: int
    leader_epoch: int


class Fetcher(threading.Thread):
    """Fills the partitions' chunks. ``on_metadata`` is called with what there is of the topics of interest."""

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        shared: Shared,
        on_metadata: Callable[[ClusterMetadata], None],
    ) -> None:
        super().__init__(name="kafkalog-consumer-fetch", daemon=True)
        self._config, self._client = config, config.client
        self._cluster, self._subscription, self._shared = cluster, subscription, shared
        self._on_metadata = on_metadata
        self._waker = Waker()
        self._stopping = False
        self._connections: dict[int, tuple[Broker, Connection]] = {}
        self._asked: dict[int, dict[TopicPartition, _Asked]] = {}
        self._deadlines: dict[int, float] = {}
        self._watch_at = 0.0
        self._watched: frozenset[str] | None = frozenset()
        self._nothing_before = 0.0
        self.columns: tuple[str, ...] | None = None
        """Arrow columns that chunks are decoded to as they come."""
        self.failure: Exception | None = None
        """What the application is to be told, of no partition's own."""
        self.fetches = 0

    # The application's side

    def wake(self) -> None:
        """There may be something to do."""
        self._waker.wake()

    def refresh_metadata(self) -> None:
        """Look at the topics of interest now."""
        self._watch_at = 0.0
        self._waker.wake()

    def stop(self, timeout: float) -> None:
        """End, and close all connections; waits for that up to ``timeout`` seconds."""
        self._stopping = True
        self._waker.wake()
        for _, connection in list(self._connections.values()):
            connection.interrupt()
        if self.ident is not None:
            self.join(timeout)

    # The thread

    def run(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._once()
                except Exception as error:
                    self._report(error)
        finally:
            for _, connection in self._connections.values():
                connection.close()
            self._waker.close()

    def _report(self, error: Exception) -> None:
        """Note what has happened, and pause."""
        if self._stopping:
            return
        if is_retriable(error):
            _log.info("trying again: %s", error)
        else:
            with self._shared.lock:
                self.failure = error
            self._shared.notify()
        self._nothing_before = time.monotonic() + self._client.retry_backoff

    def _once(self) -> None:
        pause = self._nothing_before - time.monotonic()
        if pause <= 0:
            self._watch()
            self._look_up()
            self._ask()
        self._wait(self._patience())

    def _patience(self) -> float:
        """Seconds until something is to be done that no socket tells."""
        now = time.monotonic()
        with self._shared.lock:
            retries = [state.retry_at for state in self._subscription.partitions.values() if state.retry_at > now]
        times = [now + _IDLE_S, self._watch_at, *retries, *self._deadlines.values()]
        if self._nothing_before > now:
            times = [self._nothing_before]
        return max(min(times) - now, 0.001)

    # Metadata

    def _watch(self) -> None:
        now = time.monotonic()
        with self._shared.lock:
            kind = self._subscription.kind
            wanted = None if kind is Kind.PATTERN else self._subscription.watched
        if kind is Kind.NONE or wanted == frozenset():
            self._watch_at = now + _IDLE_S
            return
        if now < self._watch_at and wanted == self._watched:
            return
        self._watch_at = now + max(self._client.retry_backoff, 0.01)
        create = self._config.allow_auto_create_topics and kind is Kind.TOPICS
        found = self._cluster.metadata(
            wanted, refresh=True, deadline=now + self._client.request_timeout, allow_auto_topic_creation=create
        )
        self._watched = wanted
        missing = False
        for topic in found.topics.values():
            error = error_for(topic.error_code, f"topic {topic.name}") if topic.error_code else None
            if isinstance(error, InvalidTopicError | TopicAuthorizationFailedError) and kind is not Kind.PATTERN:
                raise error
            missing |= error is not None
        self._watch_at = now + (
            min(_MISSING_S, self._client.metadata_max_age) if missing else self._client.metadata_max_age
        )
        self._on_metadata(found)
        self._shared.notify()

    # Positions

    def _look_up(self) -> None:
        """Find the positions of partitions that begin at a timestamp."""
        now = time.monotonic()
        with self._shared.lock:
            wanted = {
                tp: (state, state.version, state.reset)
                for tp, state in self._subscription.partitions.items()
                if state.reset is not None and state.retry_at <= now and state.error is None
            }
        if not wanted:
            return
        timestamps = {tp: reset for tp, (_, _, reset) in wanted.items() if reset is not None}
        error: Exception | None = None
        try:
            found = list_offsets(self._cluster, timestamps, self._client.isolation_level, now + _RESOLVE_S)
        except Exception as failure:
            error, found = failure, {}
        with self._shared.lock:
            for tp, (state, version, _) in wanted.items():
                if state.version != version:
                    continue
                if tp in found:
                    state.move(Position(max(found[tp].offset, 0), found[tp].leader_epoch))
                elif error is not None:
                    self._fail(state, error)
        self._shared.notify()

    def _fail(self, state: PartitionState, error: Exception) -> None:
        """Have the partition rest for a while, or the application told."""
        if is_retriable(error):
            _log.info("partition %s: trying again: %s", state.tp, error)
        else:
            state.error = error
        state.retry_at = time.monotonic() + self._client.retry_backoff

    def _validated(self, state: PartitionState, version: int, epoch: int) -> bool:
        """Whether what was read of the partition is in the log of the leader of ``epoch``; where not, act upon it."""
        with self._shared.lock:
            position = state.fetched
            if state.version != version or position is None:
                return False
            if epoch <= state.leader_epoch or position.epoch == NO_EPOCH:
                state.leader_epoch = max(epoch, state.leader_epoch)
                return True
        divergent = validate(self._cluster, state.tp, position, epoch)
        with self._shared.lock:
            if state.version != version:
                return False
            state.leader_epoch = epoch
            if divergent is None:
                return True
            self._truncated(state, divergent)
            state.leader_epoch = epoch
        self._shared.notify()
        return False

    def _truncated(self, state: PartitionState, divergent: Truncated) -> None:
        """The leader's log ends, or differs, below what was fetched."""
        position, end = state.position, divergent.end
        assert position is not None
        if end is not None and end.offset >= position.offset:
            # What was handed out is still there.
            state.refetch()
            return
        reset = RESET_TIMESTAMPS.get(self._client.auto_offset_reset)
        if reset is None:
            known = {state.tp: OffsetAndMetadata(end.offset, end.epoch)} if end is not None else {}
            state.refetch()
            state.error = LogTruncationError({state.tp: position.offset}, known)
        elif end is not None:
            _log.warning(
                "partition %s: the log was truncated; going back from %d to %d", state.tp, position.offset, end.offset
            )
            state.move(end)
        else:
            _log.warning(
                "partition %s: the log was truncated; going on with the %s", state.tp, self._client.auto_offset_reset
            )
            state.look_up(reset)

    # Fetching

    def _ask(self) -> None:
        """Send a fetch to every leader that has none in flight."""
        now = time.monotonic()
        busy = {tp for asked in self._asked.values() for tp in asked}
        with self._shared.lock:
            states = list(self._subscription.partitions.values())
            open_ = [(state, state.version) for state in states if state.tp not in busy and state.fetchable(now)]
            full = any(state.ready() and not state.fetchable(now) for state in states)
        by_leader: dict[Broker, list[tuple[PartitionState, int, int]]] = defaultdict(list)
        for state, version in open_:
            try:
                leader = self._cluster.leader_now(state.tp, now + self._client.request_timeout)
                if leader.broker.node_id in self._asked or not self._validated(state, version, leader.epoch):
                    continue
                by_leader[leader.broker].append((state, version, leader.epoch))
            except Exception as error:
                self._partition_failed(state, version, error)
        for broker, wanted in by_leader.items():
            self._send(broker, wanted, impatient=full)

    def _partition_failed(self, state: PartitionState, version: int, error: Exception) -> None:
        with self._shared.lock:
            if state.version == version:
                self._fail(state, error)
        if is_retriable(error):
            self._cluster.forget([state.tp.topic])
        self._shared.notify()

    def _send(self, broker: Broker, wanted: list[tuple[PartitionState, int, int]], *, impatient: bool) -> None:
        client = self._client
        asked: dict[TopicPartition, _Asked] = {}
        with self._shared.lock:
            for state, version, epoch in wanted:
                if state.version == version and state.fetched is not None:
                    asked[state.tp] = _Asked(state, version, state.fetched.offset, epoch)
        if not asked:
            return
        request = fetch_request(
            [(tp, each.offset, each.leader_epoch) for tp, each in asked.items()],
            client,
            max_bytes=client.fetch_max_bytes,
            partition_max_bytes=client.max_partition_fetch_bytes,
            isolation_level=client.isolation_level,
            max_wait=min(_IMPATIENT_S, client.fetch_max_wait) if impatient else None,
        )
        try:
            connection = self._connected(broker)
            connection.send(request, min_version=MIN_VERSION, max_version=MAX_VERSION)
        except Exception as error:
            for each in asked.values():
                self._partition_failed(each.state, each.version, error)
            return
        self._asked[broker.node_id] = asked
        self._deadlines[broker.node_id] = time.monotonic() + client.request_timeout + client.fetch_max_wait

    def _connected(self, broker: Broker) -> Connection:
        known = self._connections.get(broker.node_id)
        if known is not None:
            at, connection = known
            if at == broker and not connection.closed and not connection.expired:
                return connection
            connection.close()
        connection = self._cluster.connect(broker)
        self._connections[broker.node_id] = (broker, connection)
        return connection

    def _wait(self, timeout: float) -> None:
        """Receive the answers that come within ``timeout`` seconds; returns with the first."""
        waiting = {node_id: self._connections[node_id][1] for node_id in self._asked}
        ready = [node_id for node_id, connection in waiting.items() if not connection.closed and connection.readable()]
        if not ready:
            poller = select.poll()
            nodes = {}
            for node_id, connection in waiting.items():
                if connection.closed:
                    ready.append(node_id)
                    continue
                poller.register(connection, select.POLLIN)
                nodes[connection.fileno()] = node_id
            poller.register(self._waker, select.POLLIN)
            answers = poller.poll(0 if ready else timeout * 1000)
            ready += [nodes[fileno] for fileno, _ in answers if fileno in nodes]
            self._waker.clear()
        now = time.monotonic()
        late = [node_id for node_id, deadline in self._deadlines.items() if deadline < now and node_id not in ready]
        for node_id in late:
            waiting[node_id].close()
        for node_id in [*ready, *late]:
            asked = self._asked.pop(node_id)
            del self._deadlines[node_id]
            self._receive(waiting[node_id], asked)

    def _receive(self, connection: Connection, asked: dict[TopicPartition, _Asked]) -> None:
        try:
            response: FetchResponse = connection.receive()
            if response.error_code:
                raise error_for(response.error_code)
        except Exception as error:
            if self._stopping:
                return
            connection.close()
            if isinstance(error, ConnectionFailedError | ClientTimeoutError):
                _log.info("fetching from %s: %s", connection.address, error)
            for each in asked.values():
                self._partition_failed(each.state, each.version, error)
            return
        self.fetches += 1
        for topic in response.responses:
            for data in topic.partitions:
                found = asked.get(TopicPartition(topic.topic, data.partition_index))
                if found is not None:
                    self._take(found, data)
        self._shared.notify()

    def _take(self, asked: _Asked, data: PartitionData) -> None:
        state, tp = asked.state, asked.state.tp
        chunk: Chunk | None = None
        try:
            fetched = read_partition(tp, data, asked.offset)
            if len(fetched.records):
                chunk = Chunk(tp, asked.offset, fetched, asked.leader_epoch)
                if self.columns is not None:
                    chunk.decode_arrow(self.columns, self._client)
        except OffsetOutOfRangeError as error:
            self._out_of_range(asked, error)
            return
        except Exception as error:
            self._partition_failed(state, asked.version, error)
            return
        with self._shared.lock:
            if state.version != asked.version:
                return
            state.high_watermark = fetched.high_watermark
            state.last_stable_offset = fetched.last_stable_offset
            state.log_start_offset = fetched.log_start_offset
            if chunk is not None and chunk.next.offset > asked.offset:
                state.chunks.append(chunk)
                state.fetched = chunk.next

    def _out_of_range(self, asked: _Asked, error: OffsetOutOfRangeError) -> None:
        state = asked.state
        reset = RESET_TIMESTAMPS.get(self._client.auto_offset_reset)
        with self._shared.lock:
            if state.version != asked.version:
                return
            if state.chunks:
                # What was fetched is handed out first; then it is asked again.
                state.retry_at = time.monotonic() + self._client.retry_backoff
                return
            if reset is None:
                state.error = error
                return
            _log.warning(
                "partition %s has no offset %d: going on with the %s",
                state.tp,
                asked.offset,
                self._client.auto_offset_reset,
            )
            state.look_up(reset)
