"""The application's side of a membership under the consumer protocol: give partitions up and take them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID, uuid4

from kafkalog.client.backoff import client_backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.abstract_coordinator import AbstractCoordinator
from kafkalog.client.consumer.group.generation import NO_GENERATION, Generation
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.kip848.heartbeat import Heartbeat
from kafkalog.client.consumer.kip848.member import (
    NOTHING,
    Member,
    Reconciliation,
    Settings,
    State,
    TopicIdPartition,
    Wanted,
)
from kafkalog.client.consumer.subscription import SubscriptionState, SubscriptionType
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import ClientError
from kafkalog.client.metadata import ClusterMetadata
from kafkalog.client.types import ConsumerGroupMetadata, TopicPartition
from kafkalog.protocol.errors import KafkaError
from kafkalog.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)


class _Plan(NamedTuple):
    """A reconciliation under way, with the names of its topics, which metadata may forget meanwhile."""

    todo: Reconciliation
    names: dict[UUID, str]

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self._named(self.todo.assigned)

    @property
    def revoked(self) -> frozenset[TopicPartition]:
        return self._named(self.todo.revoked)

    def _named(self, partitions: Iterable[TopicIdPartition]) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(self.names[each.topic_id], each.partition) for each in partitions)


class Kip848Coordinator(AbstractCoordinator):
    """The member of one consumer, whose partitions the group's coordinator assigns (KIP-848)."""

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        monitor: Monitor,
        wake_fetcher: Callable[[], None],
        interceptors: ConsumerInterceptors,
    ) -> None:
        settings = Settings(
            config.group_id or "",
            config.max_poll_interval,
            config.group_instance_id,
            config.client_rack or None,
            config.group_remote_assignor,
            client_backoff(config.client),
        )
        self.member = Member(settings, str(uuid4()))
        super().__init__(config, cluster, subscription, monitor, wake_fetcher, interceptors, self)
        self.heartbeat = Heartbeat(config, self.requests, self.member, monitor)
        self._names: dict[UUID, str] = {}
        """The names of topics by id: of those last described by metadata, and of those in the present or target
        assignment."""
        self._plan: _Plan | None = None
        self._look_at = 0.0

    @property
    def generation(self) -> Generation:
        with self._monitor.lock:
            return self.member.generation if self._subscription.grouped else NO_GENERATION

    @property
    def fetching_as(self) -> Generation:
        return self.generation

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        self._note_epoch()
        return super().metadata

    def _note_epoch(self) -> None:
        """Keep the member's epoch, which grows while it has its partitions."""
        generation = self.generation
        if generation.valid:
            self._taken_as = generation

    @property
    def rebalances(self) -> int:
        return self.member.rebalances

    @property
    def fenced(self) -> bool:
        return self.member.fenced

    def commit_refused(self, code: int, generation: Generation) -> bool:
        again = self.member.commit_refused(code, generation)
        self.heartbeat.wake()
        return again

    def commit_fenced(self, generation: Generation) -> bool:
        fenced = self.member.commit_fenced(generation)
        self.heartbeat.wake()
        return fenced

    def enforce_rebalance(self, reason: str) -> None:
        logger.warning(
            "group %s: members cannot make it rebalance under group.protocol=consumer", self.requests.group_id
        )

    def note_metadata(self, found: ClusterMetadata) -> None:
        with self._monitor.lock:
            self._find_topics(found)
            member = self.member
            mine = {each.topic_id for each in (member.current or NOTHING) | (member.target or NOTHING)}
            names = {topic_id: name for topic_id, name in self._names.items() if topic_id in mine}
            described = (topic for topic in found.topics.values() if not topic.error_code)
            names.update((topic.topic_id, topic.name) for topic in described if topic.topic_id != ZERO_UUID)
            self._names = names

    # Stepping

    def step(self) -> None:
        self.commits.call_back()
        self._raise_failure()
        if self._subscription.grouped:
            self._note_epoch()
            self._step_member()
        self._auto_commit()

    def due(self) -> bool:
        member = self.member
        if self._failure is not None or member.failure is not None or member.has_lost:
            return True
        if not self._subscription.grouped:
            return False
        if (wanted := self._wanted()) is not None and wanted != member.wanted:
            return True
        if self._preparing is not None:
            return self._preparing.done() or time.monotonic() >= self._prepare_until
        return member.plan(self._names.keys()) is not None

    def next_time(self) -> float:
        times = [float("inf")]
        if self._config.enable_auto_commit and self._subscription.partitions:
            times.append(self._commit_at)
        if self._subscription.grouped:
            times.append(time.monotonic() + self._config.max_poll_interval / 3)
            if self._preparing is not None:
                times.append(self._prepare_until)
            if self._plan is None and self.member.unknown(self._names.keys()):
                times.append(self._look_at)
        return min(times)

    def _wanted(self) -> Wanted | None:
        """Return what to subscribe to; None while that is unknown."""
        subscription = self._subscription
        if subscription.regex is not None:
            return Wanted(frozenset(), subscription.regex)
        # Apache Kafka 3.9 does not admit members without a subscription.
        nothing = not subscription.topics and self.member.wanted is None
        if subscription.kind is SubscriptionType.AUTO_PATTERN and (nothing or not subscription.matched):
            return None
        return Wanted(subscription.topics)

    def _step_member(self) -> None:
        member = self.member
        self._check_failed()
        if member.has_lost:
            self._drop_plan()
            try:
                self._give_up(self._subscription.assigned, lost=True)
            finally:
                with self._monitor.lock:
                    member.released()
                self.heartbeat.wake()
        wanted = self._wanted()
        with self._monitor.lock:
            member.polled = time.monotonic()
            news = wanted is not None and member.want(wanted)
        if self.heartbeat.ident is None:
            self.heartbeat.start()
        elif news:
            self.heartbeat.wake()
        if self._plan is not None or member.state is State.RECONCILING:
            self._reconcile()

    def _check_failed(self) -> None:
        """Raise the error that ended the membership, in every call until the application leaves the group."""
        failure = self.member.failure
        if failure is None:
            return
        self._drop_plan()
        self._give_up(self._subscription.assigned, lost=True)
        raise self.requests.fenced() if self.member.fenced else failure.with_traceback(None)

    def _drop_plan(self) -> None:
        self._plan = self._preparing = None

    # Reconciliation

    def _reconcile(self) -> None:
        """Continue to give up and take partitions as the coordinator wants; calls the listener."""
        member, plan = self.member, self._plan
        if plan is None:
            with self._monitor.lock:
                todo = member.plan(self._names.keys())
                if todo is not None:
                    topics = {each.topic_id for each in todo.assigned | todo.revoked}
                    plan = self._plan = _Plan(todo, {topic_id: self._names[topic_id] for topic_id in topics})
            if plan is None:
                self._look_for_topics()
                return
        revoked = plan.revoked & self._subscription.assigned
        if revoked and not self._commit_first(revoked):
            return
        self._drop_plan()
        if plan.todo.incarnation != member.incarnation:
            # The member was fenced meanwhile: other members have the partitions that it would give up.
            return
        self._give_up(revoked)
        if plan.todo.incarnation == member.incarnation:
            self._take(plan)

    def _take(self, plan: _Plan) -> None:
        subscription = self._subscription
        assigned = plan.assigned
        with self._monitor.lock:
            added = assigned - subscription.assigned
            subscription.assign(sorted(assigned))
            if subscription.regex is not None:
                subscription.topics = frozenset(tp.topic for tp in assigned)
        logger.info("group %s: %d partitions, %d of them new", self.requests.group_id, len(assigned), len(added))
        self._commit_at = time.monotonic() + self._config.auto_commit_interval
        self._wake_fetcher()
        try:
            self.listener.on_partitions_assigned(added)
        finally:
            with self._monitor.lock:
                if self.member.reconciled(plan.todo):
                    # The names are needed when the partitions are given up.
                    self._names = {**plan.names, **self._names}
            self.heartbeat.wake()

    def _look_for_topics(self) -> None:
        """Fetch metadata that names the topics of the assignment."""
        now = time.monotonic()
        if now >= self._look_at and self.member.unknown(self._names.keys()):
            self._look_at = now + max(self._config.client.retry_backoff, 0.1)
            self._wake_fetcher()

    # Leaving

    def leave(self, reason: str, timeout: float) -> None:
        member = self.member
        error: Exception | None = None
        self._drop_plan()
        if self._subscription.grouped and self._subscription.partitions:
            try:
                self._give_up(self._subscription.assigned, lost=not member.generation.valid)
            except Exception as failure:
                error = failure
        with self._monitor.lock:
            request = member.leave()
        if request is not None:
            try:
                self.requests.group_heartbeat(request, timeout)
            except (ClientError, KafkaError) as failure:
                logger.info("leaving group %s: %s", self.requests.group_id, failure)
        if error is not None:
            raise error

    def stop(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self.requests.close()
        self.heartbeat.stop(timeout)
        self.commits.worker.stop(max(deadline - time.monotonic(), 0.1))
