"""How a classic group comes to its next generation, and its members to their assignments; see `classic`."""

from __future__ import annotations

import logging

from broker.coordinator.group.classic_state import ClassicState, State
from broker.coordinator.group.member import JoinResult, Member, SyncRequest, SyncResult
from broker.coordinator.group.membership import Moment
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger("kafkalog.broker.groups")

STATIC_RETRY_MS = 1000
"""The least time until a rebalance that none of its static members has joined is looked at again."""


class ClassicRebalance(ClassicState):
    """See the module."""

    # -- rebalancing

    def _maybe_prepare_rebalance(self, now: Moment, reason: str) -> None:
        if self.state is not State.PREPARING:
            self._prepare_rebalance(now, reason)

    def _prepare_rebalance(self, now: Moment, reason: str) -> None:
        logger.info(
            "group %s (%s, generation %d) rebalances: %s", self.group_id, self.state.value, self.generation, reason
        )
        if self.state is State.COMPLETING:
            self._propagate(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._end_sync()
        timeout = self.members.rebalance_timeout_ms
        if self.state is State.EMPTY:
            delay = self._settings.initial_rebalance_delay_ms
            self._initial_delay_left = max(timeout - delay, 0)
            self._member_came = False
            self._join_deadline = now.ms + delay
        else:
            self._initial_delay_left = None
            self._join_deadline = now.ms + timeout
        self._wake_by(self._join_deadline)
        self._become(State.PREPARING, now)
        self._try_complete_join(now)

    def _try_complete_join(self, now: Moment) -> None:
        if self.state is State.PREPARING and self._initial_delay_left is None and self.members.all_joined:
            self._complete_join(now)

    def _join_is_due(self, now: Moment) -> None:
        if self._initial_delay_left and self._member_came:
            # Others may be about to come, too.
            self._member_came = False
            delay = min(self._settings.initial_rebalance_delay_ms, self._initial_delay_left)
            self._initial_delay_left -= delay
            self._join_deadline = now.ms + delay
            return
        self._complete_join(now)

    def _complete_join(self, now: Moment) -> None:
        self._initial_delay_left = None
        self._join_deadline = None
        missing = [member for member in self.members if member.awaiting_join is None and member.instance_id is None]
        for member in missing:
            logger.info("member %s of group %s did not join in time", member.member_id, self.group_id)
            self._remove(member.member_id)
        if len(self.members) and not self.members.elect():
            # Static members alone, and none is there: their sessions end, or one comes back.
            self._join_deadline = now.ms + max(self.members.rebalance_timeout_ms, STATIC_RETRY_MS)
            self._wake_by(self._join_deadline)
            return
        self.generation += 1
        self._end_sync()
        if not len(self.members):
            self.protocol_name = None
            self.subscribed = self._topics()
            self._become(State.EMPTY, now)
            self._store({}, self._stored_empty)
            return
        self.protocol_name = self.members.select_protocol()
        self.subscribed = self._topics()
        self._become(State.COMPLETING, now)
        for member in self.members:
            token = self.members.await_join(member, None)
            if token is not None:
                self._answer(token, self._joined(member))
            member.is_new = False
            self._expect_heartbeat(member, now)
            self.members.awaiting_sync.add(member.member_id)
        self._sync_deadline = now.ms + self.members.rebalance_timeout_ms
        self._wake_by(self._sync_deadline)

    def _stored_empty(self, error: ErrorCode | None, now: Moment) -> None:
        if error is not None:
            # What was stored before holds again after a crash, and its members' sessions end then.
            logger.warning("the empty group %s could not be stored: %s", self.group_id, error.name)

    def _joined(self, member: Member, *, skip_assignment: bool = False) -> JoinResult:
        protocol = self.protocol_name
        leads = self.members.leader == member.member_id
        return JoinResult(
            member.member_id,
            ErrorCode.NONE,
            self.generation,
            self.protocol_type,
            protocol,
            self.members.leader or "",
            self.members.joined_members(protocol) if leads and protocol is not None else (),
            skip_assignment,
        )

    def _sync_is_due(self, now: Moment) -> None:
        missing = list(self.members.awaiting_sync)
        for member_id in missing:
            self._remove(member_id)
        self._prepare_rebalance(now, f"members {missing} did not ask for their assignments")

    # -- assignments

    def sync(self, request: SyncRequest, now: Moment) -> None:
        """SyncGroup."""
        error = self._check_sync(request)
        if error is not None:
            self._answer(request.token, SyncResult(error))
            return
        member = self.members[request.member_id]
        self.members.awaiting_sync.discard(request.member_id)
        if not self.members.awaiting_sync:
            self._sync_deadline = None
        if self.state is State.STABLE:
            self._answer(request.token, self._synced(member))
            self._expect_heartbeat(member, now)
            return
        if member.awaiting_sync is not None:
            self._answer(member.awaiting_sync, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = request.token
        if self.members.leader == request.member_id:
            assignments = {each.member_id: request.assignments.get(each.member_id, b"") for each in self.members}
            generation = self.generation

            def stored(error: ErrorCode | None, then: Moment) -> None:
                self._stored_assignments(assignments, generation, error, then)

            self._store(assignments, stored)

    def _check_sync(self, request: SyncRequest) -> ErrorCode | None:
        error = self._check_member(request.member_id, request.instance_id)
        if error is not None:
            return error
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != self.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else None

    def _stored_assignments(
        self, assignments: dict[str, bytes], generation: int, error: ErrorCode | None, now: Moment
    ) -> None:
        if self.state is not State.COMPLETING or self.generation != generation:
            # Somebody came or went meanwhile, and the group rebalances.
            return
        if error is not None:
            self._propagate(error, now)
            self._prepare_rebalance(now, f"assignments could not be stored: {error.name}")
            return
        for member in self.members:
            member.assignment = assignments[member.member_id]
        self._propagate(None, now)
        self._become(State.STABLE, now)

    def _propagate(self, error: ErrorCode | None, now: Moment) -> None:
        for member in self.members:
            if error is not None:
                member.assignment = b""
            if member.awaiting_sync is not None:
                result = self._synced(member) if error is None else SyncResult(error)
                self._answer(member.awaiting_sync, result)
                member.awaiting_sync = None
                # Its session may have ended unnoticed while it waited.
                self._expect_heartbeat(member, now)

    def _synced(self, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _end_sync(self) -> None:
        self.members.awaiting_sync.clear()
        self._sync_deadline = None
