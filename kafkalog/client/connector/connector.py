"""The consumer connector: a member of a group in ZooKeeper, its streams, and the threads that serve them.

One thread carries out the member's steps: it rebalances when a watch tells of a change, and keeps the lease of the
session by asking ZooKeeper. Others fetch (`fetchers`), and one commits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.client.closing import Closing
from kafkalog.client.config import ClientConfig
from kafkalog.client.connector.assignment import STRATEGIES
from kafkalog.client.connector.config import KAFKA, ZOOKEEPER, ConnectorConfig
from kafkalog.client.connector.events import Event
from kafkalog.client.connector.fetchers import Fetchers
from kafkalog.client.connector.lease import Lease
from kafkalog.client.connector.member import (
    AnnounceRelease,
    CommitOffsets,
    ConsumerRebalanceFailedError,
    LoadOffsets,
    Member,
    Pause,
    StartFetching,
    StopFetching,
    Watch,
)
from kafkalog.client.connector.metrics import Readings, named
from kafkalog.client.connector.offset_stores import (
    ChosenStore,
    OffsetStore,
    PartitionsReleasedError,
    commit_with_retries,
)
from kafkalog.client.connector.rebalance_listener import ConnectorRebalanceListener
from kafkalog.client.connector.streams import Decoder, MessageStream, PartitionState
from kafkalog.client.connector.subscription import Subscription, ThreadId
from kafkalog.client.consumer.topic_filter import TopicFilter
from kafkalog.client.errors import ClientError
from kafkalog.client.properties.foreign import warn_about
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper.brokers import in_session
from kafkalog.client.zookeeper.steps import ConnectionLossError, SessionExpiredError, Steps
from kafkalog.protocol.errors import KafkaError
from kafkalog.zookeeper.values import SessionState

logger = logging.getLogger(__name__)

QUESTIONS = 10
"""Questions to ZooKeeper in a session's time-out, which keep the lease."""
END_S = 30.0
"""The time that a shutdown waits for each thread."""


class MessageStreamsExistError(ClientError):
    """The connector has streams already; a connector makes them once."""


class ConsumerConnector(Closing):
    """Read topics as a member of a group in ZooKeeper, in streams; the package says when to use it.

    Args:
        config: The settings, or properties of them; `zookeeper.connect` and `group.id` at least.

    Raises:
        ConfigError: A property cannot have its value.
        ConnectionLossError: No ZooKeeper answers.
        AccessDeniedError: It refuses the login.
    """

    def __init__(self, config: ConnectorConfig | Mapping[str, Any]) -> None:
        self.config = config if isinstance(config, ConnectorConfig) else ConnectorConfig.from_dict(config)
        if not isinstance(config, ConnectorConfig):
            warn_about(self.config.unknown)
        self.consumer_id = self.config.new_consumer_id()
        self._lease = Lease(self.config.session_timeout)
        self._events = threading.Condition()
        self._pending: Event | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        """Held while offsets are committed, and while the partitions change."""
        self._session = self.config.open_session(
            on_watch=self._watched,
            on_state=self._session_changed,
            on_grant=self._lease.grant,
            on_answer=self._lease.renew,
        )
        self._member: Member | None = None
        self._stream_of: Callable[[str, ThreadId], MessageStream] | None = None
        self._streams: list[MessageStream] = []
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._stopped: dict[TopicPartition, PartitionState] = {}
        """Partitions that are not fetched any more and are this member's still."""
        self._has_stopped = False
        """True from the time that partitions are given up until others, or the same ones, are fetched."""
        self._listener: ConnectorRebalanceListener | None = None
        self._is_announcing = False
        """True if the listener is being called. The partitions are still this member's meanwhile."""
        self._fetchers: Fetchers | None = None
        self._store = ChosenStore(self.config, self._session, self._client)
        """Used by the holder of the lock only."""
        self._began = time.monotonic()
        self._threads: list[threading.Thread] = []

    # For the application

    def create_message_streams(
        self,
        topics: Mapping[str, int],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> dict[str, list[MessageStream]]:
        """Join the group and return the streams of each topic: as many as `topics` says.

        Raises:
            MessageStreamsExistError: The connector has streams already.
            ConsumerRebalanceFailedError: The first rebalance failed `rebalance.max.retries` times.
            ZooKeeperError: ZooKeeper does not answer. The connector has no streams, and the call may be repeated.
        """
        subscription = Subscription.of_topics(topics)
        found = {
            topic: [self._new_stream(key_decoder, value_decoder) for _ in range(count)]
            for topic, count in topics.items()
        }
        streams = [stream for each in found.values() for stream in each]
        self._join(subscription, streams, lambda topic, thread: found[topic][thread.number])
        return found

    def create_message_streams_by_filter(
        self,
        topics: TopicFilter,
        streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> list[MessageStream]:
        """Join the group and return streams of all topics that a `Whitelist` or `Blacklist` allows, now and later.

        Raises:
            MessageStreamsExistError, ConsumerRebalanceFailedError, ZooKeeperError: As `create_message_streams`.
        """
        subscription = Subscription.of_filter(topics, streams)
        found = [self._new_stream(key_decoder, value_decoder) for _ in range(streams)]
        self._join(subscription, found, lambda topic, thread: found[thread.number])
        return found

    def set_rebalance_listener(self, listener: ConnectorRebalanceListener) -> None:
        """Call a listener before partitions are released (Kafka 0.9: `setConsumerRebalanceListener`).

        Raises:
            MessageStreamsExistError: The connector has streams already, and may be releasing some.
        """
        if self._member is not None:
            raise MessageStreamsExistError("a ConsumerConnector takes a rebalance listener before it has streams")
        self._listener = listener

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the connector reads."""
        return set(self._partitions)

    def metrics(self) -> dict[str, float]:
        """Return totals since the connector was made, and present values, under the names of Kafka 0.8.2's metrics.

        Tags stand at the end of a name: `ConsumerLag,topic=visits,partition=0`.
        """
        messages: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for stream in self._streams:
            taken, fetched = stream.counts()
            messages += taken
            sizes += fetched
        partitions = self._partitions
        member = self._member
        return named(
            Readings(
                seconds=time.monotonic() - self._began,
                messages=messages,
                bytes=sizes,
                owned=partitions.keys(),
                lags={tp: lag for tp, each in partitions.items() if (lag := each.lag) is not None},
                rebalances=0 if member is None else member.rebalances,
                rebalance_ms=0 if member is None else member.rebalance_ms,
                kafka_commits=self._store.commits[KAFKA],
                zookeeper_commits=self._store.commits[ZOOKEEPER],
            )
        )

    def commit_offsets(self, retry: bool = True) -> bool:
        """Commit what the streams have returned; return whether that succeeded. Failures are logged.

        It fails while the group rebalances: partitions that are given up may be another member's already. What was not
        committed of them is read again, by this member or another one.

        Args:
            retry: Try again up to `offsets.commit.max.retries` times where the offsets are in Kafka.
        """
        retries = self.config.offsets_commit_max_retries if retry and self.config.offsets_storage == KAFKA else 0
        return commit_with_retries(self._commit_read, retries, self.config.offsets_channel_backoff, self._ended.wait)

    def shutdown(self) -> None:
        """Leave the group: stop fetching, end the streams, commit if `auto.commit.enable`, and release everything."""
        if self._ended.is_set():
            return
        self._ended.set()
        with self._events:
            self._events.notify_all()
        try:
            for thread in self._threads:
                # A listener may shut the connector down, on the thread that rebalances.
                if thread is not threading.current_thread():
                    thread.join(END_S)
            self._stop_fetching()
            for stream in self._streams:
                stream.close()
            if self._member is not None:
                if self.config.auto_commit_enable:
                    retries = self.config.offsets_commit_max_retries if self.config.offsets_storage == KAFKA else 0
                    commit_with_retries(self._commit_stopped, retries, self.config.offsets_channel_backoff)
                self._session.run(self._member.leave())
        except ClientError as error:
            # The session ends with all of its nodes.
            logger.warning("%s: %s", self.consumer_id, error)
        finally:
            self._store.close()
            self._session.close()

    def close(self) -> None:
        """Shut down."""
        self.shutdown()

    # Joining

    def _new_stream(self, key_decoder: Decoder | None, value_decoder: Decoder | None) -> MessageStream:
        config = self.config
        return MessageStream(
            config.queued_max_message_chunks, config.consumer_timeout, self._lease, key_decoder, value_decoder
        )

    def _join(
        self,
        subscription: Subscription,
        streams: list[MessageStream],
        stream_of: Callable[[str, ThreadId], MessageStream],
    ) -> None:
        if self._member is not None:
            raise MessageStreamsExistError("a ConsumerConnector can create message streams at most once")
        config = self.config
        member = Member(
            config.group_id,
            self.consumer_id,
            subscription,
            assign=STRATEGIES[config.partition_assignment_strategy],
            exclude_internal=config.exclude_internal_topics,
            auto_commit=config.auto_commit_enable,
            tries=config.rebalance_max_retries,
            backoff=config.backoff,
            session_timeout=lambda: self._lease.timeout,
            now_ms=lambda: int(time.time() * 1000),
        )
        self._run(member.join())
        self._streams, self._stream_of, self._member = streams, stream_of, member
        try:
            self._run(member.rebalance())
        except Exception:
            # The member is registered, and goes on trying.
            self._tell(Event.REBALANCE)
            raise
        finally:
            self._begin(self._watch_group, "watcher")
            if config.auto_commit_enable:
                self._begin(self._commit_regularly, "committer")

    def _begin(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=f"kafkalog-connector-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # Events, on kazoo's threads

    def _watched(self, watch: Watch) -> None:
        self._tell(Event.of(watch))

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._lease.end()
        if (event := Event.of_state(state)) is not None:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        with self._events:
            self._pending = event.joined(self._pending)
            self._events.notify_all()

    # The watcher's thread

    def _watch_group(self) -> None:
        while not self._ended.is_set():
            with self._events:
                if self._pending is None:
                    self._events.wait(self._lease.timeout / QUESTIONS)
                event, self._pending = self._pending, None
            if not self._ended.is_set():
                self._react(event)

    def _react(self, event: Event | None) -> None:
        assert self._member is not None
        try:
            if event is None:
                self._ask()
            else:
                self._run(event.steps(self._member))
        except SessionExpiredError:
            self._tell(Event.EXPIRED)
        except ConsumerRebalanceFailedError as error:
            logger.error("%s; it owns nothing, and tries again", error)
            self._again(Event.REBALANCE)
        except (ClientError, KafkaError) as error:
            if self._ended.is_set():
                return
            if event is None:
                logger.debug("ZooKeeper does not answer: %s", error)
                return
            logger.warning("%s: %s; trying again", self.consumer_id, error)
            self._again(max(event, Event.REBALANCE))
        except Exception:
            logger.exception("%s: rebalancing failed; trying again", self.consumer_id)
            self._again(max(event or Event.REBALANCE, Event.REBALANCE))

    def _again(self, event: Event) -> None:
        self._tell(event)
        self._ended.wait(self.config.backoff)

    def _ask(self) -> None:
        """Ask ZooKeeper for the member's node: the answer keeps the lease."""
        if self._member is not None:
            self._session.run(self._member.touch())

    def _run(self, work: Steps[None]) -> None:
        self._session.run(work, self._perform)

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, StopFetching):
            self._stop_fetching(are_lost=effect.are_lost)
            return None
        self._check_open()
        match effect:
            case AnnounceRelease():
                self._announce_release()
                self._check_open()
            case CommitOffsets():
                self._commit_released()
            case LoadOffsets():
                return self._load(effect)
            case StartFetching():
                self._start_fetching(effect)
            case Pause():
                self._ended.wait(effect.seconds)
                self._check_open()
            case _:
                raise TypeError(f"{effect!r} is no effect of a member")
        return None

    def _check_open(self) -> None:
        """Raise an error once the shutdown has begun: it commits and releases, and a rebalance must not claim again."""
        if self._ended.is_set():
            raise ConnectionLossError("the connector is shut down")

    # Fetching

    def _start_fetching(self, effect: StartFetching) -> None:
        assert self._stream_of is not None
        states: dict[MessageStream, list[PartitionState]] = defaultdict(list)
        found: dict[TopicPartition, PartitionState] = {}
        for tp, thread in effect.owners.items():
            found[tp] = PartitionState(tp, effect.offsets.get(tp))
            states[self._stream_of(tp.topic, thread)].append(found[tp])
        with self._lock:
            self._partitions = found
            self._has_stopped = False
        self._fetchers = Fetchers(self._client(), self.config.num_consumer_fetchers)
        self._fetchers.start(states)

    def _stop_fetching(self, *, are_lost: bool = False) -> None:
        with self._lock:
            for stream in self._streams:
                stream.revoke(self._partitions.values())
            are_lost |= self._lease.begin()
            # From now on they are committed only before their release: after it they may be another member's.
            owned = self._member.owned if self._member is not None and not are_lost else {}
            stopped = self._stopped | self._partitions
            self._has_stopped |= bool(stopped)
            self._partitions = {}
            self._stopped = {tp: each for tp, each in stopped.items() if tp in owned}
            if are_lost or self._listener is None:
                for stream in self._streams:
                    stream.settle(stopped.values())
        if self._fetchers is not None:
            self._fetchers.stop()
            self._fetchers = None

    def _announce_release(self) -> None:
        if self._listener is None or not self._stopped:
            return
        self._is_announcing = True
        try:
            self._listener.before_releasing_partitions(self._stopped.keys())
        except Exception:
            logger.exception("%s: the rebalance listener failed", self.consumer_id)
        finally:
            self._is_announcing = False
            for stream in self._streams:
                stream.settle(self._stopped.values())

    def _client(self, **more: str) -> ClientConfig:
        """Return the settings of a client of the live brokers.

        Raises:
            ZooKeeperError: None can be used.
        """
        return self.config.client(in_session(self._session, self.config.security_protocol), **more)

    # Offsets

    def _commit_regularly(self) -> None:
        while not self._ended.wait(self.config.auto_commit_interval):
            # Partitions that are given up are committed before they are released.
            if not self._has_stopped:
                self.commit_offsets(retry=False)

    def _commit_released(self) -> None:
        """Commit what was consumed of partitions before they are released.

        Raises:
            ZooKeeperError: The offsets are in ZooKeeper, which does not answer. So the partitions cannot be released.
        """
        if self.config.offsets_storage == KAFKA:
            commit_with_retries(self._commit_stopped, 0, 0.0)
        else:
            self._commit_stopped()

    def _commit_read(self) -> None:
        with self._lock:
            if self._has_stopped and not self._is_announcing:
                raise PartitionsReleasedError("the group rebalances, and the partitions may be another member's")
            self._commit_all(self._stopped if self._is_announcing else self._partitions)

    def _commit_stopped(self) -> None:
        with self._lock:
            self._commit_all(self._stopped)

    def _commit_all(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        offsets = {tp: each.consumed for tp, each in partitions.items() if each.consumed is not None}
        if offsets:
            if self.config.offsets_storage == KAFKA:
                self._check_session()
            self._offset_store().commit(offsets)

    def _check_session(self) -> None:
        """Raise an error unless the partitions are this member's still. Brokers do not know whose they are.

        Raises:
            SessionExpiredError: The session has expired, or ZooKeeper does not answer.
        """
        if self._lease.holds(time.monotonic()):
            return
        try:
            # The thread that keeps the lease may have been busy with a listener.
            self._ask()
        except ClientError as error:
            raise SessionExpiredError(f"the partitions may be another member's: {error}") from error
        if not self._lease.holds(time.monotonic()):
            raise SessionExpiredError("the partitions may be another member's: the session has expired")

    def _load(self, effect: LoadOffsets) -> dict[TopicPartition, int]:
        with self._lock:
            self._stopped = {}
            # The brokers that it knows may be gone.
            self._store.close()
            return self._offset_store().load(effect.partitions) if effect.partitions else {}

    def _offset_store(self) -> OffsetStore:
        assert self._member is not None
        return self._store.opened(self._member.path)
