"""A group of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

A `ClassicGroup` is made of parts; a part uses only the arguments of its constructor:

- `group_metadata`  state (its docstring has a table of states), generation, protocol
- `roster`          the members and their leader
- `deadlines`       when sessions, unused ids and phases end
- `effects`         answers, and records to be stored
- `rebalance`       the phases between two generations
- `static_members`  static members that return
- `join`, `sync`  JoinGroup and SyncGroup

Nothing here does I/O or reads a clock: each call gets the current time. Effects are appended to `out`: answers to
waiting requests (`Answer`), and records to store (`Store`), after which its `done` continues. `wake` finds members
that send no heartbeat for their session timeout, member ids that were given out and never used, and rebalances that
take too long.

Semantics are those of Apache Kafka's `GroupCoordinator`; KIP-62 (rebalance timeout), KIP-134 (initial delay), KIP-345
(static members), KIP-394 (MEMBER_ID_REQUIRED), KIP-814 (static leaders that return).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Self

from broker.coordinator.group.classic.deadlines import Deadlines
from broker.coordinator.group.classic.effects import Effects
from broker.coordinator.group.classic.group_metadata import ClassicGroupState, GroupMetadata, stored_members
from broker.coordinator.group.classic.join import Join
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.rebalance import Rebalance
from broker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoinRequest, SyncRequest
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.classic.static_members import StaticMembers
from broker.coordinator.group.classic.sync import Sync
from broker.coordinator.group.membership import CommitRequest, GroupSummary, MemberSummary, Moment, Retention, Token
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.coordinator_records import GroupMetadataValue
from kafkalog.protocol.embedded.consumer import PROTOCOL_TYPE
from kafkalog.protocol.errors import ErrorCode, NonEmptyGroupError, error_for


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    """The settings `group.initial.rebalance.delay.ms` and `group.max.size`."""

    initial_rebalance_delay_ms: int
    max_size: int


class ClassicGroup:
    """A group of the classic protocol; `membership.Membership` describes the methods that every group has.

    Attributes:
        members: by id; only the group and its parts change them.
        out: effects in order; the caller carries them out and empties the list.
    """

    __slots__ = (
        "_deadlines", "_join", "_metadata", "_rebalance", "_settings", "_sync", "members", "out",
    )  # fmt: skip

    kind = "classic"

    def __init__(
        self, group_id: str, settings: ClassicSettings, new_member_id: Callable[[str], str], now: Moment
    ) -> None:
        metadata = GroupMetadata(group_id, now)
        members = Roster()
        deadlines = Deadlines(members)
        effects = Effects()
        rebalance = Rebalance(metadata, members, deadlines, effects, settings.initial_rebalance_delay_ms)
        static_members = StaticMembers(metadata, members, deadlines, effects, rebalance)
        self._settings = settings
        self._metadata = metadata
        self._deadlines = deadlines
        self._rebalance = rebalance
        self._join = Join(
            metadata, members, deadlines, effects, rebalance, static_members, settings.max_size, new_member_id
        )
        self._sync = Sync(metadata, members, deadlines, effects, rebalance)
        self.members = members
        self.out = effects.out

    @classmethod
    def load(
        cls,
        group_id: str,
        value: GroupMetadataValue,
        settings: ClassicSettings,
        new_member_id: Callable[[str], str],
        now: Moment,
    ) -> Self:
        """Return a group as it was stored: Stable, or Empty without members. `resume` starts the members' sessions."""
        group = cls(group_id, settings, new_member_id, now)
        metadata, members = group._metadata, group.members
        metadata.restore(value)
        for member in stored_members(value):
            members.add(member)
        if len(members):
            metadata.state = ClassicGroupState.STABLE
            members.leader = value.leader if value.leader in members else members.leader
        metadata.learn_topics(members)
        return group

    @classmethod
    def of_consumers(
        cls,
        group_id: str,
        generation: int,
        consumers: Iterable[Member],
        settings: ClassicSettings,
        new_member_id: Callable[[str], str],
        now: Moment,
    ) -> Self:
        """Return the Stable group that a group of the consumer protocol becomes.

        `take_over` starts the members' sessions.
        """
        group = cls(group_id, settings, new_member_id, now)
        metadata, members = group._metadata, group.members
        for member in consumers:
            members.add(member)
        metadata.generation = generation
        metadata.protocol_type = PROTOCOL_TYPE
        metadata.protocol_name = members.select_protocol()
        metadata.state = ClassicGroupState.STABLE
        return group

    def resume(self, now: Moment) -> None:
        """Begin the sessions of loaded members; rebalance if the group exceeds its maximum size."""
        for member in self.members:
            self._deadlines.expect_heartbeat(member, now)
        max_size = self._settings.max_size
        if len(self.members) > max_size:
            self._rebalance.prepare(now, f"the group is larger than group.max.size ({max_size})")

    def take_over(self, now: Moment) -> None:
        """Start a group that was of the consumer protocol: members must join again within their session timeouts."""
        self._metadata.learn_topics(self.members)
        self.resume(now)
        self._rebalance.maybe_prepare(now, "the group is a classic one again")

    # -- requests of members

    def join(self, request: JoinRequest, token: Token, now: Moment) -> None:
        """Handle JoinGroup; `token` gets the answer. The caller has checked the session timeout."""
        self._join.join(request, token, now)

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> None:
        """Handle SyncGroup; `token` gets the answer."""
        self._sync.sync(request, token, now)

    def awaits_assignments_of(self, member_id: str) -> bool:
        """Return whether a SyncGroup of this member, the leader, completes the rebalance."""
        return self._metadata.state is ClassicGroupState.COMPLETING_REBALANCE and self.members.leader == member_id

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Moment) -> ErrorCode:
        """Handle Heartbeat; REBALANCE_IN_PROGRESS makes the member join again."""
        error = self.members.check(member_id, instance_id)
        if error is not None:
            return error
        metadata = self._metadata
        if generation != metadata.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._deadlines.expect_heartbeat(self.members[member_id], now)
        is_preparing = metadata.state is ClassicGroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None, reason: str | None, now: Moment) -> ErrorCode:
        """Handle LeaveGroup of one member; a static member may be named by its instance id only."""
        if member_id == UNKNOWN_MEMBER_ID:
            named = None if instance_id is None else self.members.static.get(instance_id)
            if named is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = named
        elif member_id in self.members.pending:
            self._rebalance.remove(member_id)
            self._rebalance.try_complete_join(now)
            return ErrorCode.NONE
        else:
            error = self.members.check(member_id, instance_id)
            if error is not None:
                return error
        self._rebalance.remove_and_rebalance(member_id, f"member {member_id} leaves: {reason or 'not provided'}", now)
        return ErrorCode.NONE

    # -- time

    @property
    def wake_at(self) -> int | None:
        return self._deadlines.wake_at

    def wake(self, now: Moment) -> None:
        """Act on all deadlines that have passed by now, such as those of sessions."""
        self.members.pending.end(now.ms)
        for member in self.members:
            if member.deadline is not None and member.deadline <= now.ms and member.member_id in self.members:
                member.deadline = None
                waits = member.awaiting_join is not None or member.awaiting_sync is not None
                if member.is_new or not waits:
                    self._rebalance.remove_and_rebalance(
                        member.member_id, f"member {member.member_id} has failed: its session timed out", now
                    )
        self._rebalance.wake(now)
        self._deadlines.plan_wake()

    def unload(self) -> None:
        self.release(ErrorCode.NOT_COORDINATOR)
        self._deadlines.wake_at = None

    def release(self, error: ErrorCode) -> None:
        """Answer all waiting requests with `error`."""
        for member in self.members:
            self._rebalance.release(member, error, member.member_id)

    # -- the interface of any group

    @property
    def group_id(self) -> str:
        return self._metadata.group_id

    @property
    def state(self) -> ClassicGroupState:
        return self._metadata.state

    @property
    def state_name(self) -> str:
        return self._metadata.state.value

    @property
    def generation(self) -> int:
        return self._metadata.generation

    @property
    def protocol_type(self) -> str | None:
        return self._metadata.protocol_type

    @property
    def protocol_name(self) -> str | None:
        return self._metadata.protocol_name

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self._metadata.state is ClassicGroupState.EMPTY and not self.members.pending

    def check_commit(self, request: CommitRequest, now: Moment) -> None:
        state = self._metadata.state
        if request.epoch < 0 and state is ClassicGroupState.EMPTY:
            return
        named = request.member_id != UNKNOWN_MEMBER_ID or request.instance_id is not None
        if request.epoch >= 0 or named:
            error = self.members.check(request.member_id, request.instance_id)
            if error is None and request.epoch != self._metadata.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            if error is not None:
                raise error_for(error)
        elif not request.transactional and state is not ClassicGroupState.EMPTY:
            raise error_for(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.transactional:
            return
        if state is ClassicGroupState.COMPLETING_REBALANCE:
            raise error_for(ErrorCode.REBALANCE_IN_PROGRESS)
        if request.member_id in self.members:
            self._deadlines.expect_heartbeat(self.members[request.member_id], now)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        return

    def check_deletable(self) -> None:
        if self._metadata.state is not ClassicGroupState.EMPTY:
            raise NonEmptyGroupError

    def consumed(self, topics: Set[str]) -> Set[str]:
        return self._metadata.consumed(topics)

    def retention(self) -> Retention | None:
        return self._metadata.retention()

    def record(self) -> StateRecord:
        """Return the group's record, as it is to be stored now."""
        return self._metadata.record(self.members)

    def tombstones(self, group_id: str) -> list[StateRecord]:
        return self._metadata.tombstones()

    def summary(self) -> GroupSummary:
        metadata = self._metadata
        stable = metadata.state is ClassicGroupState.STABLE and metadata.protocol_name is not None
        protocol = metadata.protocol_name or ""
        members = [
            MemberSummary(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol) if stable else b"",
                member.assignment if stable else b"",
            )
            for member in self.members
        ]
        return GroupSummary(metadata.state.value, metadata.protocol_type or "", protocol if stable else "", members)
