"""The application's side of a membership, in either protocol: take partitions, give them up, commit.

All of this happens while the application polls. Listeners are called in its thread, and only there do partitions
change. Other threads do the waiting; `AbstractCoordinator.step` never waits.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.commits import Commits, Committer
from kafkalog.client.consumer.group.generation import NO_GENERATION, Generation
from kafkalog.client.consumer.group.group_requests import GroupRequests
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.listener import RebalanceListener
from kafkalog.client.consumer.subscription import SubscriptionState, SubscriptionType
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.coordinators import Coordinators
from kafkalog.client.errors import is_retriable
from kafkalog.client.metadata import ClusterMetadata
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import RebalanceInProgressError

logger = logging.getLogger(__name__)


class AbstractCoordinator(ABC):
    """The member of one consumer.

    `wake_fetcher` makes the fetcher look at the topics of interest. `interceptors` are called after commits.
    `committer` is the state that commits belong to.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        monitor: Monitor,
        wake_fetcher: Callable[[], None],
        interceptors: ConsumerInterceptors,
        committer: Committer,
    ) -> None:
        self._config, self._subscription, self._monitor = config, subscription, monitor
        self._wake_fetcher = wake_fetcher
        self.requests = GroupRequests(config, cluster, Coordinators(cluster))
        self.commits = Commits(
            *(config, self.requests, committer, monitor, lambda: self.generation, lambda: subscription.assigned),
            *(lambda: subscription.grouped, interceptors),
        )
        self.listener = RebalanceListener()
        self._failure: Exception | None = None
        self._taken_as = NO_GENERATION
        """The identity under which the present partitions were taken. It outlives the membership."""
        self._preparing: Future[None] | None = None
        self._prepare_until = 0.0
        self._commit_at = time.monotonic() + config.auto_commit_interval
        self._auto: Future[None] | None = None

    # Differences of the protocols

    @property
    @abstractmethod
    def generation(self) -> Generation:
        """The identity under which commits are sent; NO_GENERATION where partitions are assigned by hand."""

    @property
    @abstractmethod
    def fetching_as(self) -> Generation:
        """The identity under which committed offsets are read; NO_GENERATION in the classic protocol."""

    @property
    @abstractmethod
    def rebalances(self) -> int:
        """The number of assignments that were taken."""

    @abstractmethod
    def step(self) -> None:
        """Do the steps that the membership needs now, without waiting.

        Raises:
            Exception: A listener has raised it, or it ends the membership.
        """

    @abstractmethod
    def due(self) -> bool:
        """Tell whether `step` has something to do now."""

    @abstractmethod
    def next_time(self) -> float:
        """Return when to call `step` even if nothing has changed (`time.monotonic`)."""

    @abstractmethod
    def note_metadata(self, found: ClusterMetadata) -> None:
        """Use new metadata of the topics of interest; called by the fetcher's thread."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Make the group rebalance, where members can ask for that."""

    @abstractmethod
    def leave(self, reason: str, timeout: float) -> None:
        """Give all partitions up, and leave the group.

        The group keeps a static member's place until its session ends, because it may come back (KIP-345).
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """End the threads."""

    # Common parts

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member's identity, as transactions use it.

        A member that was removed keeps the one that it had, as in Java. A group takes offsets of clients that are no
        members at all, but refuses those of a former member, whose partitions others may have read by now.
        """
        generation = self._taken_as if self._subscription.grouped else NO_GENERATION
        return ConsumerGroupMetadata(
            self.requests.group_id, generation.id, generation.member_id, self._config.group_instance_id
        )

    def _fail(self, error: Exception) -> None:
        """Keep an error for the application's next step to raise."""
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
        """Apply the subscription's filter to the cluster's topics."""
        if self._subscription.filter is not None:
            hidden = self._config.exclude_internal_topics
            self._subscription.found(
                topic.name for topic in found.topics.values() if not (hidden and topic.is_internal)
            )

    def _give_up(self, partitions: Iterable[TopicPartition], *, lost: bool = False, always: bool = False) -> None:
        """Call the listener, and give the partitions up whatever it raises.

        Without partitions, do so only if `always`.
        """
        going = frozenset(partitions)
        if not going and not always:
            return
        with self._monitor.lock:
            self._subscription.hold(going)
        try:
            if lost:
                logger.warning("group %s: partitions are lost: %d", self.requests.group_id, len(going))
                self.listener.on_partitions_lost(going)
            else:
                self.listener.on_partitions_revoked(going)
        finally:
            with self._monitor.lock:
                self._subscription.assign(tp for tp in self._subscription.partitions if tp not in going)

    # Commits

    def _commit_first(self, going: Collection[TopicPartition]) -> bool:
        """Begin to commit, if that is automatic; return whether the commit is done, or has taken too long.

        Meanwhile no more records of `going` are handed out.
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
            self._preparing = self.commits.begin(offsets, self._prepare_until, drop_unknown=True)
        if not self._preparing.done() and now < self._prepare_until:
            return False
        future, self._preparing = self._preparing, None
        if future.done() and (error := future.exception()) is not None:
            logger.warning("group %s: commit before the rebalance: %s", self.requests.group_id, error)
        return True

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self._monitor.lock:
            return self._subscription.to_commit()

    def commit_last(self, deadline: float) -> None:
        """Commit before the consumer is closed, if commits are automatic; wait for all commits until `deadline`.

        Raises:
            Exception: The callback of a commit has raised it; all of them have been called.
        """
        generation = self.generation
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        if self._config.enable_auto_commit and (
            generation.valid or self._subscription.kind is SubscriptionType.USER_ASSIGNED
        ):
            offsets = self._consumed()
        # Commits that were begun earlier come first. A member that has left the group cannot commit any more.
        future = self.commits.begin(offsets, deadline, drop_unknown=True)
        self._monitor.wait(deadline, future.done)
        if offsets:
            error = future.exception() if future.done() else "it did not end in time"
            if error is not None:
                logger.warning("group %s: the last automatic commit failed: %s", self.requests.group_id, error)
        self.commits.call_all_back()

    def _auto_commit(self) -> None:
        now = time.monotonic()
        if not self._config.enable_auto_commit or now < self._commit_at or not self._subscription.partitions:
            return
        self._commit_at = now + self._config.auto_commit_interval
        if self._auto is not None and not self._auto.done():
            return
        offsets = self._consumed()
        if offsets and (self._subscription.kind is SubscriptionType.USER_ASSIGNED or self.generation.valid):
            self._auto = self.commits.begin_async(offsets, self._auto_committed)

    def _auto_committed(self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is None:
            return
        if is_retriable(error):
            self._commit_at = min(self._commit_at, time.monotonic() + self._config.client.retry_backoff)
        logger.log(
            logging.INFO if is_retriable(error) or isinstance(error, RebalanceInProgressError) else logging.WARNING,
            "group %s: automatic commit: %s",
            self.requests.group_id,
            error,
        )

    def begin_fetching_offsets(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Future[dict[TopicPartition, OffsetAndMetadata]]:
        """Begin to read committed offsets, after the commits that were begun before."""
        wanted = tuple(partitions)
        return self.commits.worker.submit(lambda: self.requests.committed(wanted, deadline, lambda: self.fetching_as))
