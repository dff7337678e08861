"""What a classic group is, and what can be asked of it (`membership.Membership`); see `classic`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from broker.coordinator.group import records
from broker.coordinator.group.member import UNKNOWN_MEMBER_ID, JoinResult, Member, SyncResult
from broker.coordinator.group.membership import (
    Answer,
    CommitRequest,
    GroupSummary,
    MemberSummary,
    Moment,
    Retention,
    Store,
)
from broker.coordinator.group.roster import Roster
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.embedded.consumer import PROTOCOL_TYPE, subscribed_topics
from kafkalog.protocol.errors import ErrorCode, NonEmptyGroupError, error_for

_STORE_ERRORS: dict[ErrorCode | None, ErrorCode | None] = {
    # The member asks again, and the record may have been replicated by then.
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members are told when the group could not be stored, where it is not the error itself."""


class State(Enum):
    """See the module; the values are the names that clients are told."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    """``group.initial.rebalance.delay.ms`` and ``group.max.size``."""

    initial_rebalance_delay_ms: int
    max_size: int


class ClassicState:
    """See the module.

    Attributes:
        generation: counts the rebalances.
        protocol_name: the assignor of this generation, or None.
        state_since_ms: when the group came to its state, ms since the epoch; None of groups that releases of Apache
            Kafka before 2.1 stored.
        out: what is to be done, in order; whoever does it empties it.
    """

    kind = "classic"

    def __init__(
        self, group_id: str, settings: ClassicSettings, new_member_id: Callable[[str], str], now: Moment
    ) -> None:
        self.group_id = group_id
        self._settings = settings
        self._new_member_id = new_member_id
        self.state = State.EMPTY
        self.state_since_ms: int | None = now.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Roster()
        self.subscribed: frozenset[str] | None = None
        """Topics of its members, or None where that is not known."""
        self.out: list[Answer | Store] = []
        self.wake_at: int | None = None
        self._join_deadline: int | None = None
        self._sync_deadline: int | None = None
        self._initial_delay_left: int | None = None
        """Of the first rebalance of an empty group: by how much more it may be delayed."""
        self._member_came = False

    @classmethod
    def load(
        cls,
        group_id: str,
        value: records.GroupMetadataValue,
        settings: ClassicSettings,
        new_member_id: Callable[[str], str],
        now: Moment,
    ) -> Self:
        """The group as it was stored: Stable, or Empty without members. `resume` begins its members' sessions."""
        group = cls(group_id, settings, new_member_id, now)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        since = value.current_state_timestamp
        group.state_since_ms = None if since == records.NO_TIMESTAMP else since
        for stored in value.members:
            rebalance = stored.rebalance_timeout
            group.members.add(
                Member(
                    stored.member_id,
                    stored.group_instance_id,
                    stored.client_id,
                    stored.client_host,
                    stored.session_timeout,
                    stored.session_timeout if rebalance < 0 else rebalance,
                    value.protocol_type,
                    ((value.protocol or "", stored.subscription),),
                    stored.assignment,
                )
            )
        if len(group.members):
            group.state = State.STABLE
            group.members.leader = value.leader if value.leader in group.members else group.members.leader
        group.subscribed = group._topics()
        return group

    # -- what is asked of any group

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY and not self.members.pending

    def check_commit(self, request: CommitRequest, now: Moment) -> None:
        if request.epoch < 0 and self.state is State.EMPTY:
            return
        named = request.member_id != UNKNOWN_MEMBER_ID or request.instance_id is not None
        if request.epoch >= 0 or named:
            error = self._check_member(request.member_id, request.instance_id)
            if error is None and request.epoch != self.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            if error is not None:
                raise error_for(error)
        elif not request.transactional and self.state is not State.EMPTY:
            raise error_for(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.transactional:
            return
        if self.state is State.COMPLETING:
            raise error_for(ErrorCode.REBALANCE_IN_PROGRESS)
        if request.member_id in self.members:
            self._expect_heartbeat(self.members[request.member_id], now)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        return

    def check_deletable(self) -> None:
        if self.state is not State.EMPTY:
            raise NonEmptyGroupError

    def is_subscribed(self, topic: str) -> bool:
        if self.state is State.EMPTY:
            return False
        if self.protocol_type != PROTOCOL_TYPE:
            raise NonEmptyGroupError
        return self.subscribed is None or topic in self.subscribed

    def retention(self) -> Retention | None:
        if self.protocol_type is None:
            return Retention(None)
        if self.state is State.EMPTY:
            return Retention(self.state_since_ms)
        if self.protocol_type == PROTOCOL_TYPE and self.state is State.STABLE and self.subscribed is not None:
            return Retention(None, self.subscribed)
        return None

    def tombstones(self, group_id: str) -> list[StateRecord]:
        # A group that was only ever committed to has no record.
        return [StateRecord(records.group_metadata_key(group_id), None)] if self.generation > 0 else []

    def summary(self) -> GroupSummary:
        stable = self.state is State.STABLE and self.protocol_name is not None
        protocol = self.protocol_name or ""
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
        return GroupSummary(self.state.value, self.protocol_type or "", protocol if stable else "", members)

    def unload(self) -> None:
        self.release(ErrorCode.NOT_COORDINATOR)
        self.wake_at = None

    def release(self, error: ErrorCode) -> None:
        """Answer all who wait with ``error``."""
        for member in self.members:
            self._answer_waiting(member, error, member.member_id)

    def record(self) -> StateRecord:
        """The group as it is to be stored now."""
        assignments = {member.member_id: member.assignment for member in self.members}
        value = records.group_metadata_value(self._value(assignments))
        return StateRecord(records.group_metadata_key(self.group_id), value)

    # -- inside

    def _check_member(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        if instance_id is not None:
            known = self.members.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _answer_waiting(self, member: Member, error: ErrorCode, member_id: str) -> None:
        if member.awaiting_join is not None:
            token = member.awaiting_join
            if member.member_id in self.members:
                self.members.await_join(member, None)
            else:
                member.awaiting_join = None
            self._answer(token, JoinResult(member_id, error))
        if member.awaiting_sync is not None:
            self._answer(member.awaiting_sync, SyncResult(error))
            member.awaiting_sync = None

    def _remove(self, member_id: str, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        member = self.members.remove(member_id)
        if member is not None:
            self._answer_waiting(member, error, UNKNOWN_MEMBER_ID)

    def _topics(self) -> frozenset[str] | None:
        if self.protocol_type != PROTOCOL_TYPE:
            return None
        if not len(self.members):
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members:
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return None
            topics |= found
        return topics

    def _store(self, assignments: dict[str, bytes], done: Callable[[ErrorCode | None, Moment], None]) -> None:
        value = records.group_metadata_value(self._value(assignments))
        record = StateRecord(records.group_metadata_key(self.group_id), value)
        self.out.append(Store([record], lambda error, now: done(_STORE_ERRORS.get(error, error), now)))

    def _value(self, assignments: dict[str, bytes]) -> records.GroupMetadataValue:
        protocol = self.protocol_name
        return records.GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.members.leader,
            current_state_timestamp=records.NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms,
            members=[
                records.MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(protocol or ""),
                    assignment=assignments[member.member_id],
                )
                for member in self.members
            ],
        )

    def _become(self, state: State, now: Moment) -> None:
        self.state = state
        self.state_since_ms = now.wall_ms

    def _expect_heartbeat(self, member: Member, now: Moment) -> None:
        member.deadline = now.ms + member.session_timeout_ms
        self._wake_by(member.deadline)

    def _wake_by(self, deadline: int) -> None:
        if self.wake_at is None or deadline < self.wake_at:
            self.wake_at = deadline

    def _plan_wake(self) -> None:
        deadlines = [member.deadline for member in self.members] + [self._join_deadline, self._sync_deadline]
        deadlines += self.members.pending.values()
        self.wake_at = min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _answer(self, token: Any, result: JoinResult | SyncResult) -> None:
        self.out.append(Answer(token, result))
