"""A consumer group in its shard: what is stored and answered in which order, and who is too late."""

from __future__ import annotations

from typing import Any

import pytest

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
    KafkaError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from tests.consumer_groups.support import GROUP, FakeTopics, beat, join, owned_by


class PartitionGroups:
    """Stands where the shard stands: it takes what the membership wants done."""

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
        """What was to be stored first is stored."""
        self.stores.pop(0).done(error, self.now)
        self.settle()

    def pass_time(self, ms: int) -> None:
        self.now = Moment(self.now.ms + ms, self.now.wall_ms + ms)
        if self.membership.wake_at is not None and self.membership.wake_at <= self.now.ms:
            self.membership.wake(self.now)
            self.settle()


@pytest.fixture
def shard() -> PartitionGroups:
    return PartitionGroups()


def test_nobody_is_told_of_what_is_not_stored(shard: PartitionGroups) -> None:
    shard.request("joins", join("a", "t0"))
    shard.request("beats", beat("a", 1))
    assert not shard.answers
    shard.stored()
    assert shard.answers["joins"].member_epoch == shard.answers["beats"].member_epoch == 1
    shard.request("beats again", beat("a", 1))
    assert shard.answers["beats again"].member_epoch == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_stored_was_not(shard: PartitionGroups, error: ErrorCode, told: ErrorCode) -> None:
    shard.request("a", join("a", "t0"))
    shard.stored()
    before = shard.membership.group
    shard.request("b", join("b", "t0"))
    assert set(shard.membership.group.members) == {"a", "b"}
    shard.stored(error)
    assert isinstance(shard.answers["b"], KafkaError)
    assert shard.answers["b"].code is told
    group = shard.membership.group
    assert (set(group.members), group.group_epoch, group.assignment_epoch) == ({"a"}, 1, 1)
    assert group.target.keys() == {"a"}
    assert before.group_id == group.group_id
    shard.request("b again", join("b", "t0"))
    shard.stored()
    assert shard.answers["b again"].member_epoch == 2


def test_what_may_have_been_stored_is_kept(shard: PartitionGroups) -> None:
    shard.request("a", join("a", "t0"))
    shard.stored(ErrorCode.REQUEST_TIMED_OUT)
    assert shard.answers["a"].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(shard.membership.group.members) == {"a"}


def test_a_session_ends(shard: PartitionGroups) -> None:
    shard.request("a", join("a", "t0"))
    shard.stored()
    shard.pass_time(44_000)
    shard.request("a", beat("a", 1))
    shard.pass_time(44_000)
    assert set(shard.membership.group.members) == {"a"}
    shard.pass_time(1_001)
    assert shard.membership.state_name == EMPTY
    shard.stored()
    assert shard.membership.is_empty
    assert shard.membership.wake_at is None


def expire(shard: PartitionGroups, *members: str) -> None:
    """The members join, and their sessions end at the same time."""
    for member in members:
        shard.request(member, join(member, "t0"))
        shard.stored()
    for member in members:
        shard.request(member, beat(member, shard.membership.group.members[member].epoch))
        while shard.stores:
            shard.stored()
    shard.pass_time(45_001)


def test_sessions_that_end_together_are_one_change(shard: PartitionGroups) -> None:
    expire(shard, "a", "b", "c")
    epoch = shard.membership.group.group_epoch
    [store] = shard.stores
    assert len(store.records) > 3
    shard.stored()
    assert shard.membership.is_empty
    assert shard.membership.group.group_epoch == epoch
    assert shard.membership.wake_at is None


def test_who_could_not_be_fenced_is_fenced_later(shard: PartitionGroups) -> None:
    expire(shard, "a", "b")
    shard.stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert set(shard.membership.group.members) == {"a", "b"}
    assert shard.membership.wake_at == shard.now.ms + FENCE_AGAIN_MS
    shard.pass_time(FENCE_AGAIN_MS)
    shard.stored()
    assert shard.membership.is_empty
    assert shard.membership.wake_at is None


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


def test_a_member_that_gives_nothing_back_is_fenced(shard: PartitionGroups) -> None:
    shard.request("a", join("a", "t0"))
    shard.request("b", join("b", "t0"))
    shard.request("a", beat("a", 1))
    for _ in range(4):
        shard.pass_time(10_000)
        for member in set(shard.membership.group.members) - {"a"}:
            shard.request(member, beat(member, shard.membership.group.members[member].epoch))
        if "a" in shard.membership.group.members:
            shard.request("a", beat("a", 1))
    assert set(shard.membership.group.members) == {"b"}


def test_who_moves_away_answers_first(shard: PartitionGroups) -> None:
    shard.request("a", join("a", "t0"))
    shard.request("beats", beat("a", 1))
    shard.membership.unload()
    shard.settle()
    assert {result.code for result in shard.answers.values()} == {ErrorCode.NOT_COORDINATOR}
    assert shard.answers.keys() == {"a", "beats"}


def test_who_may_commit_and_fetch(shard: PartitionGroups) -> None:
    membership = shard.membership
    membership.check_commit(CommitRequest("", None, -1, 9), shard.now)
    shard.request("a", join("a", "t0"))
    membership.check_commit(CommitRequest("a", None, 1, 9), shard.now)
    membership.check_commit(CommitRequest("a", None, 1, 3, transactional=True), shard.now)
    with pytest.raises(UnsupportedVersionError, match="version 9 or above"):
        membership.check_commit(CommitRequest("a", None, 1, 8), shard.now)
    with pytest.raises(StaleMemberEpochError, match="epoch 0 does not match the expected member epoch 1"):
        membership.check_commit(CommitRequest("a", None, 0, 9), shard.now)
    with pytest.raises(UnknownMemberIdError):
        membership.check_commit(CommitRequest("", None, -1, 9), shard.now)
    membership.check_fetch(None, -1)
    membership.check_fetch("a", 1)
    with pytest.raises(StaleMemberEpochError):
        membership.check_fetch("a", 7)
    with pytest.raises(UnknownMemberIdError):
        membership.check_fetch("b", 1)
    with pytest.raises(NonEmptyGroupError):
        membership.check_deletable()
    assert membership.is_subscribed("t0")
    assert membership.retention().kept == {"t0"}
