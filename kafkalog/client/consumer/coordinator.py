"""The application's side of its membership: joins when that is due, gives partitions up and takes them, and commits.

All of this happens while the application polls: listeners are called in its thread, and partitions come and go only
there. The waiting is done by other threads (`joining`, `commits`, `heartbeat`); `step` never waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future

from kafkalog.client.cluster import Cluster, ClusterMetadata
from kafkalog.client.coordinators import Coordinators
from kafkalog.client.errors import is_retriable
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import RebalanceInProgressError

from .assignors import RebalanceProtocol
from .commits import Commits
from .config import ConsumerConfig
from .group import GroupRequests
from .heartbeat import Heartbeat
from .joining import Joined, Joining, JoinRefusedError, Snapshot, Wish, snapshot_of
from .listener import RebalanceListener
from .membership import NO_GENERATION, Generation, Membership, Next, State
from .shared import Shared, Worker
from .subscription import Kind, SubscriptionState

_log = logging.getLogger(__name__)


class Coordinator:
    """The member of one consumer. ``wake_fetcher`` is called when partitions were assigned."""

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        subscription: SubscriptionState,
        shared: Shared,
        wake_fetcher: Callable[[], None],
    ) -> None:
        self._config, self._subscription, self._shared = config, subscription, shared
        self._wake_fetcher = wake_fetcher
        self.membership = Membership()
        self.requests = GroupRequests(config, cluster, Coordinators(cluster))
        self.heartbeat = Heartbeat(config, self.requests, self.membership, shared, self._fail)
        self.joining = Joining(config, cluster, self.requests, self.membership, self.heartbeat, shared)
        self.commits = Commits(config, self.requests, self.membership, shared, lambda: self.generation)
        self._worker = Worker("kafkalog-consumer-join", shared.notify)
        self.listener = RebalanceListener()
        self._failure: Exception | None = None
        self._prepared = False
        self._preparing: Future[None] | None = None
        self._prepare_until = 0.0
        self._join: Future[Joined] | None = None
        self._join_after = 0.0
        self._joined: Joined | None = None
        self._known: Snapshot | None = None
        self._commit_at = time.monotonic() + config.auto_commit_interval
        self._auto: Future[None] | None = None

    @property
    def generation(self) -> Generation:
        """As whom commits are sent: nobody where partitions are assigned by hand."""
        return self.membership.generation if self._subscription.grouped else NO_GENERATION

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member as a transaction names it."""
        generation = self.generation
        return ConsumerGroupMetadata(
            self.requests.group_id, generation.id, generation.member_id, self._config.group_instance_id
        )

    def _fail(self, error: Exception) -> None:
        with self._shared.lock:
            self._failure = error
        self._shared.notify()

    def note_metadata(self, found: ClusterMetadata) -> None:
        """The topics of interest are these now; called by the fetcher's thread."""
        with self._shared.lock:
            if self._subscription.kind is Kind.PATTERN:
                hidden = self._config.exclude_internal_topics
                self._subscription.found(
                    topic.name for topic in found.topics.values() if not (hidden and topic.is_internal)
                )
            self._known = snapshot_of(found)

    # Stepping

    def step(self) -> None:
        """Do what is due. Raises what listeners raise, and what ends the membership."""
        self.commits.call_back()
        self._check_fenced()
        if self._failure is not None:
            with self._shared.lock:
                failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
        if self._subscription.grouped:
            self.heartbeat.timer.note_poll(time.monotonic())
            self._step_join()
        self._auto_commit()

    def due(self) -> bool:
        """Whether `step` has something to do now."""
        join, now = self._join, time.monotonic()
        if self._failure is not None or self.membership.fenced:
            return True
        if join is not None:
            return join.done()
        if self._preparing is not None and not self._preparing.done():
            return now >= self._prepare_until
        return self._subscription.grouped and self._wants_join() and now >= self._join_after

    def next_time(self) -> float:
        """When `step` is to be called, though nothing has changed (``time.monotonic``)."""
        times = [float("inf")]
        if self._config.enable_auto_commit and self._subscription.partitions:
            times.append(self._commit_at)
        if self._subscription.grouped:
            times.append(time.monotonic() + self._config.max_poll_interval / 3)
            if self._join is None and self._wants_join():
                times.append(max(self._join_after, self._prepare_until if self._preparing else 0.0))
        return min(times)

    def _check_fenced(self) -> None:
        """FencedInstanceIdError where another has this one's id, again and again until the application leaves."""
        if not self.membership.fenced:
            return
        with self._shared.lock:
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
                self.membership.rejoin or "",
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
        if self.membership.generation != joined.generation or self.membership.state is not State.STABLE:
            # A heartbeat has learned meanwhile that the generation is over.
            self.membership.request_rejoin("the generation ended before its assignment was taken")
            return
        self._complete(joined)

    def _wants_join(self) -> bool:
        """Whether the member is to join, having looked at what has changed."""
        subscription = self._subscription
        if subscription.kind is Kind.PATTERN and self._known is None:
            return False
        joined = self._joined
        if joined is not None and self.membership.rejoin is None and self._join is None:
            if joined.topics != subscription.topics:
                self.membership.request_rejoin("the subscription has changed")
            elif joined.is_leader and self._changed(joined):
                self.membership.request_rejoin("topics of the group have changed")
        return self.membership.rejoin is not None

    def _changed(self, joined: Joined) -> bool:
        """Whether topics of the group have other partitions than when this member, its leader, shared them out."""
        known, decided = self._known, joined.snapshot or {}
        if known is None:
            return False
        return any(topic in known and known[topic] != decided.get(topic) for topic in joined.group_topics)

    def _join_failed(self, error: Exception) -> None:
        backoff = self._config.client.retry_backoff
        self.requests.noticed(error)
        with self._shared.lock:
            if self.membership.state is not State.STABLE:
                self.membership.state = State.UNJOINED
            self.membership.request_rejoin("joining failed")
        if isinstance(error, JoinRefusedError):
            self._join_after = time.monotonic() + (0.0 if error.todo is Next.AGAIN else backoff)
            _log.info("group %s: joining again: %s", self.requests.group_id, error.error)
            return
        self._join_after = time.monotonic() + backoff
        self._check_fenced()
        if not is_retriable(error):
            raise error
        _log.info("group %s: joining again: %s", self.requests.group_id, error)

    # Before and after a join

    def _prepare(self) -> bool:
        """Give up what has to be given up before joining; False while a commit is waited for.

        Once for all tries, but a member that the group gave up meanwhile has lost what it kept until then.
        """
        if self._prepared and (self.membership.generation.valid or not self._subscription.partitions):
            return True
        if not self._commit_before_join():
            return False
        self._prepared = True
        subscription = self._subscription
        owned = subscription.assigned
        if not self.membership.generation.valid:
            self._give_up(owned, lost=True)
        elif self.joining.protocol is RebalanceProtocol.EAGER:
            self._give_up(owned, always=True)
        else:
            self._give_up(tp for tp in owned if tp.topic not in subscription.topics)
        with self._shared.lock:
            subscription.group_topics = frozenset()
        return True

    def _commit_before_join(self) -> bool:
        """Begin to commit what was read, where that is automatic; whether it is done, or has taken too long."""
        if not self._config.enable_auto_commit or not self.membership.generation.valid:
            self._preparing = None
            return True
        now = time.monotonic()
        if self._preparing is None:
            with self._shared.lock:
                if self.joining.protocol is RebalanceProtocol.EAGER:
                    self._subscription.hold(self._subscription.assigned)
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

    def _complete(self, joined: Joined) -> None:
        """Take what is assigned."""
        self._prepared = False
        self._joined = joined
        subscription = self._subscription
        assigned = frozenset(joined.assignment.partitions)
        if not subscription.wants(assigned):
            self.membership.request_rejoin("the assignment is of topics that are not wanted any more")
            return
        added = assigned
        if self.joining.protocol is RebalanceProtocol.COOPERATIVE:
            added = assigned - subscription.assigned
            if revoked := subscription.assigned - assigned:
                self.membership.request_rejoin("partitions were given up, for others to get")
                self._give_up(revoked)
        joined.assignor.on_assignment(joined.assignment, self.metadata)
        with self._shared.lock:
            if joined.is_leader:
                subscription.group_topics = joined.group_topics
                self._known = joined.snapshot
            subscription.assign(joined.assignment.partitions)
        self._commit_at = time.monotonic() + self._config.auto_commit_interval
        self._wake_fetcher()
        self.listener.on_partitions_assigned(added)

    def _give_up(self, partitions: Iterable[TopicPartition], *, lost: bool = False, always: bool = False) -> None:
        """Call the listener, and let go of the partitions, whatever it raises."""
        going = frozenset(partitions)
        if not going and not always:
            return
        with self._shared.lock:
            self._subscription.hold(going)
        try:
            if lost:
                _log.warning("group %s: %d partitions are lost", self.requests.group_id, len(going))
                self.listener.on_partitions_lost(going)
            elif going or self._joined is not None:
                self.listener.on_partitions_revoked(going)
        finally:
            with self._shared.lock:
                self._subscription.assign(tp for tp in self._subscription.partitions if tp not in going)

    # Commits

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self._shared.lock:
            return self._subscription.to_commit()

    def _auto_commit(self) -> None:
        now = time.monotonic()
        if not self._config.enable_auto_commit or now < self._commit_at or not self._subscription.partitions:
            return
        self._commit_at = now + self._config.auto_commit_interval
        if self._auto is not None and not self._auto.done():
            return
        offsets = self._consumed()
        if offsets and (self._subscription.kind is Kind.MANUAL or self.membership.generation.valid):
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
        return self.commits.worker.submit(lambda: self.requests.committed(wanted, deadline))

    # Leaving

    def leave(self, reason: str, timeout: float) -> None:
        """Give everything up and leave the group.

        The group keeps a static member's place until its session ends: it may come back (KIP-345).
        """
        membership = self.membership
        error: Exception | None = None
        if self._join is not None:
            with self._shared.lock:
                self.joining.wish = None
            self.requests.interrupt()
            self._join.add_done_callback(lambda future: future.exception())
            self._join = None
        with self._shared.lock:
            generation = membership.generation
            sound = generation.valid and membership.state is State.STABLE
        if self._subscription.grouped and self._subscription.partitions:
            try:
                self._give_up(self._subscription.assigned, lost=not sound)
            except Exception as failure:
                error = failure
        with self._shared.lock:
            if membership.fenced:
                self._failure = None
            membership.leave(reason)
        self._joined = self._preparing = None
        self._prepared = False
        if generation.member_id and self._config.group_instance_id is None:
            try:
                self.requests.leave(generation.member_id, reason, timeout)
            except Exception as failure:
                _log.info("leaving group %s: %s", self.requests.group_id, failure)
        if error is not None:
            raise error

    def stop(self, timeout: float) -> None:
        """End the threads."""
        deadline = time.monotonic() + timeout
        self.heartbeat.stop(timeout)
        self.requests.close()
        for worker in (self.commits.worker, self._worker):
            worker.stop(max(deadline - time.monotonic(), 0.1))
