"""Tests of classic groups, step by step: the response to each request in each state."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group import records
from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from broker.coordinator.group.classic.join import NEW_MEMBER_JOIN_TIMEOUT_MS
from broker.coordinator.group.classic.requests import JoinResult
from broker.coordinator.group.membership import CommitRequest, Retention
from kafkalog.protocol.errors import ErrorCode, KafkaError, NonEmptyGroupError
from tests.broker.coordinator.group.classic.classic_world import (
    EPOCH_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    UNKNOWN,
    World,
)

TOPICS = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
"""A subscription to the topic `orders`."""


def stored(world: World) -> records.GroupMetadataValue:
    """The group as it was stored last."""
    value = world.log[-1].value
    assert value is not None
    return records.decode_versioned(records.GroupMetadataValue, value)


def one_member(world: World, **fields: Any) -> JoinResult:
    """A group of one member, stable."""
    token = world.join(**fields)
    world.pass_time(world.settings.initial_rebalance_delay_ms)
    joined = world.joined(token)
    assert joined.error is ErrorCode.NONE
    instance = fields.get("instance_id")
    synced = world.sync(joined.member_id, joined.generation, {joined.member_id: b"all"}, instance_id=instance)
    assert world.synced(synced).assignment == b"all"
    return joined


def two_members(world: World, **fields: Any) -> tuple[JoinResult, JoinResult]:
    """A stable group of a leader and a follower."""
    tokens = [world.join("a", **fields), world.join("b", **fields)]
    world.pass_time(2 * world.settings.initial_rebalance_delay_ms)
    leader, follower = (world.joined(token) for token in tokens)
    waiting = world.sync(follower.member_id, follower.generation)
    assert waiting not in world.answers
    world.sync(leader.member_id, leader.generation, {leader.member_id: b"1", follower.member_id: b"2"})
    assert world.synced(waiting).assignment == b"2"
    return leader, follower


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


# -- what others ask


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
    assert world.group.is_subscribed("orders")
    assert not world.group.is_subscribed("other")
    assert world.group.retention() == Retention(None, frozenset({"orders"}))
    with pytest.raises(NonEmptyGroupError):
        world.group.check_deletable()
    world.crash()
    assert world.group.is_subscribed("orders")
    world.leave(member.member_id)
    assert not world.group.is_subscribed("orders")
    assert world.group.retention() == Retention(EPOCH_MS + world.ms)
    world.group.check_deletable()
    assert [record.value for record in world.group.tombstones("g")] == [None]


def test_a_group_of_another_protocol_may_read_anything() -> None:
    world = World()
    one_member(world, protocol_type="connect", protocols=RANGE)
    with pytest.raises(NonEmptyGroupError):
        world.group.is_subscribed("orders")
    assert world.group.retention() is None


def test_a_subscription_that_cannot_be_read_may_be_to_anything() -> None:
    world = World()
    one_member(world)
    assert world.group.is_subscribed("whatever")
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
