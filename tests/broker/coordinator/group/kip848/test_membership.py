"""Tests of a consumer group's membership: the order of storing and answering, and members that are late."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.batch_sizes import RECORD_BYTES
from broker.coordinator.group.kip848 import consumer_membership
from broker.coordinator.group.kip848.config import ConsumerGroupConfig, MigrationPolicy
from broker.coordinator.group.kip848.consumer_membership import FENCE_AGAIN_MS, ConsumerMembership
from broker.coordinator.group.kip848.context import Context
from broker.coordinator.group.kip848.conversion import can_downgrade
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.group import EMPTY, ConsumerGroup
from broker.coordinator.group.kip848.model import ClassicMetadata, Member
from broker.coordinator.group.kip848.requests.heartbeat import heartbeat
from broker.coordinator.group.membership import Answer, CommitRequest, Moment, Store
from kafkalog.protocol.errors import (
    ErrorCode,
    IllegalGenerationError,
    KafkaError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from kafkalog.protocol.primitives import EncodeError
from tests.broker.coordinator.group.kip848.support import GROUP, FakeTopics, beat, join, owned_by


class PartitionGroups:
    """Take the place of the partition's groups: carry out the effects of the membership."""

    def __init__(self) -> None:
        self.now = Moment(0, 1_000_000)
        self.topics = FakeTopics(4)
        self.config = ConsumerGroupConfig()
        self.membership = ConsumerMembership(ConsumerGroup(GROUP), self._context)
        self.answers: dict[Any, Any] = {}
        self.stores: list[Store] = []

    def _context(self, group_id: str, now: Moment) -> Context:
        return Context(self.topics, self.config, now.wall_ms, lambda: "made")

    def request(self, token: str, request: Any) -> None:
        outcome = heartbeat(self.membership.group, request, self._context(GROUP, self.now), owned_by(request))
        self.membership.apply(outcome, token, self.now)
        self.settle()

    def settle(self) -> None:
        while self.membership.out:
            effect = self.membership.out.pop(0)
            if isinstance(effect, Answer):
                self.answers[effect.token] = effect.result
            else:
                self.stores.append(effect)

    def stored(self, error: ErrorCode | None = None) -> None:
        """Complete the first store."""
        self.stores.pop(0).done(error, self.now)
        self.settle()

    def pass_time(self, ms: int) -> None:
        self.now = Moment(self.now.ms + ms, self.now.wall_ms + ms)
        if self.membership.wake_at is not None and self.membership.wake_at <= self.now.ms:
            self.membership.wake(self.now)
            self.settle()


@pytest.fixture
def groups() -> PartitionGroups:
    return PartitionGroups()


def test_nobody_is_told_of_what_is_not_stored(groups: PartitionGroups) -> None:
    groups.request("joins", join("a", "t0"))
    groups.request("beats", beat("a", 1))
    assert not groups.answers
    groups.stored()
    assert groups.answers["joins"].member_epoch == groups.answers["beats"].member_epoch == 1
    groups.request("beats again", beat("a", 1))
    assert groups.answers["beats again"].member_epoch == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_stored_was_not(groups: PartitionGroups, error: ErrorCode, told: ErrorCode) -> None:
    groups.request("a", join("a", "t0"))
    groups.stored()
    before = groups.membership.group
    groups.request("b", join("b", "t0"))
    assert set(groups.membership.group.members) == {"a", "b"}
    groups.stored(error)
    assert isinstance(groups.answers["b"], KafkaError)
    assert groups.answers["b"].code is told
    group = groups.membership.group
    assert (set(group.members), group.group_epoch, group.assignment_epoch) == ({"a"}, 1, 1)
    assert group.target.keys() == {"a"}
    assert before.group_id == group.group_id
    groups.request("b again", join("b", "t0"))
    groups.stored()
    assert groups.answers["b again"].member_epoch == 2


def test_a_change_that_cannot_be_encoded_leaves_nothing_behind(groups: PartitionGroups) -> None:
    """A later request would wait for it for ever."""
    groups.request("a", join("a", "t0"))
    groups.stored()
    wake_at = groups.membership.wake_at
    with pytest.raises(EncodeError):
        groups.request("too long", join("\ufffd" * 20_000, "t0"))
    group = groups.membership.group
    assert (set(group.members), group.group_epoch, set(group.target)) == ({"a"}, 1, {"a"})
    assert groups.membership.wake_at == wake_at
    groups.request("beats", beat("a", 1))
    assert groups.answers["beats"].member_epoch == 1


def test_what_may_have_been_stored_is_kept(groups: PartitionGroups) -> None:
    groups.request("a", join("a", "t0"))
    groups.stored(ErrorCode.REQUEST_TIMED_OUT)
    assert groups.answers["a"].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(groups.membership.group.members) == {"a"}


def test_a_session_ends(groups: PartitionGroups) -> None:
    groups.request("a", join("a", "t0"))
    groups.stored()
    groups.pass_time(44_000)
    groups.request("a", beat("a", 1))
    groups.pass_time(44_000)
    assert set(groups.membership.group.members) == {"a"}
    groups.pass_time(1_001)
    assert groups.membership.state_name == EMPTY
    groups.stored()
    assert groups.membership.is_empty
    assert groups.membership.wake_at is None


def expire(groups: PartitionGroups, *members: str) -> None:
    """The members join, and their sessions end at the same time."""
    for member in members:
        groups.request(member, join(member, "t0"))
        groups.stored()
    for member in members:
        groups.request(member, beat(member, groups.membership.group.members[member].epoch))
        while groups.stores:
            groups.stored()
    groups.pass_time(45_001)


def test_sessions_that_end_together_are_one_change(groups: PartitionGroups) -> None:
    expire(groups, "a", "b", "c")
    epoch = groups.membership.group.group_epoch
    [store] = groups.stores
    assert len(store.records) > 3
    groups.stored()
    assert groups.membership.is_empty
    assert groups.membership.group.group_epoch == epoch
    assert groups.membership.wake_at is None


@pytest.mark.parametrize("bound", ["members", "bytes"])
def test_many_sessions_that_end_together_are_several_changes(
    groups: PartitionGroups, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    if bound == "members":
        monkeypatch.setattr(consumer_membership, "FENCED_AT_ONCE", 2)
    else:
        groups.membership.most_stored = lambda: 2 * (2 * RECORD_BYTES + 2 * 3 * 50)
    expire(groups, "a", "b", "c", "d", "e")
    for left in (3, 1, 0):
        assert len(groups.membership.group.members) == left
        assert len(groups.stores) == 1
        groups.stored()
        assert groups.membership.wake_at is None or left
        groups.pass_time(0)
    assert groups.membership.is_empty
    assert not groups.stores


def test_a_member_that_alone_is_too_much_is_fenced_alone(groups: PartitionGroups) -> None:
    groups.membership.most_stored = lambda: 0
    expire(groups, "a", "b")
    assert set(groups.membership.group.members) == {"b"}
    groups.pass_time(0)
    assert groups.membership.is_empty


def test_who_could_not_be_fenced_is_fenced_later(groups: PartitionGroups) -> None:
    expire(groups, "a", "b")
    groups.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert set(groups.membership.group.members) == {"a", "b"}
    assert groups.membership.wake_at == groups.now.ms + FENCE_AGAIN_MS
    groups.pass_time(FENCE_AGAIN_MS)
    groups.stored()
    assert groups.membership.is_empty
    assert groups.membership.wake_at is None


@pytest.mark.parametrize(
    ("leaving", "becomes_classic"),
    [
        ({"m1", "m2"}, True),
        ({"m1", "m2", "c1"}, True),
        ({"m1"}, False),
        ({"c1"}, False),
        ({"m1", "m2", "c1", "c2"}, False),
    ],
)
def test_a_group_becomes_classic_without_the_last_others(leaving: set[str], becomes_classic: bool) -> None:
    group = ConsumerGroup(GROUP)
    for name in ("m1", "m2", "c1", "c2"):
        classic = ClassicMetadata(45_000, ()) if name.startswith("c") else None
        group.replay(group_records.member_metadata(GROUP, Member(name, classic=classic)))
    config = ConsumerGroupConfig(migration_policy=MigrationPolicy.BIDIRECTIONAL)
    assert can_downgrade(group, leaving, config) is becomes_classic


def test_a_member_that_gives_nothing_back_is_fenced(groups: PartitionGroups) -> None:
    groups.request("a", join("a", "t0"))
    groups.request("b", join("b", "t0"))
    groups.request("a", beat("a", 1))
    for _ in range(4):
        groups.pass_time(10_000)
        for member in set(groups.membership.group.members) - {"a"}:
            groups.request(member, beat(member, groups.membership.group.members[member].epoch))
        if "a" in groups.membership.group.members:
            groups.request("a", beat("a", 1))
    assert set(groups.membership.group.members) == {"b"}


def test_who_moves_away_answers_first(groups: PartitionGroups) -> None:
    groups.request("a", join("a", "t0"))
    groups.request("beats", beat("a", 1))
    groups.membership.unload()
    groups.settle()
    assert {result.code for result in groups.answers.values()} == {ErrorCode.NOT_COORDINATOR}
    assert groups.answers.keys() == {"a", "beats"}


def test_who_may_commit_and_fetch(groups: PartitionGroups) -> None:
    membership = groups.membership
    membership.check_commit(CommitRequest("", None, -1, 9), groups.now)
    groups.request("a", join("a", "t0"))
    membership.check_commit(CommitRequest("a", None, 1, 9), groups.now)
    membership.check_commit(CommitRequest("a", None, 1, 3, transactional=True), groups.now)
    with pytest.raises(UnsupportedVersionError, match="version 9 or above"):
        membership.check_commit(CommitRequest("a", None, 1, 8), groups.now)
    with pytest.raises(StaleMemberEpochError, match="epoch 0 does not match the expected member epoch 1"):
        membership.check_commit(CommitRequest("a", None, 0, 9), groups.now)
    with pytest.raises(IllegalGenerationError):
        membership.check_commit(CommitRequest("a", None, 0, 3, transactional=True), groups.now)
    with pytest.raises(UnknownMemberIdError):
        membership.check_commit(CommitRequest("", None, -1, 9), groups.now)
    membership.check_fetch(None, -1)
    membership.check_fetch("a", 1)
    with pytest.raises(StaleMemberEpochError):
        membership.check_fetch("a", 7)
    with pytest.raises(UnknownMemberIdError):
        membership.check_fetch("b", 1)
    with pytest.raises(NonEmptyGroupError):
        membership.check_deletable()
    assert membership.consumed({"t0"})
    assert membership.retention().kept == {"t0"}
