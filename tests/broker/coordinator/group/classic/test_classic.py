"""Tests of the rebalances of classic groups, step by step: the response to each request in each state."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from broker.coordinator.group.classic.join import NEW_MEMBER_JOIN_TIMEOUT_MS
from kafkalog.protocol.errors import ErrorCode
from tests.broker.coordinator.group.classic.classic_world import (
    EPOCH_MS,
    REBALANCE_MS,
    SESSION_MS,
    UNKNOWN,
    World,
    one_member,
    stored,
    two_members,
)


def test_the_leader_is_told_the_members_and_everybody_its_assignment() -> None:
    world = World()
    leader, follower = two_members(world)
    assert (leader.leader, follower.leader) == (leader.member_id, leader.member_id)
    assert [member.member_id for member in leader.members] == [leader.member_id, follower.member_id]
    assert (follower.members, follower.generation, follower.protocol_name) == ((), 1, "range")
    assert world.group.state is ClassicGroupState.STABLE
    value = stored(world)
    assert (value.generation, value.leader, value.protocol) == (1, leader.member_id, "range")
    assert [member.assignment for member in value.members] == [b"1", b"2"]
    assert value.members[0].client_host == "/host"


def test_a_first_member_is_told_its_id_first() -> None:
    world = World()
    told = world.joined(world.join(require_known_id=True))
    assert (told.error, told.generation) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    token = world.join(member_id=told.member_id)
    world.pass_time(3000)
    assert world.joined(token).member_id == told.member_id


def test_an_id_that_is_not_used_is_forgotten_and_does_not_hold_up_others() -> None:
    world = World()
    one_member(world)
    told = world.joined(world.join(require_known_id=True))
    world.pass_time(SESSION_MS)
    assert world.joined(world.join(member_id=told.member_id)).error is UNKNOWN


def test_the_first_rebalance_waits_as_long_as_members_come() -> None:
    world = World(initial_delay_ms=3000)
    tokens = [world.join("a", rebalance_timeout_ms=7000)]
    for name in ("b", "c"):
        world.pass_time(2900)
        tokens.append(world.join(name, rebalance_timeout_ms=7000))
        assert tokens[0] not in world.answers
    # Three more seconds would be over the rebalance timeout of seven.
    world.pass_time(1200)
    assert {world.joined(token).generation for token in tokens} == {1}


def test_the_first_rebalance_waits_for_nobody_else() -> None:
    world = World(initial_delay_ms=3000)
    token = world.join()
    world.pass_time(2999)
    assert token not in world.answers
    world.pass_time(1)
    assert world.joined(token).generation == 1


def test_members_vote_for_a_protocol_that_all_know() -> None:
    world = World()
    votes = [("sticky", "range", "new"), ("range", "sticky"), ("range", "sticky", "new")]
    tokens = [
        world.join(f"{number}", protocols=tuple((name, b"") for name in names)) for number, names in enumerate(votes)
    ]
    world.pass_time(6000)
    assert {world.joined(token).protocol_name for token in tokens} == {"range"}
    stranger = world.joined(world.join(protocols=(("new", b""),)))
    assert (stranger.error, stranger.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert world.joined(world.join(protocol_type="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("fields", [{"protocols": ()}, {"protocol_type": ""}])
def test_an_empty_group_takes_no_member_without_protocols(fields: dict[str, Any]) -> None:
    world = World()
    assert world.joined(world.join(**fields)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_new_member_makes_the_others_join_again() -> None:
    world = World()
    leader, follower = two_members(world)
    token = world.join("c")
    for member in (leader, follower):
        assert world.heartbeat(member.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert world.synced(world.sync(member.member_id, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
        world.join(member_id=member.member_id)
    assert world.joined(token).generation == 2
    assert world.heartbeat(leader.member_id, 1) is ErrorCode.ILLEGAL_GENERATION


def test_who_does_not_join_again_in_time_is_out() -> None:
    world = World()
    leader, follower = two_members(world)
    token = world.join("c")
    world.join(member_id=leader.member_id)

    def live() -> None:
        # It lives, but does not join: only its session goes on.
        world.heartbeat(follower.member_id, 1)

    world.pass_time(REBALANCE_MS - 1, live)
    assert token not in world.answers
    world.pass_time(1)
    assert world.joined(token).generation == 2
    assert world.heartbeat(follower.member_id, 1) is UNKNOWN
    assert len(world.group.members) == 2


def test_a_leader_that_is_late_loses_its_place() -> None:
    world = World()
    leader, follower = two_members(world)
    world.join("c")
    token = world.join(member_id=follower.member_id)
    world.pass_time(REBALANCE_MS)
    assert world.joined(token).leader == follower.member_id
    assert leader.member_id not in world.group.members


def test_a_session_ends_without_heartbeats() -> None:
    world = World()
    leader, follower = two_members(world)
    world.pass_time(SESSION_MS - 1)
    world.heartbeat(leader.member_id, 1)
    world.pass_time(1)
    assert follower.member_id not in world.group.members
    assert world.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_without_members_is_stored_as_empty() -> None:
    world = World()
    member = one_member(world)
    world.pass_time(SESSION_MS)
    assert world.group.state is ClassicGroupState.EMPTY
    value = stored(world)
    assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
    assert value.protocol_type == "consumer"
    assert value.current_state_timestamp == EPOCH_MS + world.ms
    assert world.heartbeat(member.member_id, 1) is UNKNOWN


def test_members_may_leave() -> None:
    world = World()
    leader, follower = two_members(world)
    assert world.leave(follower.member_id) is ErrorCode.NONE
    assert world.leave(follower.member_id) is UNKNOWN
    assert world.leave("") is UNKNOWN
    assert world.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.leave(leader.member_id) is ErrorCode.NONE
    assert world.group.state is ClassicGroupState.EMPTY


def test_who_leaves_while_it_waits_is_answered() -> None:
    world = World()
    two_members(world)
    token = world.join("c")
    waiting = next(member for member in world.group.members if member.awaiting_join is not None)
    world.leave(waiting.member_id)
    assert world.joined(token).error is UNKNOWN


def test_an_id_given_out_may_leave_too() -> None:
    world = World()
    told = world.joined(world.join(require_known_id=True))
    assert not world.group.is_empty
    assert world.leave(told.member_id) is ErrorCode.NONE
    assert world.group.is_empty


def test_members_that_never_ask_for_their_assignment_are_removed() -> None:
    world = World()
    tokens = [world.join("a"), world.join("b")]
    world.pass_time(6000)
    leader, follower = (world.joined(token) for token in tokens)
    world.sync(leader.member_id, 1, {leader.member_id: b"1"})
    assert world.group.state_name == "Stable"

    def live() -> None:
        for member in (leader, follower):
            world.heartbeat(member.member_id, 1)

    world.pass_time(REBALANCE_MS, live)
    assert world.group.state is ClassicGroupState.PREPARING_REBALANCE
    assert [member.member_id for member in world.group.members] == [leader.member_id]


def test_a_leader_that_never_assigns_is_removed_with_all_who_wait() -> None:
    world = World()
    tokens = [world.join("a"), world.join("b")]
    world.pass_time(6000)
    leader, follower = (world.joined(token) for token in tokens)
    waiting = world.sync(follower.member_id, 1)
    world.pass_time(REBALANCE_MS)
    assert world.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.member_id not in world.group.members


def test_assignments_count_once_they_are_stored() -> None:
    world = World()
    joined = world.join()
    world.pass_time(3000)
    member = world.joined(joined)
    world.held = []
    token = world.sync(member.member_id, 1, {member.member_id: b"all"})
    assert token not in world.answers
    assert world.group.state is ClassicGroupState.COMPLETING_REBALANCE
    world.finish_stores()
    assert world.synced(token).assignment == b"all"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_assignments_that_cannot_be_stored_are_tried_anew(failure: ErrorCode, told: ErrorCode) -> None:
    world = World()
    joined = world.join()
    world.pass_time(3000)
    member = world.joined(joined)
    world.held = []
    token = world.sync(member.member_id, 1, {member.member_id: b"all"})
    world.finish_stores(failure)
    assert world.synced(token).error is told
    assert world.group.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_rebalance_begun_while_assignments_are_stored_is_not_undone() -> None:
    world = World()
    member = one_member(world)
    world.join(member_id=member.member_id)
    world.held = []
    token = world.sync(member.member_id, 2, {member.member_id: b"all"})
    world.join("b")
    assert world.synced(token).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.finish_stores()
    assert world.group.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_follower_that_asks_again_gets_the_same_answer_and_a_leader_assigns_anew() -> None:
    world = World()
    leader, follower = two_members(world)
    assert world.joined(world.join(member_id=follower.member_id)).generation == 1
    assert world.synced(world.sync(follower.member_id, 1)).assignment == b"2"
    world.join(member_id=leader.member_id)
    assert world.group.state is ClassicGroupState.PREPARING_REBALANCE
    assert world.joined(world.join(member_id=follower.member_id)).generation == 2


def test_an_answer_that_was_lost_is_given_again() -> None:
    world = World()
    token = world.join()
    world.pass_time(3000)
    member = world.joined(token)
    again = world.joined(world.join(member_id=member.member_id))
    assert again == member
    changed = world.join(member_id=member.member_id, protocols=(("range", b"other"),))
    assert world.joined(changed).generation == 2


def test_a_request_that_is_repeated_ends_the_one_before() -> None:
    world = World()
    leader, _ = two_members(world)
    first = world.join(member_id=leader.member_id)
    second = world.join(member_id=leader.member_id)
    assert world.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in world.answers


def test_a_new_member_that_went_away_unnoticed_is_removed_in_time() -> None:
    world = World()
    leader, _ = two_members(world)
    world.join("gone", rebalance_timeout_ms=10 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert len(world.group.members) == 3

    def live() -> None:
        world.heartbeat(leader.member_id, 1)

    world.pass_time(NEW_MEMBER_JOIN_TIMEOUT_MS, live)
    assert len(world.group.members) == 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, UNKNOWN),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "nobody"}, UNKNOWN),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    world = World()
    member = one_member(world)
    values: dict[str, Any] = {"member_id": member.member_id, "generation": 1, **fields}
    assert world.synced(world.sync(**values)).error is error
