"""Tests of what others ask a classic group: commits, topics, descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from broker.coordinator.group.membership import CommitRequest, Retention
from kafkalog.protocol.errors import ErrorCode, KafkaError, NonEmptyGroupError
from tests.broker.coordinator.group.classic.classic_world import (
    EPOCH_MS,
    RANGE,
    SESSION_MS,
    UNKNOWN,
    World,
    one_member,
    two_members,
)

TOPICS = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
"""A subscription to the topic `orders`."""


def commit(world: World, member_id: str = "", epoch: int = -1, **more: Any) -> ErrorCode:
    values: dict[str, Any] = {"instance_id": None, "version": 8, **more}
    try:
        world.group.check_commit(CommitRequest(member_id, epoch=epoch, **values), world.now)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_who_may_commit() -> None:
    world = World()
    assert commit(world) is ErrorCode.NONE
    assert commit(world, "m", 1) is UNKNOWN
    member = one_member(world)
    assert commit(world, member.member_id, 1) is ErrorCode.NONE
    assert commit(world, member.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(world, "other", 1) is UNKNOWN
    # Only members commit to a group that has some; but transactions of old clients do not say who they are.
    assert commit(world) is UNKNOWN
    assert commit(world, transactional=True) is ErrorCode.NONE
    world.join("b")
    assert commit(world, member.member_id, 1) is ErrorCode.NONE
    world.join(member_id=member.member_id)
    assert world.group.state is ClassicGroupState.COMPLETING_REBALANCE
    assert commit(world, member.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    world = World()
    member = one_member(world)

    def live() -> None:
        assert commit(world, member.member_id, 1) is ErrorCode.NONE

    world.pass_time(3 * SESSION_MS, live)
    assert world.group.state is ClassicGroupState.STABLE


def test_which_topics_a_group_reads_and_how_long_its_offsets_are_kept() -> None:
    world = World()
    assert world.group.retention() == Retention(None)
    member = one_member(world, protocols=(("range", TOPICS),))
    assert world.group.consumed({"orders"})
    assert not world.group.consumed({"other"})
    assert world.group.retention() == Retention(None, frozenset({"orders"}))
    with pytest.raises(NonEmptyGroupError):
        world.group.check_deletable()
    world.crash()
    assert world.group.consumed({"orders"})
    world.leave(member.member_id)
    assert not world.group.consumed({"orders"})
    assert world.group.retention() == Retention(EPOCH_MS + world.ms)
    world.group.check_deletable()
    assert [record.value for record in world.group.tombstones("g")] == [None]


def test_a_group_of_another_protocol_may_read_anything() -> None:
    world = World()
    one_member(world, protocol_type="connect", protocols=RANGE)
    with pytest.raises(NonEmptyGroupError):
        world.group.consumed({"orders"})
    assert world.group.retention() is None


def test_a_subscription_that_cannot_be_read_may_be_to_anything() -> None:
    world = World()
    one_member(world)
    assert world.group.consumed({"whatever"})
    assert world.group.retention() is None


def test_a_group_as_described() -> None:
    world = World()
    member = one_member(world, instance_id="i")
    summary = world.group.summary()
    assert (summary.state, summary.protocol_type, summary.protocol) == ("Stable", "consumer", "range")
    assert summary.members == [(member.member_id, "i", "c", "/host", b"topics", b"all")]
    world.join("b")
    summary = world.group.summary()
    assert (summary.state, summary.protocol) == ("PreparingRebalance", "")
    assert summary.members[0].assignment == b""


def test_who_waits_is_answered_when_the_group_moves() -> None:
    world = World()
    two_members(world)
    token = world.join("c")
    world.group.unload()
    world.settle()
    assert world.joined(token).error is ErrorCode.NOT_COORDINATOR
