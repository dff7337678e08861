"""A cluster as its clients see it: brokers, leaders of partitions, and a connection to each broker.

Metadata is kept for `metadata.max.age.ms`, and fetched again when an error shows that it is old. Several threads may
use a Cluster. Requests to the same broker take turns on one connection. A thread that must not wait for the others
opens a connection of its own (`connect`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from kafkalog.client.closing import Closing
from kafkalog.client.config import Address, ClientConfig
from kafkalog.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConfigError,
    ConnectionFailedError,
    HeldBackError,
    UnresolvedNameError,
)
from kafkalog.client.forks import FORKED, own
from kafkalog.client.metadata import (
    Broker,
    ClusterMetadata,
    Leader,
    LeaderIdAndEpoch,
    TopicMetadata,
    existing,
    from_response,
    with_broker,
    with_later_leaders,
    with_leaders,
    without_leader_epoch,
)
from kafkalog.client.network.connection import Connection
from kafkalog.client.network.outage import Outage
from kafkalog.client.network.slot import Slot, time_left
from kafkalog.client.retry import Retry
from kafkalog.client.security.mechanisms import make_mechanisms
from kafkalog.client.security.tls import TlsContexts
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NotControllerError,
    UnknownTopicOrPartitionError,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalog.protocol.schema import Request

T = TypeVar("T")


class Cluster(Closing):
    """The brokers behind `bootstrap.servers`. Nothing is sent before it is needed.

    Times called `deadline` are those of `time.monotonic`; unless given, they are `default.api.timeout.ms` from
    now.

    Args:
        config: The client's configuration.
        on_outage: What is called when no broker answers, once until one answers again, with the reason; by the thread
            that makes the request. None: a warning is logged.

    Raises:
        ConfigError: `bootstrap.servers` is missing, or the configuration lacks what the mechanism of the login needs.
    """

    def __init__(self, config: ClientConfig, *, on_outage: Callable[[Exception], None] | None = None) -> None:
        if not config.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing: give the host:port of at least one broker")
        self.config = config
        self._lock = threading.Lock()
        self._slots: dict[Address, Slot] = {}
        self._known = ClusterMetadata()
        self._fetched: dict[str, float] = {}
        self._all_fetched = float("-inf")
        self._doubted: set[int] = set()
        """Brokers that did not answer at their known addresses. They may have others by now."""
        self._bootstrap = random.sample(config.bootstrap_servers, len(config.bootstrap_servers))
        self._closed = self._is_lost = False
        self._ended = threading.Event()
        self._has_answered = False
        """True if any broker has answered, so that the bootstrap servers' names are known to be right."""
        self._outage = Outage(on_outage)
        self._mechanisms = make_mechanisms(config)
        self._tls = TlsContexts(config.tls)
        self._refusal = "the cluster's client is closed"
        own(self)

    # Metadata

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        refresh: bool = False,
        deadline: float | None = None,
        allow_auto_topic_creation: bool = False,
        once: bool = False,
    ) -> ClusterMetadata:
        """Describe the brokers and these topics (None: all topics), from memory unless that is too old.

        A topic that cannot be described is in the result with its `error_code`.

        Args:
            topics: The topics' names.
            refresh: Ask the brokers, however new the metadata in memory is.
            deadline: In seconds of `time.monotonic`; `default.api.timeout.ms` from now unless given.
            allow_auto_topic_creation: Let the brokers create topics that do not exist.
            once: Ask each broker only once.

        Raises:
            ClientTimeoutError: No broker answered before the deadline.
            ConnectionFailedError: With `once`, no broker answered.
        """
        wanted = None if topics is None else list(dict.fromkeys(topics))
        oldest = time.monotonic() - self.config.metadata_max_age
        with self._lock:
            known, fetched = self._known, self._fetched
            if wanted is None:
                fresh = self._all_fetched > oldest
            else:
                fresh = bool(known.brokers) and all(fetched.get(name, oldest) > oldest for name in wanted)
        if fresh and not refresh:
            return known if wanted is None else replace(known, topics={name: known.topics[name] for name in wanted})
        message = MetadataRequest(
            topics=None if wanted is None else [MetadataRequestTopic(name=name) for name in wanted],
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
        response: MetadataResponse = (
            self._request_anywhere(message, self.retry(deadline))
            if once
            else self.request_any(message, deadline=deadline)
        )
        return self._remember(response, wanted)

    def _remember(self, response: MetadataResponse, wanted: list[str] | None) -> ClusterMetadata:
        answer = from_response(response, wanted)
        now = time.monotonic()
        with self._lock:
            answer = with_later_leaders(answer, self._known)
            topics = answer.topics
            # A topic with an error is not kept, so that the next call asks for it again.
            kept = {} if wanted is None else {k: v for k, v in self._known.topics.items() if k not in topics}
            kept.update((name, topic) for name, topic in topics.items() if not topic.error_code)
            fetched = {} if wanted is None else {name: at for name, at in self._fetched.items() if name not in topics}
            fetched.update((name, now) for name, topic in topics.items() if not topic.error_code)
            self._known = replace(answer, topics=kept)
            self._fetched = fetched
            if wanted is None:
                self._all_fetched = now if len(kept) == len(topics) else float("-inf")
        return answer

    def learn_leaders(
        self, leaders: Mapping[TopicPartition, LeaderIdAndEpoch], brokers: Iterable[Broker]
    ) -> frozenset[TopicPartition]:
        """Take leaders that a response names in an error, and their addresses; return the partitions that have moved.

        Leaders that are not newer than the known ones are ignored (KIP-951).
        """
        with self._lock:
            self._known, moved = with_leaders(self._known, leaders, brokers)
        return moved

    def learn_broker(self, broker: Broker) -> None:
        """Take the address of a broker that a response names."""
        with self._lock:
            self._known = with_broker(self._known, broker)
            self._doubted.discard(broker.node_id)

    def doubt_leader(self, tp: TopicPartition) -> None:
        """Take the leader that the next metadata names, also one of an older epoch.

        A leader that denies to be one may have been named in an error of another partition with the same name: of a
        topic that was deleted and created again.
        """
        with self._lock:
            self._known = without_leader_epoch(self._known, tp)

    def forget(self, topics: Collection[str] | None = None) -> None:
        """Mark the metadata of these topics (None: all metadata) as old, so that it is fetched before its next use."""
        with self._lock:
            self._all_fetched = float("-inf")
            gone = set(self._fetched) if topics is None else set(topics)
            self._fetched = {name: at for name, at in self._fetched.items() if name not in gone}

    def bootstrap_from(self, servers: Iterable[Address]) -> None:
        """Ask these brokers from now on where no known broker answers, in place of `bootstrap.servers`."""
        found = list(servers)
        with self._lock:
            self._bootstrap = random.sample(found, len(found))

    def partitions(self, topic: str, *, deadline: float | None = None) -> list[int]:
        """List the numbers of a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        return sorted(self.topic(topic, deadline=deadline).partitions)

    def topic(self, name: str, *, deadline: float | None = None) -> TopicMetadata:
        """Describe a topic that exists.

        Raises:
            KafkaError: The topic's metadata reports it.
        """
        retry = self.retry(deadline)
        return retry.run(lambda: self._topic_now(name, retry.deadline))

    def _topic_now(self, name: str, deadline: float, once: bool = False) -> TopicMetadata:
        return existing(self.metadata([name], deadline=deadline, once=once).topics[name])

    def leader(self, tp: TopicPartition, *, deadline: float | None = None) -> Leader:
        """Find the leader of a partition; wait for one while there is none.

        Raises:
            UnknownTopicOrPartitionError: There is no such partition.
            ClientTimeoutError: There was no leader until the deadline.
        """
        retry = self.retry(deadline)
        return retry.run(lambda: self.leader_now(tp, retry.deadline), lambda error: self.forget([tp.topic]))

    def leader_now(self, tp: TopicPartition, deadline: float | None = None) -> Leader:
        """Find the leader as `leader` does, but ask only once.

        Raises:
            LeaderNotAvailableError: There is none.
        """
        deadline = self.retry(deadline).deadline
        return self._leader(tp, self._topic_now(tp.topic, deadline, once=True))

    def leaders_now(
        self, partitions: Collection[TopicPartition], deadline: float | None = None
    ) -> dict[TopicPartition, Leader | Exception]:
        """Find the leader of each partition, or why there is none, as `leader_now` does. Ask once for all topics."""
        found: dict[TopicPartition, Leader | Exception] = {}
        deadline = self.retry(deadline).deadline
        try:
            topics = self.metadata({tp.topic for tp in partitions}, deadline=deadline, once=True).topics
        except Exception as error:
            return dict.fromkeys(partitions, error)
        for tp in partitions:
            try:
                found[tp] = self._leader(tp, existing(topics[tp.topic]))
            except KafkaError as error:
                found[tp] = error
        return found

    def known_leader(self, tp: TopicPartition) -> Leader | None:
        """Find the leader in memory, however old that is; None where metadata must be fetched first."""
        with self._lock:
            topic = self._known.topics.get(tp.topic) if tp.topic in self._fetched else None
        return None if topic is None else self._leader(tp, topic)

    def _leader(self, tp: TopicPartition, topic: TopicMetadata) -> Leader:
        found = topic.partitions.get(tp.partition)
        if found is None:
            raise UnknownTopicOrPartitionError(f"topic {tp.topic} has no partition {tp.partition}")
        broker = self._known.brokers.get(found.leader)
        if broker is None:
            raise LeaderNotAvailableError(f"partition {tp} has no leader")
        return Leader(broker, found.leader_epoch, topic.topic_id)

    # Requests

    def request_to(
        self,
        node_id: int,
        message: Request,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
        min_version: int = 0,
        feature: str | None = None,
    ) -> Any:
        """Send a request to one broker, once, and return its response.

        A connection that broke while it was idle is replaced. `timeout` is in seconds and includes the wait for the
        connection; it is `request.timeout.ms` unless given. A broker that has not announced `feature` on the connection
        is sent nothing.

        Raises:
            UnsupportedVersionError: The broker does not speak these versions, or lacks the feature.
            ConnectionFailedError: The metadata does not name the broker, no connection could be made, or it ended.
            ClientTimeoutError: The broker took too long.
            AuthenticationError: The broker refused the client, or the client the broker.
        """
        deadline = time.monotonic() + (self.config.request_timeout if timeout is None else timeout)
        address = self._address(node_id, deadline)
        try:
            return self._request_at(address, message, deadline, max_version, min_version, feature)
        except (ConnectionFailedError, ClientTimeoutError):
            self._doubted.add(node_id)
            raise

    def request_any(self, message: Request, *, deadline: float | None = None, max_version: int | None = None) -> Any:
        """Send a request to any broker: try all of them, again and again, until one answers.

        An error that is not retriable is raised at once.

        Raises:
            ClientTimeoutError: No broker has answered by `deadline`.
        """
        retry = self.retry(deadline)
        return retry.run(lambda: self._request_anywhere(message, retry, max_version))

    def request_controller(self, message: Request, *, deadline: float | None = None) -> Any:
        """Send a request to the controller; where it is unknown, to any broker, which forwards the request."""
        retry = self.retry(deadline)
        controller = self.metadata([], deadline=retry.deadline, refresh=not self._known.brokers).controller_id
        if controller not in self._known.brokers:
            return self.request_any(message, deadline=deadline)
        return self.request_to(controller, message, timeout=retry.request_timeout)

    def on_controller(self, attempt: Callable[[Retry], T], *, deadline: float | None = None) -> T:
        """Run `attempt`, which asks the controller; repeat it where the controller has moved or is silent."""
        retry = self.retry(deadline)

        def look_again(error: Exception) -> None:
            if isinstance(error, NotControllerError | ConnectionFailedError | ClientTimeoutError):
                # Without an answer until the deadline there is one more try, which tells `error` as well.
                with suppress(ClientTimeoutError):
                    self.metadata([], refresh=True, deadline=retry.deadline)

        return retry.run(lambda: attempt(retry), look_again)

    def retry(self, deadline: float | None = None, steady: Mapping[type[Exception], float] | None = None) -> Retry:
        """Return what computes the pauses of a call's tries; they end when the cluster's client ends its calls."""
        return Retry(self.config, deadline, self._ended, steady)

    def end_retries(self) -> None:
        """Let calls that are under way in other threads, and later ones, fail instead of trying again."""
        self._ended.set()

    def connect(self, broker: Broker, *, timeout: float | None = None) -> Connection:
        """Open a connection for the caller, who must close it.

        Raises:
            RuntimeError: This is a forked process.
        """
        if self._is_lost:
            raise RuntimeError(self._refusal)
        return Connection(
            *(broker.host, broker.port, self.config), timeout=timeout, mechanisms=self._mechanisms, tls=self._tls
        )

    def close(self) -> None:
        """Close all connections but those that `connect` has opened; requests under way in other threads fail."""
        self.end_retries()
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            free = slot.lock.acquire(blocking=False)
            connection = slot.connection
            if connection is not None and free:
                connection.close()
            elif connection is not None:
                # The thread that uses the connection closes it after that.
                connection.interrupt()
            if free:
                slot.lock.release()

    def lose(self) -> None:
        """Refuse all requests from now on, in a forked process, whose copies of connections close themselves."""
        self._lock, self._slots, self._ended = threading.Lock(), {}, threading.Event()
        self._closed = self._is_lost = True
        self._refusal = f"the cluster's client {FORKED}"

    # Inside

    def _address(self, node_id: int, deadline: float) -> Address:
        broker = self._known.brokers.get(node_id)
        if broker is not None and node_id in self._doubted:
            self._doubted.discard(node_id)
            with suppress(ConnectionFailedError, ClientTimeoutError):
                broker = self.metadata([], refresh=True, deadline=deadline, once=True).brokers.get(node_id)
        elif broker is None:
            broker = self.metadata([], refresh=True, deadline=deadline).brokers.get(node_id)
        if broker is None:
            raise ConnectionFailedError(f"the cluster names no broker {node_id} at present")
        return broker.host, broker.port

    def _candidates(self) -> list[Address]:
        """List the addresses to try: first those with a connection, last the bootstrap servers."""
        with self._lock:
            known = [(broker.host, broker.port) for broker in self._known.brokers.values()]
            connected = {address for address, slot in self._slots.items() if slot.connection is not None}
        random.shuffle(known)
        known.sort(key=lambda address: address not in connected)
        return list(dict.fromkeys([*known, *self._bootstrap]))

    def _request_anywhere(self, message: Request, retry: Retry, max_version: int | None = None) -> Any:
        failures: list[ClientError] = []
        begun = time.monotonic()
        for address in self._candidates():
            try:
                answer = self._request_at(address, message, time.monotonic() + retry.request_timeout, max_version)
            except (ConnectionFailedError, ClientTimeoutError) as error:
                if not error.retriable:
                    raise
                failures.append(error)
                continue
            self._has_answered = True
            if isinstance(answer, MetadataResponse) and not answer.brokers:
                # As in Java: the controller has not told it yet which brokers and topics there are.
                failures.append(ConnectionFailedError(f"{address[0]}:{address[1]} does not know its cluster yet"))
                continue
            self._outage.over(f"{address[0]}:{address[1]}")
            return answer
        reasons = "; ".join(dict.fromkeys(map(str, failures)))
        if all(isinstance(error, UnresolvedNameError) for error in failures) and not self._has_answered:
            # As in Java (ClientUtils.parseAndValidateAddresses): to try again would hide a wrong name for minutes.
            raise ConfigError(f"bootstrap.servers names no host that can be found: {reasons}")
        failure = ConnectionFailedError(reasons)
        if not self._closed:
            # `close` ends requests that are under way, which is no outage.
            is_silence = any(
                isinstance(each, ClientTimeoutError) and not isinstance(each, HeldBackError) for each in failures
            )
            self._outage.began(failure, begun if is_silence else None)
        raise failure

    def _request_at(
        self,
        address: Address,
        message: Request,
        deadline: float,
        max_version: int | None = None,
        min_version: int = 0,
        feature: str | None = None,
    ) -> Any:
        with self._lock:
            if self._closed:
                raise RuntimeError(self._refusal)
            slot = self._slots.setdefault(address, Slot(address))
        if not slot.lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            raise ClientTimeoutError(f"{address[0]}:{address[1]} has not answered another request in time")
        try:
            connection = slot.connected(self.config, self._mechanisms, self._tls, deadline)
            try:
                left = time_left(deadline, connection.address)
                if time.monotonic() + left <= connection.serves_at:
                    # The broker will not answer in time, and a new connection does not get around a quota.
                    raise HeldBackError(f"{connection.address} holds this client back, which is above a quota")
                if feature is not None:
                    connection.require(feature)
                answer = connection.request(message, timeout=left, max_version=max_version, min_version=min_version)
                self._outage.heard()
                return answer
            finally:
                if connection.closed or self._closed:
                    connection.close()
                    slot.connection = None
        finally:
            slot.lock.release()
