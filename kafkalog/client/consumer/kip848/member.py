"""The state of a member under the consumer protocol (KIP-848), and when it must send a heartbeat.

Nothing here sends, waits or reads a clock, and the owner serializes the calls. Theory of operation::

    OUTSIDE --want--> JOINING --answer--> RECONCILING --taken--> ACKNOWLEDGING --heartbeat--> STABLE
                         ^                     ^                                                |
                         |                     +--------------- another assignment -------------+
    FENCED, STALE -------+ when the application has let go of what it had

The coordinator tells a member its target assignment. The member's heartbeats tell the coordinator its current one:
first without the partitions that it gave up, so that other members can have them. A member whose epoch or id is unknown
to the coordinator is FENCED: its partitions are lost, and it joins anew. A member whose application does not poll
leaves, and is STALE until the application polls. After an error that no heartbeat can repair it is FATAL until the
application leaves.

A heartbeat contains only what has changed since the last answered one. After an error it contains everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from kafkalog.backoff import Backoff
from kafkalog.client.consumer.group.generation import NO_GENERATION, Generation, Next
from kafkalog.protocol.errors import ErrorCode, FencedInstanceIdError, error_for
from kafkalog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member leaves for a while: the group keeps its place until its session ends."""

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_NEVER = float("inf")
_LEAST_INTERVAL_MS = 10


class State(Enum):
    """The states of a member."""

    OUTSIDE = auto()
    JOINING = auto()
    STABLE = auto()
    RECONCILING = auto()
    ACKNOWLEDGING = auto()
    FENCED = auto()
    STALE = auto()
    FATAL = auto()


_INSIDE = frozenset({State.STABLE, State.RECONCILING, State.ACKNOWLEDGING})


class TopicIdPartition(NamedTuple):
    """A partition as the consumer protocol names it."""

    topic_id: UUID
    partition: int


Partitions = frozenset[TopicIdPartition]
NOTHING: Partitions = frozenset()


class Wanted(NamedTuple):
    """The subscription of a member: topics by name, and a regular expression of RE2 that the coordinator matches."""

    topics: frozenset[str]
    regex: str | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of a member, which it tells the coordinator except for the back-off; durations in seconds."""

    group_id: str
    rebalance_timeout: float
    """The time that it may take to give partitions up, and that it may go without a poll: `max.poll.interval.ms`."""
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 1.0))


class Beat(NamedTuple):
    """A heartbeat to send.

    Answers to an earlier `incarnation` are ignored. The last heartbeat's answer is not awaited.
    """

    request: ConsumerGroupHeartbeatRequest
    incarnation: int
    is_last: bool = False


class Reconciliation(NamedTuple):
    """A step from the current assignment towards the target: give up `revoked`, then have `assigned`."""

    assigned: Partitions
    revoked: Partitions
    incarnation: int


class _Told(NamedTuple):
    """The state of the member that the coordinator knows."""

    wanted: Wanted
    taken: int


@dataclass
class Member:
    """One member. It chooses its `member_id` itself (KIP-1082), once for the life of the consumer."""

    settings: Settings
    member_id: str
    state: State = State.OUTSIDE
    epoch: int = JOIN_EPOCH
    wanted: Wanted | None = None
    target: Partitions | None = None
    """The assignment that the coordinator wants, as it said last."""
    current: Partitions | None = None
    """The assignment that it has; None before its first one."""
    incarnation: int = 0
    """The number of times that it has begun anew."""
    rebalances: int = 0
    interval: float = 0.0
    """Seconds between heartbeats, as the coordinator wants it."""
    polled: float = 0.0
    """The time of the application's last poll."""
    _failure: Exception | None = None
    _told: _Told | None = None
    _taken: int = 0
    _sent: float | None = None
    _in_flight: bool = False
    _hurry: bool = False
    _retry_at: float | None = None
    _failures: int = 0
    _regex_told: bool = False

    # Queries

    @property
    def generation(self) -> Generation:
        """The identity under which offsets are committed; NO_GENERATION outside of the group."""
        if self.state not in _INSIDE or self.epoch <= JOIN_EPOCH:
            return NO_GENERATION
        return Generation(self.epoch, self.member_id, incarnation=self.incarnation)

    @property
    def has_lost(self) -> bool:
        """Return whether its partitions are lost, and the application must hear of it first (`released`)."""
        return self.state in (State.FENCED, State.STALE)

    @property
    def failure(self) -> Exception | None:
        """The error that ended the membership; None once the application leaves."""
        return self._failure

    @property
    def fenced(self) -> bool:
        """Return whether another member with the same `group.instance.id` ended the membership."""
        return isinstance(self._failure, FencedInstanceIdError)

    # The application's side

    def want(self, wanted: Wanted) -> bool:
        """Subscribe to this, and join the group; return whether that is a change."""
        if wanted == self.wanted and self.state is not State.OUTSIDE:
            return False
        self.wanted = wanted
        if self.state is State.OUTSIDE:
            self.state = State.JOINING
        return True

    def plan(self, known: Collection[UUID]) -> Reconciliation | None:
        """Plan the next step towards the target, as far as its topics' names are `known`; or None."""
        if self.state is not State.RECONCILING or self.target is None:
            return None
        assigned = frozenset(each for each in self.target if each.topic_id in known)
        begins = self.current is None
        if assigned == self.current or (begins and self.target and not assigned):
            return None
        return Reconciliation(assigned, (self.current or NOTHING) - assigned, self.incarnation)

    def unknown(self, known: Collection[UUID]) -> bool:
        """Tell whether topics of the target must be looked up."""
        return self.state is State.RECONCILING and any(each.topic_id not in known for each in self.target or ())

    def reconciled(self, plan: Reconciliation) -> bool:
        """Note that the plan was carried out, so that a heartbeat acknowledges it.

        Returns False if the member has begun anew.
        """
        if plan.incarnation != self.incarnation:
            return False
        self.current = plan.assigned
        self._taken += 1
        self.rebalances += 1
        self.state = State.ACKNOWLEDGING
        return True

    def released(self) -> None:
        """Note that the application has let go of lost partitions, so that the member may join again."""
        if self.has_lost:
            self.state = State.OUTSIDE if self.wanted is None else State.JOINING

    def leave(self) -> ConsumerGroupHeartbeatRequest | None:
        """Leave the group, because the application wants to; return the request to send, if one is needed."""
        told = self._sent is not None and self.state in (*_INSIDE, State.JOINING)
        self._begin_anew(State.OUTSIDE)
        self.wanted = self._failure = None
        return self._leaving() if told else None

    # Heartbeats

    def due(self, now: float) -> float:
        """Return the seconds until `beat` must be called; infinity where something else must happen first."""
        if self._in_flight or self.state not in (*_INSIDE, State.JOINING):
            return _NEVER
        unpolled = max(self.polled + self.settings.rebalance_timeout - now, 0.0)
        if self._retry_at is not None:
            return min(max(self._retry_at - now, 0.0), unpolled)
        urgent = self._hurry or self.state in (State.JOINING, State.ACKNOWLEDGING)
        if urgent or self._sent is None or self._told is None or self._told.wanted != self.wanted:
            return 0.0
        return min(max(self._sent + self.interval - now, 0.0), unpolled)

    def beat(self, now: float) -> Beat:
        """Make the heartbeat that is due.

        Call `answered`, `refused` or `failed` afterwards, unless it is the last one.
        """
        if now - self.polled >= self.settings.rebalance_timeout:
            last = Beat(self._leaving(), self.incarnation, is_last=True)
            self._begin_anew(State.STALE)
            return last
        request = self._request()
        if self.state is State.ACKNOWLEDGING:
            self.state = State.STABLE if self.target == self.current else State.RECONCILING
        self._sent, self._in_flight, self._hurry = now, True, False
        return Beat(request, self.incarnation)

    def answered(self, beat: Beat, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Handle the coordinator's answer to a heartbeat."""
        if beat.incarnation != self.incarnation:
            return
        self._in_flight, self._retry_at, self._failures = False, None, 0
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self.interval = max(answer.heartbeat_interval_ms, _LEAST_INTERVAL_MS) / 1000
        if answer.assignment is not None:
            self.target = frozenset(
                TopicIdPartition(topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
        if self.state is State.JOINING:
            self.state = State.STABLE
            self.target = self.target or NOTHING
        if self.state in (State.STABLE, State.RECONCILING):
            self.state = State.STABLE if self.target == self.current else State.RECONCILING

    def refused(self, beat: Beat, code: int, message: str | None, now: float) -> Next:
        """Handle the coordinator's error for a heartbeat."""
        if beat.incarnation != self.incarnation:
            return Next.AGAIN
        if code in _FENCED:
            joining = self.state is State.JOINING
            self._begin_anew(State.FENCED)
            if joining:
                self._back_off(now)
            return Next.REJOIN
        if code in _MOVED or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.failed(beat, now)
            return Next.FIND if code in _MOVED else Next.BACK_OFF
        error = error_for(code)
        told = message or error.message
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and self.wanted is not None:
            # A broker may say so before metadata does, and names no topic.
            told = f"{_named(self.wanted)}: {told}"
        self.fail(type(error)(f"group {self.settings.group_id}: {told}"))
        return Next.FAIL

    def failed(self, beat: Beat, now: float) -> None:
        """Handle that no answer came, so that it is unknown whether the coordinator has received the heartbeat."""
        if beat.incarnation == self.incarnation:
            self._in_flight, self._told = False, None
            self._back_off(now)

    def fail(self, failure: Exception) -> None:
        """End the membership until the application leaves the group."""
        self._begin_anew(State.FATAL)
        self._failure = failure

    # Commits

    def commit_refused(self, code: int, generation: Generation) -> bool:
        """Handle a commit of `generation` that was refused because of its sender.

        Returns whether another commit may succeed after the next heartbeat, which is due now.
        """
        mine = generation == self.generation
        self._hurry |= mine
        return code == ErrorCode.STALE_MEMBER_EPOCH and generation.incarnation == self.incarnation

    def commit_fenced(self, generation: Generation) -> bool:
        """Handle FENCED_INSTANCE_ID for a commit of `generation`; return whether the present member is fenced."""
        self._hurry |= generation == self.generation
        return self.fenced

    # Inside

    def _begin_anew(self, state: State) -> None:
        self.state = state
        self.incarnation += 1
        self.epoch = JOIN_EPOCH
        self.target = self.current = None
        self._told = self._sent = self._retry_at = None
        self._in_flight = self._hurry = False
        self._failures = 0

    def _back_off(self, now: float) -> None:
        self._failures += 1
        self._retry_at = now + self.settings.backoff.pause(self._failures)

    def _leaving(self) -> ConsumerGroupHeartbeatRequest:
        instance = self.settings.instance_id
        return ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if instance is None else STATIC_LEAVE_EPOCH,
            instance_id=instance,
        )

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        settings, told, wanted = self.settings, self._told, self.wanted
        assert wanted is not None
        joins = self.state is State.JOINING
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if joins else self.epoch,
            instance_id=settings.instance_id,
        )
        if told is None or told.wanted != wanted:
            request.subscribed_topic_names = sorted(wanted.topics)
            # The coordinator keeps a regular expression until it gets another value.
            request.subscribed_topic_regex = "" if wanted.regex is None and self._regex_told else wanted.regex
            self._regex_told |= wanted.regex is not None
        if told is None:
            request.rebalance_timeout_ms = round(settings.rebalance_timeout * 1000)
            request.rack_id = settings.rack_id
            request.server_assignor = settings.assignor
        if told is None or told.taken != self._taken:
            request.topic_partitions = [] if joins else topic_partitions(self.current or NOTHING)
        self._told = _Told(wanted, self._taken)
        return request


def _named(wanted: Wanted) -> str:
    """Return the topics of a subscription as an error names them."""
    if not wanted.topics:
        return f"a topic of the pattern {wanted.regex}"
    first, *others = sorted(wanted.topics)
    if not (others or wanted.regex):
        return f"topic {first}"
    return f"topic {first}, or another one of the subscription"


def topic_partitions(partitions: Iterable[TopicIdPartition]) -> list[TopicPartitions]:
    """Group partitions by topic, as requests have them."""
    topics: dict[UUID, TopicPartitions] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, TopicPartitions(topic_id=topic_id)).partitions.append(partition)
    return list(topics.values())
