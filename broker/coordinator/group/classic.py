"""A group of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup): the machine.

| state               | it waits for                                      | it becomes                                |
|---------------------|---------------------------------------------------|-------------------------------------------|
| Empty               | a first member                                    | PreparingRebalance                        |
| PreparingRebalance  | every member to join, for the rebalance timeout   | CompletingRebalance; Empty, where nobody  |
|                     | at most; an empty group, for more members to come | is left                                   |
| CompletingRebalance | the leader's assignments, until they are stored   | Stable; PreparingRebalance, when members  |
|                     |                                                   | come, go or change                        |
| Stable              | nothing                                           | PreparingRebalance                        |

Nothing here does I/O or reads a clock: each call says what moment it is. What has to be done is left in ``out``:
answers to those who wait (`Answer`), and what has to be stored (`Store`), after which `stored` goes on. Members that
send no heartbeat for their session timeout, ids that were given out and never came, and rebalances that take too long
are found by `wake`.

Semantics are those of Apache Kafka's ``GroupCoordinator``; KIP-62 (rebalance timeout), KIP-134 (initial delay),
KIP-345 (static members), KIP-394 (MEMBER_ID_REQUIRED), KIP-814 (static leaders that are back).
"""

from __future__ import annotations

import logging
from typing import Any

from broker.coordinator.group.classic_rebalance import ClassicRebalance
from broker.coordinator.group.classic_state import State
from broker.coordinator.group.member import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    JoinRequest,
    JoinResult,
    Member,
)
from broker.coordinator.group.membership import Moment
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger("kafkalog.broker.groups")

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member may wait that does not know its id: nobody can tell whether it still lives."""


class ClassicGroup(ClassicRebalance):
    """See the module; the attributes are `classic_state.ClassicState`'s."""

    def resume(self, now: Moment) -> None:
        """Begin the sessions of members that were loaded; rebalance if there are more than may be."""
        for member in self.members:
            self._expect_heartbeat(member, now)
        if len(self.members) > self._settings.max_size:
            self._prepare_rebalance(now, f"the group is larger than group.max.size ({self._settings.max_size})")

    def take_over(self, now: Moment) -> None:
        """The group was one of the consumer protocol until now: its members join again, in their sessions."""
        self.subscribed = self._topics()
        self.resume(now)
        self._maybe_prepare_rebalance(now, "the group is a classic one again")

    # -- joining

    def join(self, request: JoinRequest, now: Moment) -> None:
        """JoinGroup; the session timeout has been checked."""
        if not self._accepts(request.member_id):
            self._remove(request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self._refuse(request, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
        elif request.member_id == UNKNOWN_MEMBER_ID:
            self._join_new(request, now)
        else:
            self._join_known(request, now)
        self._try_complete_join(now)

    def _accepts(self, member_id: str) -> bool:
        members, limit = self.members, self._settings.max_size
        if self.state is State.EMPTY:
            return True
        if self.state is State.PREPARING:
            # Members that have not joined again yet do not count: the last to come are those who have to go.
            known = member_id in members and members[member_id].awaiting_join is not None
            return known or members.joining < limit
        return member_id in members or len(members) < limit

    def _supports(self, request: JoinRequest) -> bool:
        if self.state is State.EMPTY:
            return bool(request.protocol_type and request.protocols)
        return request.protocol_type == self.protocol_type and self.members.supports(request.protocols)

    def _join_new(self, request: JoinRequest, now: Moment) -> None:
        if not self._supports(request):
            self._refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID)
            return
        member_id = self._new_member_id(request.client_id if request.instance_id is None else request.instance_id)
        if request.instance_id is not None:
            old = self.members.static.get(request.instance_id)
            if old is None:
                self._add_member(member_id, request, now)
            else:
                self._replace_static(old, member_id, request, now)
        elif request.require_known_id:
            deadline = now.ms + request.session_timeout_ms
            self.members.pending[member_id] = deadline
            self._wake_by(deadline)
            self._refuse(request, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add_member(member_id, request, now)

    def _add_member(self, member_id: str, request: JoinRequest, now: Moment) -> None:
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
        member.awaiting_join = request.token
        if self.state is State.PREPARING and self.generation == 0:
            self._member_came = True
        if not len(self.members):
            self.protocol_type = request.protocol_type
        self.members.add(member)
        member.deadline = now.ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        self._wake_by(member.deadline)
        self._maybe_prepare_rebalance(now, f"new member {member_id}; client reason: {_reason(request)}")

    def _join_known(self, request: JoinRequest, now: Moment) -> None:
        member_id = request.member_id
        if not self._supports(request):
            self._refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        if member_id in self.members.pending:
            if request.instance_id is None:
                self._add_member(member_id, request, now)
            else:
                self._refuse(request, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        error = self._check_member(member_id, request.instance_id)
        if error is None and self.state is State.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None:
            self._refuse(request, error)
            return
        member = self.members[member_id]
        unchanged = member.protocols == request.protocols
        leads = self.members.leader == member_id
        if unchanged and (self.state is State.COMPLETING or (self.state is State.STABLE and not leads)):
            # It may not have got the answer; or it is a follower that asks again, and nothing is new.
            self._answer(request.token, self._joined(member))
            return
        # Also a leader that finds other topics or partitions than it assigned: it wants to assign anew.
        self._update(member, request, now)
        self._maybe_prepare_rebalance(now, f"member {member_id} joins again; client reason: {_reason(request)}")

    def _update(self, member: Member, request: JoinRequest, now: Moment) -> None:
        self.members.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
        before = self.members.await_join(member, request.token)
        if before is not None:
            # The member has given up on that one.
            self._answer(before, JoinResult(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))

    def _replace_static(self, old: str, new: str, request: JoinRequest, now: Moment) -> None:
        """A static member came back without its id: it takes its own place, and fences who still uses the old id."""
        logger.info("static member %s of group %s is back: %s was %s", request.instance_id, self.group_id, new, old)
        leader = self.members.leader
        member = self.members.rename(old, new)
        self._answer_waiting(member, ErrorCode.FENCED_INSTANCE_ID, old)
        before = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
        self._update(member, request, now)
        self._expect_heartbeat(member, now)
        if self.state is State.STABLE:
            if self.members.select_protocol() != self.protocol_name:
                self._prepare_rebalance(now, f"static member {request.instance_id} changes the protocol")
                return
            generation = self.generation

            def stored(error: ErrorCode | None, then: Moment) -> None:
                self._replaced_static(member, old, before, leader, request, generation, error, then)

            assignments = {each.member_id: each.assignment for each in self.members}
            self._store(assignments, stored)
        elif self.state is State.COMPLETING:
            # The leader may assign to the old id, and the new one would get nothing.
            self._prepare_rebalance(now, f"static member {request.instance_id} is back during a rebalance")

    def _replaced_static(
        self,
        member: Member,
        old: str,
        before: tuple[Any, int, int],
        leader: str | None,
        request: JoinRequest,
        generation: int,
        error: ErrorCode | None,
        now: Moment,
    ) -> None:
        token = request.token
        if member.awaiting_join is not token or self.state is not State.STABLE or self.generation != generation:
            # It was replaced once more, or waits for the next generation now.
            return
        self.members.await_join(member, None)
        if error is not None:
            self.members.update(member, *before)
            self.members.rename(member.member_id, old)
            self._expect_heartbeat(member, now)
            result = JoinResult(
                UNKNOWN_MEMBER_ID, error, self.generation, self.protocol_type, self.protocol_name, leader or ""
            )
        elif request.can_skip_assignment:
            leads = self.members.leader == member.member_id
            result = self._joined(member, skip_assignment=leads)
        else:
            # Under the old leader's id: whoever thinks that it leads would assign, and a stable group would not listen.
            result = JoinResult(
                member.member_id,
                ErrorCode.NONE,
                self.generation,
                self.protocol_type,
                self.protocol_name,
                leader or "",
            )
        self._answer(token, result)

    def _refuse(self, request: JoinRequest, error: ErrorCode, member_id: str | None = None) -> None:
        told = request.member_id if member_id is None else member_id
        self._answer(request.token, JoinResult(told, error, NO_GENERATION))

    # -- living and leaving

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Moment) -> ErrorCode:
        """Heartbeat; REBALANCE_IN_PROGRESS makes the member join again."""
        error = self._check_member(member_id, instance_id)
        if error is not None:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._expect_heartbeat(self.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None, reason: str | None, now: Moment) -> ErrorCode:
        """LeaveGroup of one member; a static one may be named by its instance id alone."""
        if member_id == UNKNOWN_MEMBER_ID:
            named = None if instance_id is None else self.members.static.get(instance_id)
            if named is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = named
        elif member_id in self.members.pending:
            self._remove(member_id)
            self._try_complete_join(now)
            return ErrorCode.NONE
        else:
            error = self._check_member(member_id, instance_id)
            if error is not None:
                return error
        self._remove_and_rebalance(member_id, f"member {member_id} leaves: {reason or 'not provided'}", now)
        return ErrorCode.NONE

    def wake(self, now: Moment) -> None:
        """Carry out what is due."""
        for member_id, deadline in list(self.members.pending.items()):
            if deadline <= now.ms:
                self._remove(member_id)
        for member in self.members:
            if member.deadline is not None and member.deadline <= now.ms and member.member_id in self.members:
                member.deadline = None
                waits = member.awaiting_join is not None or member.awaiting_sync is not None
                if member.is_new or not waits:
                    self._remove_and_rebalance(
                        member.member_id, f"member {member.member_id} has failed: its session timed out", now
                    )
        if self._join_deadline is not None and self._join_deadline <= now.ms:
            self._join_is_due(now)
        if self._sync_deadline is not None and self._sync_deadline <= now.ms:
            self._sync_is_due(now)
        self._try_complete_join(now)
        self._plan_wake()

    def _remove_and_rebalance(self, member_id: str, reason: str, now: Moment) -> None:
        self._remove(member_id)
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare_rebalance(now, reason)
        else:
            self._try_complete_join(now)


def _reason(request: JoinRequest) -> str:
    return request.reason or "not provided"
