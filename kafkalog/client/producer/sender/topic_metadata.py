"""The topics that a producer writes to: their partitions' queues and leaders."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from uuid import UUID

from kafkalog.client.backoff import client_backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, ClientTimeoutError, about, is_retriable
from kafkalog.client.metadata import Broker, LeaderIdAndEpoch, TopicMetadata
from kafkalog.client.producer.accumulator import Accumulator
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import NO_LEADER, PartitionQueue
from kafkalog.client.producer.partitioner import StickyPartitioner
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartitionError
from kafkalog.protocol.messages.produce import ProduceResponse
from kafkalog.protocol.primitives import MAX_STRING

UNKNOWN_TOPIC_TRIES = 14
"""The number of times that a topic or a partition may be unknown to a broker before it counts as missing, after about
3 s. It may have been created a moment ago, or be created by the question itself (auto.create.topics.enable)."""
STEADY_TRIES = 10
"""The number of failed requests that follow each other after `retry.backoff.ms`, because most leaders are elected
meanwhile. The pauses before further ones grow (KIP-580)."""


def check_name(name: str) -> None:
    """Check the name of a topic before the sender's thread, which serves all callers, has to send it.

    Raises:
        TypeError: It is no text.
        ValueError: It cannot be sent.
    """
    if not isinstance(name, str):
        raise TypeError(f"a topic's name must be str, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name!r} is no name of a topic: {error}") from None
    if size > MAX_STRING:
        raise ValueError(f"a name of {len(name)} characters is too long for a topic")


class Patience:
    """The time that the sender's thread may wait for an answer of the cluster before it looks at time-outs again.

    The time is short at first, and grows while no answer comes: brokers may be slow rather than gone. Until the first
    answer it includes a login or a TLS handshake, which may take seconds (a KDC, a token endpoint), and would only
    be begun again. Nothing else can be done meanwhile.
    """

    LEAST_S = 0.25

    def __init__(self, config: ProducerConfig) -> None:
        self._most = max(config.client.connect_timeout, self.LEAST_S)
        is_plain = config.client.security_protocol == "PLAINTEXT"
        self._seconds = self.LEAST_S if is_plain else self._most

    def deadline(self, limit: float) -> float:
        """Return until when to wait for an answer now, hardly beyond `limit` (both `time.monotonic`)."""
        now = time.monotonic()
        return min(now + self._seconds, max(limit, now + self.LEAST_S))

    def succeeded(self) -> None:
        """Note that an answer came."""
        self._seconds = self.LEAST_S

    def failed(self, error: Exception) -> Exception:
        """Note that no answer came; return the error behind `error`."""
        self._seconds = min(self._seconds * 2, self._most)
        return error.__cause__ if isinstance(error.__cause__, ClientError) else error


class TopicState:
    """A topic: its queues by partition, and the present partition for records without a key.

    Attributes:
        queues: The queues of the existing partitions. The list is replaced, never changed, because threads that send
            records read it without the lock.
        gone: The queues of partitions that do not exist any more, because the topic was created again with fewer
            partitions.
        available: Partitions with a leader.
        error: The error that makes it impossible to write to the topic, for threads that wait for it.
        fetched: How often its metadata has been fetched.
        waiting: How many threads wait for it.
        wanted_at: When a thread waited for it last (`time.monotonic`).
    """

    __slots__ = (
        "available",
        "error",
        "fetched",
        "gone",
        "name",
        "queues",
        "sticky",
        "topic_id",
        "tries",
        "waiting",
        "wanted_at",
    )

    def __init__(self, name: str, switch_bytes: int) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.gone: dict[int, PartitionQueue] = {}
        self.available: list[int] = []
        self.sticky = StickyPartitioner(switch_bytes)
        self.error: Exception | None = None
        self.fetched = 0
        self.topic_id: UUID | None = None
        self.tries = 0
        self.waiting = 0
        self.wanted_at = float("-inf")

    def every_queue(self) -> list[PartitionQueue]:
        """Return the queues of all partitions that exist or have existed."""
        return list({**self.gone, **{queue.partition: queue for queue in self.queues}}.values())

    def is_needed(self, since: float) -> bool:
        """Tell whether a thread or a batch waits for its metadata; the lock is held.

        A thread that waited in vain, but not before `since` (`time.monotonic`), may come back. It may be one that never
        waits long, such as a delivery callback.
        """
        if self.waiting or any(queue.has_batches for queue in self.every_queue()):
            return True
        return not self.queues and self.wanted_at >= since

    @property
    def used_at(self) -> float:
        """Return when a thread last waited for it or began a batch (`time.monotonic`)."""
        return max([self.wanted_at, *(queue.used_at for queue in self.every_queue())])

    def next_queue(self, size: int) -> PartitionQueue:
        """Return the queue for a record without a key that takes `size` bytes."""
        sticky, queues = self.sticky, self.queues
        # Read once: another thread may know more partitions than `queues` has, and move on to one of them meanwhile.
        partition = sticky.partition
        if sticky.bytes_left <= 0 or partition >= len(queues):
            available = [each for each in self.available if each < len(queues)]
            partition = sticky.next(available or range(len(queues)))
        sticky.bytes_left -= size
        return queues[partition]


class Topics:
    """Topics by name. Threads that send records wait for them; the sender's thread fetches their metadata.

    Attributes:
        last_error: The error of the last attempt to reach the cluster.
    """

    def __init__(self, config: ProducerConfig, cluster: Cluster, accumulator: Accumulator) -> None:
        self.states: dict[str, TopicState] = {}
        self.last_error: Exception | None = None
        self.patience = Patience(config)
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._stale: set[str] = set()
        self._next_at = 0.0
        self._backoff = client_backoff(config.client, steady=STEADY_TRIES)
        self._in_vain = 0
        """The number of requests, one after another, that have failed or told nothing new."""
        self._aged_at = time.monotonic() + config.client.metadata_max_age

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        """Return the queue of a partition that has records."""
        state = self.states[topic]
        return state.queues[partition] if partition < len(state.queues) else state.gone[partition]

    # For threads that send records

    def wait_for(self, name: str, partition: int | None = None, *, to_send: bool = True) -> TopicState:
        """Return a topic whose partitions are known, `partition` among them; wait `max.block.ms` for it.

        Unless `to_send`, the state of a transaction does not matter.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic or partition.
            ClientTimeoutError: The partitions are not known in time.
            ProducerClosedError: The producer is closed, or was closed meanwhile.
            KafkaError: The metadata reports another error.
            TypeError, ValueError: The name cannot be sent.
        """
        check_name(name)
        accumulator = self._accumulator
        deadline = time.monotonic() + accumulator.patience()
        with accumulator.lock:
            state = self.states.get(name)
            if state is None:
                state = self.states[name] = self._new_state(name)
                self._next_at = 0.0
            if not state.queues and not state.waiting:
                # The pauses have grown because of other topics, or for threads that wait no more.
                self._in_vain = 0
            state.waiting += 1
            try:
                check = accumulator.check_open if to_send else accumulator.check_not_closed
                return self._wait(state, partition, deadline, check)
            finally:
                state.waiting -= 1
                state.wanted_at = time.monotonic()

    def _wait(self, state: TopicState, partition: int | None, deadline: float, check: Callable[[], None]) -> TopicState:
        """Wait as `wait_for` does, until `deadline`, while `check` raises nothing; the lock is held."""
        accumulator = self._accumulator
        name, fetched = state.name, state.fetched
        state.error = None
        state.tries = 0
        self._stale.add(name)
        accumulator.rouse()
        while True:
            check()
            if state.queues and (partition is None or partition < len(state.queues)):
                return state
            if state.error is not None:
                raise state.error
            if state.queues and state.fetched >= fetched + UNKNOWN_TOPIC_TRIES:
                raise UnknownTopicOrPartitionError(
                    f"topic {name} has no partition {partition}, its last is {len(state.queues) - 1}"
                )
            if state.queues and name not in self._stale:
                # The partition may have been added a moment ago, so that not all brokers know it.
                self._stale.add(name)
                accumulator.rouse()
            if not accumulator.changed.wait(max(deadline - time.monotonic(), 0)) and time.monotonic() >= deadline:
                reason = f": {self.last_error}" if self.last_error else ""
                part, limit_ms = f"partition {partition} of " if state.queues else "", self._config.max_block * 1000
                raise ClientTimeoutError(
                    f"{part}topic {name} not in metadata after {limit_ms:.0f} ms (max.block.ms){reason}"
                )

    def _new_state(self, name: str) -> TopicState:
        return TopicState(name, max(self._config.batch_size, 1))

    # For the sender

    def refresh(self, *names: str) -> None:
        """Mark the metadata of these topics as old, so that it is fetched soon."""
        with self._accumulator.lock:
            self._stale.update(names)

    def due(self, leaderless: set[str]) -> float:
        """Return when `refresh_if_due` has something to do (`time.monotonic`)."""
        if self._stale or leaderless:
            return self._next_at
        return max(self._aged_at, self._next_at) if self.states else float("inf")

    def refresh_if_due(self, leaderless: set[str], limit: float) -> bool:
        """Fetch metadata that is known to be old, until about `limit`; return whether there is new metadata."""
        now = time.monotonic()
        if now < self._next_at:
            return False
        with self._accumulator.lock:
            wanted = self._wanted(leaderless, now)
            needed = {name for name in wanted if self._is_needed(self.states[name])}
        if not wanted:
            return False
        self._next_at = now + self._backoff.pause(self._in_vain)
        self._in_vain += 1
        try:
            found = self._fetch(needed, wanted - needed, limit)
        except (ClientError, KafkaError) as error:
            self.last_error = self.patience.failed(error)
            if not is_retriable(error):
                with self._accumulator.lock:
                    self._stale -= wanted
                    for name in wanted:
                        self.states[name].error = error
                    self._accumulator.changed.notify_all()
            return False
        self.patience.succeeded()
        self.last_error = None
        with self._accumulator.lock:
            if wanted.issuperset(self._in_use()):
                # New metadata of some topics says nothing of the partitions of the others.
                self._aged_at = now + self._config.client.metadata_max_age
            for name in wanted:
                if self._update(self.states[name], found[name]):
                    self._in_vain = 0
                    self._next_at = min(self._next_at, now + self._backoff.pause(0))
            self._accumulator.changed.notify_all()
        return True

    def _in_use(self) -> set[str]:
        return {name for name, state in self.states.items() if state.queues or self._is_needed(state)}

    def _is_needed(self, state: TopicState) -> bool:
        return state.is_needed(time.monotonic() - self._config.metadata_max_idle)

    def _wanted(self, leaderless: set[str], now: float) -> set[str]:
        """Return the topics to ask for; retire those that are idle. The lock is held."""
        if now >= self._aged_at:
            self._in_vain = 0
            for state in list(self.states.values()):
                if not self._is_needed(state) and state.used_at + self._config.metadata_max_idle <= now:
                    self._retire(state)
            self._stale |= self._in_use()
            self._aged_at = now + self._config.client.metadata_max_age
        self._stale &= self.states.keys()
        return self._stale | leaderless

    def _fetch(self, needed: Collection[str], others: Collection[str], limit: float) -> dict[str, TopicMetadata]:
        """Fetch the metadata of topics; let the brokers create those that are `needed` and do not exist."""
        found: dict[str, TopicMetadata] = {}
        for names, create in ((needed, True), (others, False)):
            if names:
                deadline = self.patience.deadline(limit)
                found |= self._cluster.metadata(
                    sorted(names), refresh=True, deadline=deadline, allow_auto_topic_creation=create
                ).topics
        return found

    def _retire(self, state: TopicState) -> None:
        """Leave a topic out of requests until something is sent to it; the lock is held.

        Its queues keep their places in the producer's sequence: brokers take a sequence that begins again at 0 for one
        that they have had, and drop its records. A thread may be about to append to one of the queues. So nothing is
        sent from them before the metadata was fetched again.
        """
        self._stale.discard(state.name)
        queues = state.every_queue()
        if not queues:
            del self.states[state.name]
            return
        retired = self.states[state.name] = self._new_state(state.name)
        retired.topic_id = state.topic_id
        for queue in queues:
            queue.leader = NO_LEADER
            retired.gone[queue.partition] = queue

    def _update(self, state: TopicState, found: TopicMetadata) -> bool:
        """Apply the metadata of a topic, and return whether it tells anything new; the lock is held."""
        if found.error_code:
            self._fail(state, found)
            return False
        self._stale.discard(state.name)
        state.tries = 0
        state.fetched += 1
        count, known = len(found.partitions), state.queues
        is_new = count != len(known) or found.topic_id != state.topic_id
        if found.topic_id != state.topic_id:
            state.topic_id = found.topic_id
            for queue in (*known, *state.gone.values()):
                # The topic was created again, and its logs do not know the producer.
                queue.begun = False
        if count < len(known):
            for queue in known[count:]:
                queue.leader = NO_LEADER
                state.gone[queue.partition] = queue
            state.queues = known[:count]
        elif count > len(known):
            new = range(len(known), count)
            state.queues = known + [state.gone.get(n) or PartitionQueue(state.name, n) for n in new]
        state.available = []
        for queue in state.queues:
            partition = found.partitions.get(queue.partition)
            leader = NO_LEADER if partition is None else partition.leader
            is_new |= leader != queue.leader
            queue.leader = leader
            if leader != NO_LEADER:
                state.available.append(queue.partition)
        return is_new

    def _fail(self, state: TopicState, found: TopicMetadata) -> None:
        """Note that the metadata of a topic reports an error; the lock is held."""
        error = about(found.error_code, f"topic {found.name}")
        unknown = found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self._is_needed(state):
            # It is asked for again when something is sent to it. That would create it, and it may have been deleted.
            self._stale.discard(state.name)
            if unknown:
                self._retire(state)
            return
        state.tries += unknown
        if not error.retriable or (unknown and state.tries >= UNKNOWN_TOPIC_TRIES):
            state.error = error
            self._stale.discard(state.name)
        else:
            self.last_error = error
            self._stale.add(state.name)

    def take_leaders(self, response: ProduceResponse) -> None:
        """Take the leaders that a broker names for partitions that it does not lead (KIP-951)."""
        leaders = {
            TopicPartition(topic.name, each.index): LeaderIdAndEpoch(
                each.current_leader.leader_id, each.current_leader.leader_epoch
            )
            for topic in response.responses
            for each in topic.partition_responses
            if each.error_code and each.current_leader.leader_id != NO_LEADER
        }
        if not leaders:
            return
        brokers = [Broker(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        moved = self._cluster.learn_leaders(leaders, brokers)
        with self._accumulator.lock:
            for tp in moved:
                state = self.states.get(tp.topic)
                if state is not None and tp.partition < len(state.queues):
                    state.queues[tp.partition].leader = leaders[tp].node_id

    def close(self) -> None:
        """Wake the threads that wait for topics."""
        with self._accumulator.lock:
            self._accumulator.changed.notify_all()
