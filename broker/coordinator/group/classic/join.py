"""JoinGroup: which members may join a classic group, and what the request changes.

KIP-394: a new member first gets its id (MEMBER_ID_REQUIRED). For static members that return see `static_members`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from broker.coordinator.group.classic.deadlines import Deadlines
from broker.coordinator.group.classic.effects import Effects
from broker.coordinator.group.classic.group_metadata import ClassicGroupState, GroupMetadata
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.rebalance import Rebalance
from broker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoinRequest, JoinResult
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.classic.static_members import StaticMembers
from broker.coordinator.group.membership import Moment, Token
from kafkalog.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The longest time in ms that a new member waits for its first JoinGroup response.

Until then the member does not know its id and sends no heartbeats, so its session timeout does not apply.
"""


class JoinStep(Enum):
    """The changes that an accepted JoinGroup makes to the group."""

    GIVE_ID = auto()
    ADD = auto()
    REPLACE_STATIC = auto()
    REJOIN = auto()
    REPEAT_ANSWER = auto()


def decide_join(request: JoinRequest, metadata: GroupMetadata, members: Roster, max_size: int) -> JoinStep | ErrorCode:
    """Return the changes of a JoinGroup, or the error that refuses it; change nothing."""
    if not _has_room(request.member_id, metadata, members, max_size):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _supports(request, metadata, members):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id == UNKNOWN_MEMBER_ID:
        if request.instance_id is not None:
            return JoinStep.REPLACE_STATIC if request.instance_id in members.static else JoinStep.ADD
        return JoinStep.GIVE_ID if request.require_known_id else JoinStep.ADD
    if request.member_id in members.pending:
        return JoinStep.ADD if request.instance_id is None else ErrorCode.UNKNOWN_MEMBER_ID
    error = members.check(request.member_id, request.instance_id)
    if error is not None:
        return error
    if metadata.state is ClassicGroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if members[request.member_id].protocols == request.protocols:
        # The member may not have received the first response.
        if metadata.state is ClassicGroupState.COMPLETING_REBALANCE:
            return JoinStep.REPEAT_ANSWER
        # A follower sends the same request again, and nothing has changed. A leader that does so wants to assign anew:
        # it has found other topics or partitions than it assigned.
        if metadata.state is ClassicGroupState.STABLE and members.leader != request.member_id:
            return JoinStep.REPEAT_ANSWER
    return JoinStep.REJOIN


def _has_room(member_id: str, metadata: GroupMetadata, members: Roster, max_size: int) -> bool:
    if metadata.state is ClassicGroupState.EMPTY:
        return True
    if metadata.state is ClassicGroupState.PREPARING_REBALANCE:
        # Members that have not joined again yet do not count; so the last members to come are the ones that are
        # refused.
        known = member_id in members and members[member_id].awaiting_join is not None
        return known or members.joining < max_size
    return member_id in members or len(members) < max_size


def _supports(request: JoinRequest, metadata: GroupMetadata, members: Roster) -> bool:
    if metadata.state is ClassicGroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == metadata.protocol_type and members.supports(request.protocols)


class Join:
    """Handles the JoinGroup requests of one group."""

    __slots__ = (
        "_deadlines", "_effects", "_max_size", "_members", "_metadata", "_new_member_id", "_rebalance",
        "_static_members",
    )  # fmt: skip

    def __init__(
        self,
        metadata: GroupMetadata,
        members: Roster,
        deadlines: Deadlines,
        effects: Effects,
        rebalance: Rebalance,
        static_members: StaticMembers,
        max_size: int,
        new_member_id: Callable[[str], str],
    ) -> None:
        self._metadata = metadata
        self._members = members
        self._deadlines = deadlines
        self._effects = effects
        self._rebalance = rebalance
        self._static_members = static_members
        self._max_size = max_size
        self._new_member_id = new_member_id

    def join(self, request: JoinRequest, token: Token, now: Moment) -> None:
        """Handle JoinGroup; `token` gets the answer. The caller has checked the session timeout."""
        step = decide_join(request, self._metadata, self._members, self._max_size)
        if isinstance(step, ErrorCode):
            self._refuse(request, step, token)
        elif step is JoinStep.REJOIN:
            self._rejoin(request, token, now)
        elif step is JoinStep.REPEAT_ANSWER:
            self._effects.answer(token, self._rebalance.joined(self._members[request.member_id]))
        elif request.member_id != UNKNOWN_MEMBER_ID:
            self._add(request.member_id, request, token, now)
        else:
            self._join_new(step, request, token, now)
        self._rebalance.try_complete_join(now)

    def _refuse(self, request: JoinRequest, error: ErrorCode, token: Token) -> None:
        member_id = request.member_id
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
            self._rebalance.remove(member_id, error)
            member_id = UNKNOWN_MEMBER_ID
        self._effects.answer(token, JoinResult(member_id, error))

    def _join_new(self, step: JoinStep, request: JoinRequest, token: Token, now: Moment) -> None:
        """Add a member that does not know its id."""
        instance_id = request.instance_id
        member_id = self._new_member_id(request.client_id if instance_id is None else instance_id)
        if step is JoinStep.ADD:
            self._add(member_id, request, token, now)
        elif step is JoinStep.GIVE_ID:
            deadline = now.ms + request.session_timeout_ms
            self._members.pending.add(member_id, deadline)
            self._deadlines.wake_by(deadline)
            self._effects.answer(token, JoinResult(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        else:
            assert instance_id is not None
            self._static_members.replace(self._members.static[instance_id], member_id, request, token, now)

    def _add(self, member_id: str, request: JoinRequest, token: Token, now: Moment) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocol_type,
            request.protocols,
        )
        member.is_new = True
        member.awaiting_join = token
        self._rebalance.member_came()
        if not len(self._members):
            self._metadata.protocol_type = request.protocol_type
        self._members.add(member)
        member.deadline = now.ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        self._deadlines.wake_by(member.deadline)
        self._rebalance.maybe_prepare(now, f"new member {member_id}; client reason: {_reason(request)}")

    def _rejoin(self, request: JoinRequest, token: Token, now: Moment) -> None:
        member = self._members[request.member_id]
        self._rebalance.join_again(member, request, token)
        self._rebalance.maybe_prepare(now, f"member {member.member_id} joins again; client reason: {_reason(request)}")


def _reason(request: JoinRequest) -> str:
    return request.reason or "not provided"
