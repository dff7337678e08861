"""The application's side of a membership under the classic protocol: join, give partitions up, take them.

Other threads do the waiting (`join`, `heartbeat`, and `group.commits`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from kafkalog.client.backoff import client_backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.assignors import RebalanceProtocol
from kafkalog.client.consumer.classic.heartbeat import Heartbeat
from kafkalog.client.consumer.classic.join import Joined, Joining, JoinRefusedError, Snapshot, Wish
from kafkalog.client.consumer.classic.member import Member, State
from kafkalog.client.consumer.config import STEADY_TRIES, ConsumerConfig
from kafkalog.client.consumer.group.abstract_coordinator import AbstractCoordinator
from kafkalog.client.consumer.group.generation import NO_GENERATION, Generation, Next
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.subscription import SubscriptionState, SubscriptionType
from kafkalog.client.consumer.threads import Monitor, Worker
from kafkalog.client.errors import ClientError, is_retriable
from kafkalog.client.metadata import ClusterMetadata
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class ClassicCoordinator(AbstractCoordinator):
    """The member of one consumer. It calls `wake_fetcher` when partitions were assigned."""

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        monitor: Monitor,
        wake_fetcher: Callable[[], None],
        interceptors: ConsumerInterceptors,
    ) -> None:
        self.member = Member()
        super().__init__(config, cluster, subscription, monitor, wake_fetcher, interceptors, self.member)
        self.heartbeat = Heartbeat(config, self.requests, self.member, monitor, self._fail)
        self.joining = Joining(config, cluster, self.requests, self.member, self.heartbeat, monitor)
        self._worker = Worker("kafkalog-consumer-join", monitor.notify)
        self._prepared = False
        self._join: Future[Joined] | None = None
        self._join_after = 0.0
        self._backoff = client_backoff(config.client, steady=STEADY_TRIES)
        self._failed_joins = 0
        self._joined: Joined | None = None
        self._known: Snapshot | None = None

    @property
    def generation(self) -> Generation:
        return self.member.generation if self._subscription.grouped else NO_GENERATION

    @property
    def fetching_as(self) -> Generation:
        return NO_GENERATION

    @property
    def rebalances(self) -> int:
        return self.member.rebalances

    def enforce_rebalance(self, reason: str) -> None:
        self.member.request_rejoin(reason)

    def note_metadata(self, found: ClusterMetadata) -> None:
        with self._monitor.lock:
            self._find_topics(found)
            self._known = self.joining.snapshot_of(found)

    # Stepping

    def step(self) -> None:
        self.commits.call_back()
        self._check_fenced()
        self._raise_failure()
        if self._subscription.grouped:
            self.heartbeat.timer.note_poll(time.monotonic())
            self._step_join()
        self._auto_commit()

    def due(self) -> bool:
        join, now = self._join, time.monotonic()
        if self._failure is not None or self.member.fenced:
            return True
        if join is not None:
            return join.done()
        if self._preparing is not None and not self._preparing.done():
            return now >= self._prepare_until
        return self._subscription.grouped and self._wants_join() and now >= self._join_after

    def next_time(self) -> float:
        times = [float("inf")]
        if self._config.enable_auto_commit and self._subscription.partitions:
            times.append(self._commit_at)
        if self._subscription.grouped:
            times.append(time.monotonic() + self._config.max_poll_interval / 3)
            if self._join is None and self._wants_join():
                times.append(max(self._join_after, self._prepare_until if self._preparing else 0.0))
        return min(times)

    def _check_fenced(self) -> None:
        """Check that no other member has this one's id.

        Raises:
            FencedInstanceIdError: Another member has it, and the application has not left the group since.
        """
        if not self.member.fenced:
            return
        with self._monitor.lock:
            self._failure = None
        self._give_up(self._subscription.assigned, lost=True)
        raise self.requests.fenced()

    def _step_join(self) -> None:
        if self._join is None:
            if not self._wants_join() or time.monotonic() < self._join_after or not self._prepare():
                return
            wish = Wish(
                self._subscription.topics,
                tuple(self._subscription.partitions),
                self.member.rejoin or "",
            )
            if self.heartbeat.ident is None:
                self.heartbeat.start()
            self.joining.wish = wish
            self._join = self._worker.submit(lambda: self.joining.join(wish))
            return
        if not self._join.done():
            return
        join, self._join = self._join, None
        try:
            joined = join.result()
        except Exception as error:
            self._join_failed(error)
            return
        if self.member.generation != joined.generation or self.member.state is not State.STABLE:
            # A heartbeat has found out meanwhile that the generation is over.
            self.member.request_rejoin("the generation ended before its assignment was taken")
            return
        self._complete(joined)

    def _wants_join(self) -> bool:
        """Look for changes that need another join; return whether the member must join."""
        subscription = self._subscription
        if subscription.kind is SubscriptionType.AUTO_PATTERN and not subscription.matched:
            return False
        joined = self._joined
        if joined is not None and self.member.rejoin is None and self._join is None:
            if joined.topics != subscription.topics:
                self.member.request_rejoin("the subscription has changed")
            elif joined.is_leader and self._changed(joined):
                self.member.request_rejoin("topics of the group have changed")
        return self.member.rejoin is not None

    def _changed(self, joined: Joined) -> bool:
        """Tell whether the group's topics have other partitions than when this member, as the leader, assigned them.

        Replicas on other racks count as well, if racks matter.
        """
        known, decided = self._known, joined.snapshot or {}
        if known is None:
            return False
        return any(topic in known and known[topic] != decided.get(topic) for topic in joined.group_topics)

    def _join_failed(self, error: Exception) -> None:
        self.requests.note_failure(error)
        with self._monitor.lock:
            if self.member.state is not State.STABLE:
                self.member.state = State.UNJOINED
            self.member.request_rejoin("joining failed")
        if isinstance(error, JoinRefusedError):
            # The coordinator is there, so pauses stay as short as in Java.
            self._failed_joins = 0
            self._join_after = time.monotonic() + (0.0 if error.todo is Next.AGAIN else self._backoff.pause(0))
            logger.info("group %s: joining again: %s", self.requests.group_id, error.error)
            return
        self._failed_joins += 1
        self._join_after = time.monotonic() + self._backoff.pause(self._failed_joins)
        self._check_fenced()
        if not is_retriable(error):
            raise error
        logger.info("group %s: joining again: %s", self.requests.group_id, error)

    # Before and after a join

    def _prepare(self) -> bool:
        """Give up what must be given up before a join; return False while a commit is under way.

        It is done once, however often the join is tried. But if the group removes the member meanwhile, the partitions
        that it has kept until then are lost.
        """
        if self._prepared and (self.member.generation.valid or not self._subscription.partitions):
            return True
        eager = self.joining.protocol is RebalanceProtocol.EAGER
        if not self._commit_first(self._subscription.assigned if eager else ()):
            return False
        self._prepared = True
        subscription = self._subscription
        owned = subscription.assigned
        try:
            if not self.member.generation.valid:
                self._give_up(owned, lost=True)
            elif eager:
                self._give_up(owned, always=self._joined is not None)
            else:
                self._give_up(tp for tp in owned if tp.topic not in subscription.topics)
        finally:
            with self._monitor.lock:
                subscription.group_topics = frozenset()
        return True

    def _complete(self, joined: Joined) -> None:
        """Take the assigned partitions.

        Every step is done, whatever exceptions the application's listener and assignor raise in earlier steps. Then the
        first of the exceptions is raised, as in Apache Kafka's consumer.
        """
        self._prepared = False
        self._failed_joins = 0
        self._joined = joined
        subscription = self._subscription
        assigned = frozenset(joined.assignment.partitions)
        if not subscription.wants(assigned):
            self.member.request_rejoin("the assignment is of topics that are not wanted any more")
            return
        self._taken_as = joined.generation
        added = assigned
        failure: Exception | None = None
        if self.joining.protocol is RebalanceProtocol.COOPERATIVE:
            added = assigned - subscription.assigned
            if revoked := subscription.assigned - assigned:
                self.member.request_rejoin("partitions were given up, for others to get")
                try:
                    self._give_up(revoked)
                except Exception as error:
                    failure = error
        try:
            joined.assignor.on_assignment(joined.assignment, self.metadata)
        except Exception as error:
            failure = failure or error
        with self._monitor.lock:
            if joined.is_leader:
                subscription.group_topics = joined.group_topics
                self._known = joined.snapshot
            subscription.assign(joined.assignment.partitions)
        self._commit_at = time.monotonic() + self._config.auto_commit_interval
        self._wake_fetcher()
        try:
            self.listener.on_partitions_assigned(added)
        except Exception as error:
            failure = failure or error
        if failure is not None:
            raise failure

    # Leaving

    def leave(self, reason: str, timeout: float) -> None:
        member = self.member
        error: Exception | None = None
        if self._join is not None:
            with self._monitor.lock:
                self.joining.wish = None
            self.requests.interrupt()
            self._join.add_done_callback(lambda future: future.exception())
            self._join = None
        with self._monitor.lock:
            generation = member.generation
            sound = generation.valid and member.state is State.STABLE
        if self._subscription.grouped and self._subscription.partitions:
            try:
                self._give_up(self._subscription.assigned, lost=not sound)
            except Exception as failure:
                error = failure
        with self._monitor.lock:
            if member.fenced:
                self._failure = None
            member.leave(reason)
        self._joined = self._preparing = None
        self._prepared = False
        if generation.member_id and self._config.group_instance_id is None:
            try:
                self.requests.leave(generation.member_id, reason, timeout)
            except (ClientError, KafkaError) as failure:
                logger.info("leaving group %s: %s", self.requests.group_id, failure)
        if error is not None:
            raise error

    def stop(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self.heartbeat.stop(timeout)
        self.requests.close()
        if self.requests.has_joined:
            # Its thread closes it, after the request that may be under way there.
            self._worker.submit(self.requests.disconnect)
        for worker in (self.commits.worker, self._worker):
            worker.stop(max(deadline - time.monotonic(), 0.1))
