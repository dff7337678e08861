"""A group of the consumer protocol in the coordinator (`membership.Membership`): its timers, records and answers.

The records of a change are replayed at once, and the request is answered when they are stored. A request that changes
nothing waits for the changes before it, so that no client learns of a state that may yet be lost. If records cannot
even be appended, the group is restored to its earlier state.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from broker.coordinator.batch_sizes import fitting
from broker.coordinator.group.classic.requests import JoinRequest, JoinResult, Leaver, SyncRequest, SyncResult
from broker.coordinator.group.kip848 import member_changes
from broker.coordinator.group.kip848.context import Context, Matched, Outcome, Timer, TimerKind
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import Member
from broker.coordinator.group.kip848.requests import classic_members
from broker.coordinator.group.membership import Answer, CommitRequest, GroupSummary, Moment, Retention, Store, Token
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.embedded.consumer import PROTOCOL_TYPE
from kafkalog.protocol.errors import (
    ErrorCode,
    IllegalGenerationError,
    KafkaError,
    NonEmptyGroupError,
    NotCoordinatorError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    error_for,
)

logger = logging.getLogger(__name__)

FENCE_AGAIN_MS = 500
"""The time, in ms, after which members whose removal could not be stored are fenced again."""
FENCED_AT_ONCE = 500
"""The most members that are fenced in one change."""
MOST_FENCED_BYTES = 1 << 20
"""The bytes that a change of late members has at most, whatever the log takes."""
MEMBER_EPOCH_VERSION = 9
"""The first version of OffsetCommit that has a member's epoch."""

_FENCED = {
    TimerKind.SESSION: "its session expired",
    TimerKind.REBALANCE: "it did not give its partitions back in time",
    TimerKind.JOIN: "it failed to join within the rebalance timeout",
    TimerKind.SYNC: "it failed to sync within the rebalance timeout",
}

_STORE_ERRORS = {
    # The member retries, and the records may have been replicated by then.
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error that members get in place of the store's error. Other errors of the store reach them unchanged."""

MakeContext = Callable[[str, Moment], Context]
"""Makes the context of a request from the group's id and the time."""


class ConsumerMembership:
    """The membership of a group of the consumer protocol.

    Attributes:
        group: the state by the records of the log.
        out: effects in order. `PartitionGroups.settle` carries them out and empties the list.
        matched: the current matches of its stale regular expressions that are known (`Context.matched`).
        is_matching: whether more of them are being matched.
        refused_as_classic: the number of members with which the group was too large for its log as a classic one, and
            the `max.message.bytes` of the log at that time.
        most_stored: returns how many bytes one change may have in the group's log, 0 if that cannot be said now.
        on_fenced: called for members whose timers have ended, before they are removed; returns True if it has removed
            them.
    """

    kind = "consumer"

    def __init__(self, group: ConsumerGroup, context: MakeContext) -> None:
        self.group = group
        self.out: list[Answer | Store] = []
        self.wake_at: int | None = None
        self.matched: dict[str, Matched] = {}
        self.is_matching = False
        self.refused_as_classic = sys.maxsize, 0
        self.most_stored: Callable[[], int] = lambda: MOST_FENCED_BYTES
        self.on_fenced: Callable[[ConsumerMembership, Collection[Member], Moment], bool] = lambda *fenced: False
        self._context = context
        self._timers: dict[tuple[TimerKind, str], tuple[int, int]] = {}
        """The running timers by kind and member: the deadline, and the member epoch of `Timer.epoch`."""
        self._changes = 0
        self._storing: dict[int, Token | None] = {}
        """The request that waits for each change being stored, by the change's number."""
        self._waiting: list[Answer] = []

    def resume(self, now: Moment) -> None:
        """Start the members' session time-outs, after the group was read from its log."""
        config = self._context(self.group.group_id, now).config
        self.set_timers(member_changes.timers_after_loading(self.group, config.session_timeout_ms), now)

    # -- changes

    def apply(
        self,
        outcome: Outcome[Any],
        token: Token | None,
        now: Moment,
        *,
        before: Sequence[StateRecord] = (),
        on_failure: Callable[[list[Answer]], None] | None = None,
    ) -> None:
        """Apply the outcome of a request; `token` gets the response, or the error, once the records are stored.

        The effects in `out` must be carried out before the next change: a change that cannot be appended is undone by
        restoring the group before it.

        Args:
            before: records of the same batch that precede the group's.
            on_failure: gets the answers if the records cannot be stored, when the group is not to be created then.

        Raises:
            EncodeError: a record cannot have one of its values. Nothing has changed.
        """
        answer = Answer(token, outcome.response)
        if not outcome.records:
            self._accept(outcome, now)
            if token is not None:
                (self._waiting if self._storing else self.out).append(answer)
            return
        # Encode first: after an error the change would never end, and later requests would wait for it.
        records = [*before, *encoded(outcome.records)]
        group = self.group.copy()
        for record in outcome.records:
            self.group.replay(record)
        self._changes += 1
        change = self._changes
        self._storing[change] = token
        timers = dict(self._timers)
        self._accept(outcome, now)

        def done(error: ErrorCode | None, then: Moment) -> None:
            self._storing.pop(change, None)
            failed = error is not None and error is not ErrorCode.REQUEST_TIMED_OUT
            if failed:
                self.group, self._timers = group, timers
                self._plan_wake()
            told = answer if error is None else Answer(token, store_error(error))
            answers = [] if token is None else [told]
            if not self._storing:
                answers += self._waiting
                self._waiting = []
            if failed and on_failure is not None:
                on_failure(answers)
            else:
                self.out += answers

        self.out.append(Store(records, done))

    def _fence(self, members: Collection[Member], now: Moment) -> None:
        """Remove members whose timers have ended."""
        if self.on_fenced(self, members, now):
            return
        records = member_changes.remove(self.group, members, self._context(self.group.group_id, now))
        timers = [timer for member in members for timer in member_changes.stop_timers(member.member_id)]
        self.apply(Outcome(None, records, timers), None, now)

    def _accept(self, outcome: Outcome[Any], now: Moment) -> None:
        self.set_timers(outcome.timers, now)
        if outcome.seen_version is not None:
            self.group.seen_version = outcome.seen_version

    def set_timers(self, timers: list[Timer], now: Moment) -> None:
        for timer in timers:
            key = timer.kind, timer.member_id
            if timer.delay_ms is None:
                self._timers.pop(key, None)
            elif not (timer.keep and key in self._timers):
                deadline = now.ms + timer.delay_ms
                self._timers[key] = deadline, timer.epoch
                if self.wake_at is None or deadline < self.wake_at:
                    self.wake_at = deadline

    # -- members of the classic protocol

    def join(self, request: JoinRequest, token: Token, now: Moment) -> None:
        """Handle JoinGroup; `token` gets the answer."""
        try:
            context = replace(self._context(self.group.group_id, now), sees=request.sees)
            outcome = classic_members.join(self.group, request, context)
        except KafkaError as error:
            self.out.append(Answer(token, JoinResult(request.member_id, error.code)))
            return
        self.apply(outcome, token, now)

    def sync(self, request: SyncRequest, token: Token, now: Moment) -> None:
        """Handle SyncGroup; `token` gets the answer."""
        try:
            outcome = classic_members.sync(self.group, request, self._context(self.group.group_id, now))
        except KafkaError as error:
            self.out.append(Answer(token, SyncResult(error.code)))
            return
        self.apply(outcome, token, now)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Moment) -> ErrorCode:
        """Handle Heartbeat; REBALANCE_IN_PROGRESS makes the member join again."""
        try:
            outcome = classic_members.heartbeat(self.group, member_id, instance_id, generation)
        except KafkaError as error:
            return error.code
        self.set_timers(outcome.timers, now)
        return outcome.response

    def leave(self, members: Sequence[Leaver], token: Token, now: Moment) -> None:
        """Handle LeaveGroup of members, in one change; `token` gets each member's error once that is stored."""
        group_id = self.group.group_id
        named = [(member.member_id, member.instance_id) for member in members]
        outcome = classic_members.leave(self.group, named, self._context(group_id, now))
        for member, error in zip(members, outcome.response, strict=True):
            if error is ErrorCode.NONE:
                name = member.member_id or member.instance_id
                logger.info("member %s of group %s leaves: %s", name, group_id, member.reason or "not provided")
        self.apply(outcome, token, now)

    # -- the interface of any group

    @property
    def state_name(self) -> str:
        return self.group.state

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def size(self) -> int:
        return len(self.group.members)

    @property
    def is_empty(self) -> bool:
        return self.group.is_empty

    def wake(self, now: Moment) -> None:
        late: dict[str, TimerKind] = {}
        for key, (deadline, epoch) in list(self._timers.items()):
            if deadline > now.ms:
                continue
            kind, member_id = key
            member = self.group.members.get(member_id)
            if member is None or (kind is TimerKind.REBALANCE and member.epoch != epoch):
                del self._timers[key]
                continue
            late.setdefault(member_id, kind)
        fenced = self._fenced_together(late)
        for member in fenced:
            member_id = member.member_id
            logger.info("member %s of group %s is fenced: %s", member_id, self.group.group_id, _FENCED[late[member_id]])
            # The timers stop when the member is removed; it is still there if that cannot be stored.
            for key in ((kind, member_id) for kind in TimerKind):
                deadline, epoch = self._timers.get(key, (now.ms + 1, 0))
                if deadline <= now.ms:
                    self._timers[key] = now.ms + FENCE_AGAIN_MS, epoch
        self._plan_wake()
        if fenced:
            self._fence(fenced, now)
            self._plan_wake()

    def _fenced_together(self, late: Iterable[str]) -> list[Member]:
        """Return late members to remove in one change; the others stay due at once.

        A change copies the group, so there are many in it; but the sessions of a whole group end together after its
        coordinator has moved, and the log takes only so many bytes. The change has records of the group as well, so
        half of the bytes is left for those.
        """
        members = (self.group.members[member_id] for member_id in late)
        most_bytes = min(self.most_stored(), MOST_FENCED_BYTES) // 2
        size_of = partial(member_changes.removal_bytes, self.group)
        return next(fitting(members, size_of, most_bytes, FENCED_AT_ONCE), [])

    def _plan_wake(self) -> None:
        self.wake_at = min((deadline for deadline, _ in self._timers.values()), default=None)

    def check_commit(self, request: CommitRequest, now: Moment) -> None:
        if request.epoch < 0 and self.group.is_empty:
            return
        member = member_changes.known_member(self.group, request.member_id)
        if not request.transactional and member.classic is None and request.version < MEMBER_EPOCH_VERSION:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        _check_epoch(member, request.epoch, transactional=request.transactional)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.group.members.get(member_id or "")
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group.group_id}.")
        _check_epoch(member, member_epoch)

    def check_deletable(self) -> None:
        if not self.group.is_empty:
            raise NonEmptyGroupError

    def consumed(self, topics: Set[str]) -> Set[str]:
        return topics & self.group.all_subscribed()

    def retention(self) -> Retention:
        return Retention(None, self.group.all_subscribed())

    def tombstones(self, group_id: str) -> list[StateRecord]:
        if self.group.is_new:
            return []
        return encoded(group_records.group_tombstones(group_id, self.group.members, self.group.regexes))

    def summary(self) -> GroupSummary | None:
        # DescribeGroups answers that such groups do not exist, and clients send ConsumerGroupDescribe then.
        return None

    def unload(self) -> None:
        self.refuse(NotCoordinatorError())

    def refuse(self, error: KafkaError) -> None:
        """Answer all waiting requests with `error`, also those whose records are still being stored."""
        tokens = [*self._storing.values(), *(answer.token for answer in self._waiting)]
        self.out += [Answer(token, error) for token in tokens if token is not None]
        self._storing, self._waiting = {}, []
        self.wake_at = None

    def carry_on(self, answers: list[Answer]) -> None:
        """Keep the group as it was, because its replacement could not be stored."""
        self.out += answers
        self._plan_wake()


def store_error(code: ErrorCode) -> KafkaError:
    """Return the error of a request whose records could not be stored."""
    return error_for(_STORE_ERRORS.get(code, code))


def encoded(records: list[GroupRecord]) -> list[StateRecord]:
    """Return the records as bytes of keys and values."""
    return [StateRecord(*record.encode()) for record in records]


def _check_epoch(member: Member, epoch: int, *, transactional: bool = False) -> None:
    """Check the epoch that a request states.

    Raises:
        StaleMemberEpochError: it is not the member's.
        IllegalGenerationError: it is not the member's, and the member is one of the classic protocol, or the request
            is TxnOffsetCommit, which has no other error for that.
    """
    if epoch == member.epoch:
        return
    error: KafkaError
    if member.classic is not None or transactional:
        error = IllegalGenerationError(
            f"The received generation id {epoch} does not match the expected member epoch {member.epoch}."
        )
    else:
        error = StaleMemberEpochError(
            f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
        )
    raise error
