"""The application's side of a membership, whichever protocol the group speaks: taking, giving up, committing.

All of this happens while the application polls: listeners are called in its thread, and partitions come and go only
there. The waiting is done by other threads; `Coordinator.step` never waits.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future

from kafkalog.client.cluster import Cluster, ClusterMetadata
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.commits import Commits, Committer
from kafkalog.client.consumer.group.generation import Generation
from kafkalog.client.consumer.group.group_requests import GroupRequests
from kafkalog.client.consumer.listener import RebalanceListener
from kafkalog.client.consumer.subscription import Kind, SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.coordinators import Coordinators
from kafkalog.client.errors import is_retriable
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import RebalanceInProgressError

_log = logging.getLogger(__name__)


class AbstractCoordinator(ABC):
    """The member of one consumer. ``wake_fetcher`` has the metadata of topics of interest looked at.

    ``committer`` is the state that commits are sent for.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        monitor: Monitor,
        wake_fetcher: Callable[[], None],
        committer: Committer,
    ) -> None:
        self._config, self._subscription, self._monitor = config, subscription, monitor
        self._wake_fetcher = wake_fetcher
        self.requests = GroupRequests(config, cluster, Coordinators(cluster))
        self.commits = Commits(
            config, self.requests, committer, monitor, lambda: self.generation, lambda: subscription.assigned
        )
        self.listener = RebalanceListener()
        self._failure: Exception | None = None
        self._preparing: Future[None] | None = None
        self._prepare_until = 0.0
        self._commit_at = time.monotonic() + config.auto_commit_interval
        self._auto: Future[None] | None = None

    # What the protocols differ in

    @property
    @abstractmethod
    def generation(self) -> Generation:
        """As whom commits are sent: nobody where partitions are assigned by hand."""

    @property
    @abstractmethod
    def fetching_as(self) -> Generation:
        """As whom committed offsets are asked for; the classic protocol does not say."""

    @property
    @abstractmethod
    def rebalances(self) -> int:
        """Assignments that were taken."""

    @abstractmethod
    def step(self) -> None:
        """Do what is due. Raises what listeners raise, and what ends the membership."""

    @abstractmethod
    def due(self) -> bool:
        """Whether `step` has something to do now."""

    @abstractmethod
    def next_time(self) -> float:
        """When `step` is to be called, though nothing has changed (``time.monotonic``)."""

    @abstractmethod
    def note_metadata(self, found: ClusterMetadata) -> None:
        """The topics of interest are these now; called by the fetcher's thread."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance, where members can ask for that."""

    @abstractmethod
    def leave(self, reason: str, timeout: float) -> None:
        """Give everything up and leave the group.

        The group keeps a static member's place until its session ends: it may come back (KIP-345).
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """End the threads."""

    # What they have in common

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member as a transaction names it."""
        generation = self.generation
        return ConsumerGroupMetadata(
            self.requests.group_id, generation.id, generation.member_id, self._config.group_instance_id
        )

    def _fail(self, error: Exception) -> None:
        """Have the application's next step raise this."""
        with self._monitor.lock:
            self._failure = error
        self._monitor.notify()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            with self._monitor.lock:
                failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

    def _find_topics(self, found: ClusterMetadata) -> None:
        """Match what there is with a pattern."""
        if self._subscription.filter is not None:
            hidden = self._config.exclude_internal_topics
            self._subscription.found(
                topic.name for topic in found.topics.values() if not (hidden and topic.is_internal)
            )

    def _give_up(self, partitions: Iterable[TopicPartition], *, lost: bool = False, always: bool = False) -> None:
        """Call the listener, ``always`` or where there are any, and let go of the partitions, whatever it raises."""
        going = frozenset(partitions)
        if not going and not always:
            return
        with self._monitor.lock:
            self._subscription.hold(going)
        try:
            if lost:
                _log.warning("group %s: partitions are lost: %d", self.requests.group_id, len(going))
                self.listener.on_partitions_lost(going)
            else:
                self.listener.on_partitions_revoked(going)
        finally:
            with self._monitor.lock:
                self._subscription.assign(tp for tp in self._subscription.partitions if tp not in going)

    # Commits

    def _commit_first(self, going: Collection[TopicPartition]) -> bool:
        """Begin to commit what was read, where that is automatic; whether it is done, or has taken too long.

        Nothing more of ``going`` is handed out meanwhile.
        """
        if not self._config.enable_auto_commit or not self.generation.valid:
            self._preparing = None
            return True
        now = time.monotonic()
        if self._preparing is None:
            with self._monitor.lock:
                self._subscription.hold(going)
            offsets = self._consumed()
            if not offsets:
                return True
            patience = min(self._config.max_poll_interval, self._config.client.default_api_timeout)
            self._prepare_until = now + patience
            self._preparing = self.commits.begin(offsets, self._prepare_until)
        if not self._preparing.done() and now < self._prepare_until:
            return False
        future, self._preparing = self._preparing, None
        if future.done() and (error := future.exception()) is not None:
            _log.warning("group %s: commit before the rebalance: %s", self.requests.group_id, error)
        return True

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self._monitor.lock:
            return self._subscription.to_commit()

    def _auto_commit(self) -> None:
        now = time.monotonic()
        if not self._config.enable_auto_commit or now < self._commit_at or not self._subscription.partitions:
            return
        self._commit_at = now + self._config.auto_commit_interval
        if self._auto is not None and not self._auto.done():
            return
        offsets = self._consumed()
        if offsets and (self._subscription.kind is Kind.MANUAL or self.generation.valid):
            self._auto = self.commits.begin_async(offsets, self._auto_committed)

    def _auto_committed(self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is None:
            return
        if is_retriable(error):
            self._commit_at = min(self._commit_at, time.monotonic() + self._config.client.retry_backoff)
        _log.log(
            logging.INFO if is_retriable(error) or isinstance(error, RebalanceInProgressError) else logging.WARNING,
            "group %s: automatic commit: %s",
            self.requests.group_id,
            error,
        )

    def begin_fetching_offsets(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Future[dict[TopicPartition, OffsetAndMetadata]]:
        """Begin to look up what is committed, after the commits that were begun before."""
        wanted = tuple(partitions)
        return self.commits.worker.submit(lambda: self.requests.committed(wanted, deadline, lambda: self.fetching_as))
