"""The phases of a rebalance of a classic group: its members join, then the leader assigns."""

from __future__ import annotations

import logging

from broker.coordinator.group.classic.deadlines import Deadlines
from broker.coordinator.group.classic.effects import Effects
from broker.coordinator.group.classic.group_metadata import ClassicGroupState, GroupMetadata
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoinRequest, JoinResult, SyncResult
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.membership import Moment, Token
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

STATIC_RETRY_MS = 1000
"""The shortest pause in ms before the join phase is checked again, if all members are static and none has joined."""


class InitialDelay:
    """The delay of an empty group's first rebalance, during which more members may come (KIP-134)."""

    __slots__ = ("_delay_ms", "_left_ms", "_member_came")

    def __init__(self, delay_ms: int, rebalance_timeout_ms: int) -> None:
        self._delay_ms = delay_ms
        self._left_ms = max(rebalance_timeout_ms - delay_ms, 0)
        self._member_came = False

    def member_came(self) -> None:
        """Record that a member has come, so that the delay is extended."""
        self._member_came = True

    def extend(self) -> int | None:
        """Return for how many more ms to wait after the delay has passed, or None to wait no longer.

        The wait is extended while members come, at most up to the rebalance timeout.
        """
        if not self._member_came or not self._left_ms:
            return None
        self._member_came = False
        more = min(self._delay_ms, self._left_ms)
        self._left_ms -= more
        return more


class Rebalance:
    """Carries out the rebalances of one group."""

    __slots__ = ("_deadlines", "_effects", "_initial_delay", "_initial_delay_ms", "_members", "_metadata")

    def __init__(
        self,
        metadata: GroupMetadata,
        members: Roster,
        deadlines: Deadlines,
        effects: Effects,
        initial_delay_ms: int,
    ) -> None:
        self._metadata = metadata
        self._members = members
        self._deadlines = deadlines
        self._effects = effects
        self._initial_delay_ms = initial_delay_ms
        self._initial_delay: InitialDelay | None = None
        """The delay of the first rebalance of a group that was empty; None in all later rebalances."""

    # -- the join phase

    def maybe_prepare(self, now: Moment, reason: str) -> None:
        """Begin a rebalance, unless the join phase of one is under way already."""
        if self._metadata.state is not ClassicGroupState.PREPARING_REBALANCE:
            self.prepare(now, reason)

    def prepare(self, now: Moment, reason: str) -> None:
        """Begin to rebalance: members join again."""
        metadata = self._metadata
        logger.info(
            "group %s (%s, generation %d) rebalances: %s",
            metadata.group_id, metadata.state.value, metadata.generation, reason,
        )  # fmt: skip
        if metadata.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.refuse_assignments(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._end_sync()
        wait_ms = self._members.rebalance_timeout_ms
        self._initial_delay = None
        if metadata.state is ClassicGroupState.EMPTY:
            self._initial_delay = InitialDelay(self._initial_delay_ms, wait_ms)
            wait_ms = self._initial_delay_ms
        self._deadlines.wait_for_joins(now.ms + wait_ms)
        metadata.become(ClassicGroupState.PREPARING_REBALANCE, now)
        self.try_complete_join(now)

    def member_came(self) -> None:
        """Extend the wait of a new group's first rebalance, because a new member is about to join."""
        if self._initial_delay is not None and self._metadata.generation == 0:
            self._initial_delay.member_came()

    def join_again(self, member: Member, request: JoinRequest, token: Token) -> None:
        """Let a member wait for the next generation with `token`, and take over its new metadata."""
        self._members.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
        before = self._members.await_join(member, token)
        if before is not None:
            # The member has abandoned its earlier request.
            self._effects.answer(before, JoinResult(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))

    def try_complete_join(self, now: Moment) -> None:
        """Begin the next generation if no member is missing."""
        is_preparing = self._metadata.state is ClassicGroupState.PREPARING_REBALANCE
        if is_preparing and self._initial_delay is None and self._members.all_joined:
            self._complete_join(now)

    def _join_is_due(self, now: Moment) -> None:
        more_ms = None if self._initial_delay is None else self._initial_delay.extend()
        if more_ms is None:
            self._complete_join(now)
        else:
            self._deadlines.wait_for_joins(now.ms + more_ms)

    def _complete_join(self, now: Moment) -> None:
        metadata, members, deadlines = self._metadata, self._members, self._deadlines
        self._initial_delay = None
        deadlines.join = None
        missing = [member for member in members if member.awaiting_join is None and member.instance_id is None]
        for member in missing:
            logger.info("member %s of group %s did not join in time", member.member_id, metadata.group_id)
            self.remove(member.member_id)
        if len(members) and not members.elect():
            # All members are static, and none has joined: their sessions end, or one of them returns.
            deadlines.wait_for_joins(now.ms + max(members.rebalance_timeout_ms, STATIC_RETRY_MS))
            return
        metadata.generation += 1
        self._end_sync()
        metadata.select_protocol(members)
        if not len(members):
            metadata.become(ClassicGroupState.EMPTY, now)
            self._effects.store(metadata.record(members), self._stored_empty)
            return
        metadata.become(ClassicGroupState.COMPLETING_REBALANCE, now)
        for member in members:
            token = members.await_join(member, None)
            if token is not None:
                self._effects.answer(token, self.joined(member))
            member.is_new = False
            deadlines.expect_heartbeat(member, now)
            members.awaiting_sync[member.member_id] = None
        deadlines.wait_for_syncs(now.ms + members.rebalance_timeout_ms)

    def _stored_empty(self, error: ErrorCode | None, now: Moment) -> None:
        if error is not None:
            # After a crash the group is loaded from its earlier record. The sessions of the members in it end then.
            logger.warning("the empty group %s could not be stored: %s", self._metadata.group_id, error.name)

    def joined(self, member: Member, *, skip_assignment: bool = False) -> JoinResult:
        """Return the JoinGroup result of a member of this generation; the leader's has all members."""
        metadata, leader = self._metadata, self._members.leader
        protocol = metadata.protocol_name
        leads = leader == member.member_id
        return JoinResult(
            member.member_id,
            ErrorCode.NONE,
            metadata.generation,
            metadata.protocol_type,
            protocol,
            leader or "",
            self._members.joined_members(protocol) if leads and protocol is not None else (),
            skip_assignment,
        )

    # -- the sync phase

    def assign(self, assignments: dict[str, bytes], now: Moment) -> None:
        """Give every member its assignment, by id: the generation is complete."""
        for member in self._members:
            member.assignment = assignments[member.member_id]
            self._answer_sync(member, self.synced(member), now)
        self._metadata.become(ClassicGroupState.STABLE, now)

    def refuse_assignments(self, error: ErrorCode, now: Moment) -> None:
        """Drop the assignments; members that wait for them get the error."""
        for member in self._members:
            member.assignment = b""
            self._answer_sync(member, SyncResult(error), now)

    def _answer_sync(self, member: Member, result: SyncResult, now: Moment) -> None:
        if member.awaiting_sync is not None:
            self._effects.answer(member.awaiting_sync, result)
            member.awaiting_sync = None
            # Its session may have ended unnoticed while it waited.
            self._deadlines.expect_heartbeat(member, now)

    def synced(self, member: Member) -> SyncResult:
        """Return the SyncGroup result of a member of a complete generation."""
        metadata = self._metadata
        return SyncResult(ErrorCode.NONE, metadata.protocol_type, metadata.protocol_name, member.assignment)

    def note_sync(self, member_id: str) -> None:
        """Record that a member has sent SyncGroup."""
        awaited = self._members.awaiting_sync
        awaited.pop(member_id, None)
        if not awaited:
            self._deadlines.sync = None

    def _sync_is_due(self, now: Moment) -> None:
        missing = list(self._members.awaiting_sync)
        for member_id in missing:
            self.remove(member_id)
        self.prepare(now, f"members {missing} did not ask for their assignments")

    def _end_sync(self) -> None:
        self._members.awaiting_sync.clear()
        self._deadlines.sync = None

    # -- members that leave or are removed

    def wake(self, now: Moment) -> None:
        """End the join phase or the sync phase if its deadline has passed."""
        deadlines = self._deadlines
        if deadlines.join is not None and deadlines.join <= now.ms:
            self._join_is_due(now)
        if deadlines.sync is not None and deadlines.sync <= now.ms:
            self._sync_is_due(now)
        self.try_complete_join(now)

    def remove(self, member_id: str, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member, or an id that was given out; its waiting request gets `error`."""
        member = self._members.remove(member_id)
        if member is not None:
            self.release(member, error, UNKNOWN_MEMBER_ID)

    def remove_and_rebalance(self, member_id: str, reason: str, now: Moment) -> None:
        """Remove a member; the others rebalance into a generation without it."""
        self.remove(member_id)
        if self._metadata.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.prepare(now, reason)
        else:
            self.try_complete_join(now)

    def release(self, member: Member, error: ErrorCode, member_id: str) -> None:
        """Answer the waiting requests of a member with `error`; the response to JoinGroup names `member_id`."""
        if member.awaiting_join is not None:
            token = member.awaiting_join
            if member.member_id in self._members:
                self._members.await_join(member, None)
            else:
                member.awaiting_join = None
            self._effects.answer(token, JoinResult(member_id, error))
        if member.awaiting_sync is not None:
            self._effects.answer(member.awaiting_sync, SyncResult(error))
            member.awaiting_sync = None
