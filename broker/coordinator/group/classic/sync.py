"""SyncGroup: the leader assigns, and every member of a classic group gets its assignment once all are stored."""

from __future__ import annotations

from broker.coordinator.group.classic.deadlines import Deadlines
from broker.coordinator.group.classic.effects import Effects
from broker.coordinator.group.classic.group_metadata import ClassicGroupState, GroupMetadata
from broker.coordinator.group.classic.rebalance import Rebalance
from broker.coordinator.group.classic.requests import SyncRequest, SyncResult
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.membership import Moment, Token
from kafkalog.protocol.errors import ErrorCode


def check_sync(request: SyncRequest, metadata: GroupMetadata, members: Roster) -> ErrorCode | None:
    """Return the error that refuses a SyncGroup, or None."""
    error = members.check(request.member_id, request.instance_id)
    if error is not None:
        return error
    if request.generation != metadata.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != metadata.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != metadata.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_preparing = metadata.state is ClassicGroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else None


class Sync:
    """Handles the SyncGroup requests of one group."""

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

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> None:
        """Handle SyncGroup; `token` gets the answer."""
        metadata, members = self._metadata, self._members
        error = check_sync(request, metadata, members)
        if error is not None:
            self._effects.answer(token, SyncResult(error))
            return
        member = members[request.member_id]
        self._rebalance.note_sync(request.member_id)
        if metadata.state is ClassicGroupState.STABLE:
            self._effects.answer(token, self._rebalance.synced(member))
            self._deadlines.expect_heartbeat(member, now)
            return
        if member.awaiting_sync is not None:
            self._effects.answer(member.awaiting_sync, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = token
        if members.leader == request.member_id:
            self._store(request.assignments)

    def _store(self, given: dict[str, bytes]) -> None:
        assignments = {member.member_id: given.get(member.member_id, b"") for member in self._members}
        generation = self._metadata.generation

        def stored(error: ErrorCode | None, now: Moment) -> None:
            self._stored(assignments, generation, error, now)

        self._effects.store(self._metadata.record(self._members, assignments), stored)

    def _stored(self, assignments: dict[str, bytes], generation: int, error: ErrorCode | None, now: Moment) -> None:
        metadata = self._metadata
        if metadata.state is not ClassicGroupState.COMPLETING_REBALANCE or metadata.generation != generation:
            # A member has come or gone meanwhile, and the group rebalances.
            return
        if error is None:
            self._rebalance.assign(assignments, now)
        else:
            self._rebalance.refuse_assignments(error, now)
            self._rebalance.prepare(now, f"assignments could not be stored: {error.name}")
