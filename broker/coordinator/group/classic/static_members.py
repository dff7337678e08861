"""Static members of a classic group that return (KIP-345).

A member that comes with an instance id and without a member id replaces the one with that instance id, and the old
member id is fenced. A stable group continues unchanged once the new id is stored (KIP-814: also if it leads).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from broker.coordinator.group.classic.deadlines import Deadlines
from broker.coordinator.group.classic.effects import Effects
from broker.coordinator.group.classic.group_metadata import ClassicGroupState, GroupMetadata
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.rebalance import Rebalance
from broker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoinRequest, JoinResult, Protocols
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.membership import Moment, Token
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Replacement(NamedTuple):
    """A replacement that is being stored."""

    member: Member
    token: Token
    """The waiting request."""
    generation: int
    """The generation of the group."""
    old_id: str
    """The id of the member before."""
    protocols: Protocols
    """The protocols of the member before."""
    session_timeout_ms: int
    """The session timeout of the member before."""
    rebalance_timeout_ms: int
    """The rebalance timeout of the member before."""
    leader: str | None
    """The leader of the group before."""
    can_skip_assignment: bool
    """The client may be told that it leads (KIP-814)."""


class StaticMembers:
    """Replaces the static members of one group that return under a new member id."""

    __slots__ = ("_deadlines", "_effects", "_members", "_metadata", "_rebalance")

    def __init__(
        self,
        metadata: GroupMetadata,
        members: Roster,
        deadlines: Deadlines,
        effects: Effects,
        rebalance: Rebalance,
    ) -> None:
        self._metadata = metadata
        self._members = members
        self._deadlines = deadlines
        self._effects = effects
        self._rebalance = rebalance

    def replace(self, old_id: str, new_id: str, request: JoinRequest, token: Token, now: Moment) -> None:
        """Replace a static member by itself under a new id; `token` gets the answer."""
        metadata, members = self._metadata, self._members
        instance_id = request.instance_id
        logger.info("static member %s of group %s is back: %s was %s", instance_id, metadata.group_id, new_id, old_id)
        leader = members.leader
        member = members.rename(old_id, new_id)
        self._rebalance.release(member, ErrorCode.FENCED_INSTANCE_ID, old_id)
        replacement = Replacement(
            member,
            token,
            metadata.generation,
            old_id,
            member.protocols,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            leader,
            request.can_skip_assignment,
        )
        self._rebalance.join_again(member, request, token)
        self._deadlines.expect_heartbeat(member, now)
        if metadata.state is ClassicGroupState.STABLE:
            if members.select_protocol() != metadata.protocol_name:
                self._rebalance.prepare(now, f"static member {instance_id} changes the protocol")
                return
            self._effects.store(metadata.record(members), lambda error, then: self._stored(replacement, error, then))
        elif metadata.state is ClassicGroupState.COMPLETING_REBALANCE:
            # The leader may assign to the old id, and the new one would get nothing.
            self._rebalance.prepare(now, f"static member {instance_id} is back during a rebalance")

    def _stored(self, replacement: Replacement, error: ErrorCode | None, now: Moment) -> None:
        metadata, members = self._metadata, self._members
        member = replacement.member
        is_stable = metadata.state is ClassicGroupState.STABLE and metadata.generation == replacement.generation
        if not is_stable or member.awaiting_join is not replacement.token:
            # It was replaced once more, or waits for the next generation now.
            return
        members.await_join(member, None)
        if error is not None:
            members.update(
                member, replacement.protocols, replacement.session_timeout_ms, replacement.rebalance_timeout_ms
            )
            members.rename(member.member_id, replacement.old_id)
            result = self._told(UNKNOWN_MEMBER_ID, error, replacement.leader)
        elif replacement.can_skip_assignment:
            leads = members.leader == member.member_id
            result = self._rebalance.joined(member, skip_assignment=leads)
        else:
            # Answer with the old leader's id: a client that believes to be the leader would assign, and a stable group
            # would ignore it.
            result = self._told(member.member_id, ErrorCode.NONE, replacement.leader)
        # Its session may have ended unnoticed while it waited.
        self._deadlines.expect_heartbeat(member, now)
        self._effects.answer(replacement.token, result)

    def _told(self, member_id: str, error: ErrorCode, leader: str | None) -> JoinResult:
        metadata = self._metadata
        return JoinResult(
            member_id, error, metadata.generation, metadata.protocol_type, metadata.protocol_name, leader or ""
        )
