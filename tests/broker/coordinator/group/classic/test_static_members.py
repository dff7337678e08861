"""Tests of static members and of the largest size of a classic group."""

from __future__ import annotations

from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from kafkalog.protocol.errors import ErrorCode
from tests.broker.coordinator.group.classic.classic_world import (
    REBALANCE_MS,
    SESSION_MS,
    UNKNOWN,
    World,
    one_member,
    stored,
    two_members,
)

# -- size


def test_a_full_group_takes_nobody() -> None:
    world = World(max_size=2)
    leader, follower = two_members(world)
    refused = world.joined(world.join("c"))
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert world.group.state is ClassicGroupState.STABLE
    world.leave(follower.member_id)
    token = world.join("c")
    world.join(member_id=leader.member_id)
    assert world.joined(token).generation == 2


def test_a_group_that_is_loaded_too_large_sends_the_last_away() -> None:
    world = World()
    leader, follower = two_members(world)
    world.settings = type(world.settings)(3000, 1)
    world.crash()
    assert world.group.state is ClassicGroupState.PREPARING_REBALANCE
    token = world.join(member_id=leader.member_id)
    assert world.joined(world.join(member_id=follower.member_id)).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.joined(token).generation == 2


# -- static members


def test_a_static_member_is_back_without_a_rebalance_and_its_new_id_is_stored() -> None:
    world = World()
    old = one_member(world, instance_id="i")
    new = world.joined(world.join(instance_id="i"))
    assert (new.error, new.generation) == (ErrorCode.NONE, 1)
    assert new.member_id != old.member_id
    # An old client would assign if it found itself to lead: it is told the old leader.
    assert (new.leader, new.members) == (old.member_id, ())
    assert [member.member_id for member in stored(world).members] == [new.member_id]
    assert world.synced(world.sync(new.member_id, 1, instance_id="i")).assignment == b"all"
    assert world.heartbeat(old.member_id, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.leave(old.member_id, "i") is ErrorCode.FENCED_INSTANCE_ID
    world.crash()
    assert world.heartbeat(new.member_id, 1, "i") is ErrorCode.NONE


def test_a_static_leader_that_is_back_is_told_to_keep_the_assignment() -> None:
    world = World()
    one_member(world, instance_id="i")
    new = world.joined(world.join(instance_id="i", can_skip_assignment=True))
    assert (new.leader, new.skip_assignment) == (new.member_id, True)
    assert [member.member_id for member in new.members] == [new.member_id]


def test_a_static_member_whose_new_id_cannot_be_stored_stays_the_old_one() -> None:
    world = World()
    old = one_member(world, instance_id="i")
    world.held = []
    token = world.join(instance_id="i")
    assert token not in world.answers
    world.finish_stores(ErrorCode.NOT_COORDINATOR)
    assert world.joined(token).error is ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(old.member_id, 1, "i") is ErrorCode.NONE


def test_a_static_member_that_changes_the_protocol_makes_the_group_rebalance() -> None:
    world = World()
    protocols = (("range", b""), ("sticky", b""))
    one_member(world, instance_id="i", protocols=protocols)
    token = world.join(instance_id="i", protocols=protocols[::-1])
    assert (world.joined(token).generation, world.joined(token).protocol_name) == (2, "sticky")


def test_who_waits_under_a_static_members_old_id_is_fenced() -> None:
    world = World()
    tokens = [world.join("a", instance_id="i"), world.join("b", instance_id="j")]
    world.pass_time(6000)
    members = [world.joined(token) for token in tokens]
    waiting = world.sync(members[1].member_id, 1, instance_id="j")
    new = world.join("b", instance_id="j")
    assert world.synced(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    # The leader may have assigned to the old id already.
    assert world.group.state is ClassicGroupState.PREPARING_REBALANCE
    world.join(member_id=members[0].member_id, instance_id="i")
    assert world.joined(new).generation == 2


def test_static_members_outlast_a_rebalance_that_they_miss() -> None:
    world = World()
    static = one_member(world, instance_id="i", session_timeout_ms=10 * REBALANCE_MS)
    token = world.join("b")
    world.pass_time(REBALANCE_MS)
    result = world.joined(token)
    assert result.leader == result.member_id
    assert [member.instance_id for member in result.members] == ["i", None]
    assert static.member_id in world.group.members


def test_a_static_member_may_be_removed_by_its_instance_id() -> None:
    world = World()
    one_member(world, instance_id="i")
    assert world.leave("", "other") is UNKNOWN
    assert world.leave("", "i") is ErrorCode.NONE
    assert world.group.state is ClassicGroupState.EMPTY


def test_the_session_of_a_static_member_runs_after_its_new_id_took_long_to_store() -> None:
    world = World()
    one_member(world, instance_id="i")
    world.held = []
    token = world.join(instance_id="i")
    world.pass_time(SESSION_MS + 1)
    world.finish_stores()
    assert world.joined(token).error is ErrorCode.NONE
    world.pass_time(SESSION_MS + 1)
    assert world.group.state is ClassicGroupState.EMPTY
