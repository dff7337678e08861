"""The state of a member under the classic protocol, and when it must send a heartbeat.

All changes of a member's state are here. Nothing here sends, waits or reads a clock, and the owner serializes the
calls. Theory of operation::

    UNJOINED --JoinGroup sent--> JOINING --joined--> SYNCING --assignment--> STABLE
       ^                            |                   |                       |
       +-- error -------------------+-------------------+        rejoin wanted: JOINING again

A generation is one composition of the group. Requests under an older one are refused. A coordinator that does not know
a member any more resets it: the member joins anew, and its partitions are lost (KIP-429). A static member is fenced
when another member takes its `group.instance.id`. It must not join again, or the two would fence each other in turns
(KIP-345).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kafkalog.client.consumer.group.generation import NO_GENERATION, NO_GENERATION_ID, Generation, Next
from kafkalog.protocol.errors import ErrorCode

_BACK_OFF = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS})
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class State(Enum):
    """The states of a member."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


@dataclass
class Member:
    """The state of one member.

    `rejoin` is the reason why it must join (again), or None; a `fenced` member does not join.
    """

    state: State = State.UNJOINED
    generation: Generation = NO_GENERATION
    rejoin: str | None = "the member is new"
    rebalances: int = 0
    fenced: bool = False

    @property
    def beating(self) -> bool:
        """Return whether the coordinator expects heartbeats."""
        return self.state in (State.SYNCING, State.STABLE)

    def request_rejoin(self, reason: str) -> None:
        """Make the member join again."""
        if self.rejoin is None:
            self.rejoin = reason

    def reset(self, reason: str, *, keep_member_id: bool = False) -> None:
        """Forget the generation, because the coordinator does not know it, or because the member leaves."""
        member_id = self.generation.member_id if keep_member_id else ""
        self.generation = Generation(NO_GENERATION_ID, member_id)
        self.state = State.UNJOINED
        self.rejoin = reason

    def fence(self) -> None:
        """Note that another member has this `group.instance.id`. Only `leave` ends this state."""
        self.reset("another member has this group.instance.id")
        self.fenced = True

    def leave(self, reason: str) -> None:
        """Leave the group, because the application wants to; the consumer may join as a new member."""
        self.reset(reason)
        self.fenced = False

    def join_sent(self) -> None:
        self.state = State.JOINING

    def joined(self, generation_id: int, member_id: str, protocol: str | None) -> None:
        """Note that JoinGroup has succeeded; SyncGroup must fetch the assignment."""
        self.state = State.SYNCING
        self.generation = Generation(generation_id, member_id, protocol)
        self.rejoin = None

    def synced(self, generation: Generation) -> bool:
        """Note that SyncGroup has succeeded; return False where the generation has ended meanwhile."""
        if self.state is not State.SYNCING or self.generation != generation:
            self.request_rejoin("the generation ended before its assignment came")
            return False
        self.state = State.STABLE
        self.rebalances += 1
        return True

    def join_failed(self, code: int, member_id: str) -> Next:
        """Handle a refused JoinGroup. `member_id` is the one in the response (KIP-394)."""
        self.state = State.UNJOINED
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(NO_GENERATION_ID, member_id)
            return Next.AGAIN
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.reset("the coordinator did not know the member")
            return Next.BACK_OFF
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fence()
        if code in _BACK_OFF:
            return Next.BACK_OFF
        return Next.FIND if code in _MOVED else Next.FAIL

    def sync_failed(self, code: int) -> Next:
        """Handle a refused SyncGroup."""
        self.request_rejoin("SyncGroup was refused")
        if self.state is State.SYNCING:
            self.state = State.UNJOINED
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return Next.AGAIN
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._refused(code)
            return Next.BACK_OFF
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fence()
        if code in _BACK_OFF:
            return Next.BACK_OFF
        return Next.FIND if code in _MOVED else Next.FAIL

    def heartbeat_failed(self, code: int, generation: Generation) -> Next:
        """Handle a refused heartbeat of `generation`."""
        if code in _MOVED:
            return Next.FIND
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is State.STABLE:
                self.request_rejoin("the group rebalances")
            return Next.REJOIN
        if code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            if generation == self.generation:
                self._refused(code)
            return Next.REJOIN
        if code == ErrorCode.FENCED_INSTANCE_ID:
            if generation != self.generation:
                return Next.REJOIN
            self.fence()
            return Next.FAIL
        return Next.BACK_OFF if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else Next.FAIL

    def commit_refused(self, code: int, generation: Generation) -> bool:
        """Handle a commit of `generation` that was refused because of its sender.

        Returns whether a rebalance under way is the only reason.
        """
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            # It may succeed if it is tried again after the rebalance.
            self.request_rejoin("a commit met a rebalance")
            return True
        if generation != self.generation and self.state in (State.JOINING, State.SYNCING):
            return True
        if generation == self.generation and self.state not in (State.JOINING, State.SYNCING):
            self._refused(code)
        return False

    def commit_fenced(self, generation: Generation) -> bool:
        """Handle FENCED_INSTANCE_ID for a commit of `generation`; return whether the present member is fenced."""
        if generation == self.generation and self.state is State.STABLE:
            self.fence()
        return self.fenced

    def _refused(self, code: int) -> None:
        name = ErrorCode(code).name
        self.reset(f"the coordinator answered {name}", keep_member_id=code == ErrorCode.ILLEGAL_GENERATION)


@dataclass
class HeartbeatTimer:
    """The timers of a member: its next heartbeat, its session, and the application's polls. Times are in seconds."""

    session_timeout: float
    interval: float
    max_poll_interval: float
    sent: float = 0.0
    received: float = 0.0
    polled: float = 0.0
    failed: float | None = None

    def reset(self, now: float) -> None:
        """Begin anew, because the group has been joined."""
        self.sent = self.received = self.polled = now
        self.failed = None

    def note_poll(self, now: float) -> None:
        """Note that the application has called poll."""
        self.polled = now

    def note_sent(self, now: float) -> None:
        self.sent, self.failed = now, None

    def note_received(self, now: float) -> None:
        self.received = now

    def note_failed(self, now: float, backoff: float) -> None:
        """Note that the last heartbeat failed; the next one may be sent after `backoff` seconds."""
        self.failed = now + backoff

    def due(self, now: float) -> float:
        """Return the seconds until the next heartbeat; 0 if it is due."""
        at = self.sent + self.interval if self.failed is None else self.failed
        return max(at - now, 0.0)

    def session_expired(self, now: float) -> bool:
        """Tell whether the coordinator has been silent for so long that it may have removed the member."""
        return now - self.received > self.session_timeout

    def poll_expired(self, now: float) -> bool:
        """Tell whether the application has not polled for `max.poll.interval.ms`."""
        return now - self.polled > self.max_poll_interval
