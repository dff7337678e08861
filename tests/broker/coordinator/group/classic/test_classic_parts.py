"""Tests of each part of a classic group: decisions, stored records, deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group import records
from broker.coordinator.group.classic.classic_group import ClassicGroup, ClassicSettings
from broker.coordinator.group.classic.deadlines import Deadlines
from broker.coordinator.group.classic.given_ids import SPARE, GivenIds
from broker.coordinator.group.classic.group_metadata import ClassicGroupState, GroupMetadata, stored_members
from broker.coordinator.group.classic.join import JoinStep, decide_join
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.rebalance import InitialDelay
from broker.coordinator.group.classic.requests import JoinRequest, Protocols, SyncRequest
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.classic.sync import check_sync
from broker.coordinator.group.membership import Moment, Retention
from kafkalog.protocol.coordinator_records import GroupMetadataValue, MemberMetadata
from kafkalog.protocol.errors import ErrorCode
from tests.broker.coordinator.group.classic.classic_world import SESSION_MS, World

NOW = Moment(1000, 1_700_000_000_000)
RANGE: Protocols = (("range", b"topics"),)
EMPTY, PREPARING = ClassicGroupState.EMPTY, ClassicGroupState.PREPARING_REBALANCE
COMPLETING, STABLE = ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE
FULL, UNKNOWN = ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_MEMBER_ID
INCONSISTENT, FENCED = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.FENCED_INSTANCE_ID


def member(member_id: str, instance_id: str | None = None, **fields: Any) -> Member:
    values: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "assignment": b"", **fields}
    return Member(member_id, instance_id, "client", "/host", protocol_type="consumer", protocols=RANGE, **values)


def group(state: ClassicGroupState, *members: Member) -> tuple[GroupMetadata, Roster]:
    """A group in its third generation."""
    metadata, roster = GroupMetadata("g", NOW), Roster()
    for each in members:
        roster.add(each)
    metadata.generation, metadata.protocol_type = 3, "consumer"
    metadata.select_protocol(roster)
    metadata.become(state, NOW)
    return metadata, roster


def joining(member_id: str = "", instance_id: str | None = None, **fields: Any) -> JoinRequest:
    values: dict[str, Any] = {"protocol_type": "consumer", "protocols": RANGE, **fields}
    return JoinRequest(member_id, instance_id, "client", "/host", 10_000, 60_000, **values)


OTHER: dict[str, Any] = {"protocols": (("range", b"other"),)}
STRANGE: dict[str, Any] = {"protocols": (("sticky", b""),)}


@pytest.mark.parametrize(
    ("state", "request_", "decided"),
    [
        (STABLE, joining(), JoinStep.ADD),
        (STABLE, joining(require_known_id=True), JoinStep.GIVE_ID),
        (STABLE, joining(instance_id="new"), JoinStep.ADD),
        (STABLE, joining(instance_id="i"), JoinStep.REPLACE_STATIC),
        (STABLE, joining("leader"), JoinStep.REJOIN),
        (STABLE, joining("follower"), JoinStep.REPEAT_ANSWER),
        (STABLE, joining("follower", **OTHER), JoinStep.REJOIN),
        (COMPLETING, joining("leader"), JoinStep.REPEAT_ANSWER),
        (COMPLETING, joining("leader", **OTHER), JoinStep.REJOIN),
        (PREPARING, joining("follower"), JoinStep.REJOIN),
        (STABLE, joining("pending"), JoinStep.ADD),
        (STABLE, joining("pending", "new"), UNKNOWN),
        (STABLE, joining("nobody"), UNKNOWN),
        (STABLE, joining("static", "i"), JoinStep.REPEAT_ANSWER),
        (STABLE, joining("leader", "i"), FENCED),
        (STABLE, joining("static", "new"), UNKNOWN),
        (STABLE, joining(**STRANGE), INCONSISTENT),
        (STABLE, joining("leader", **STRANGE), INCONSISTENT),
        (STABLE, joining(protocol_type="connect"), INCONSISTENT),
    ],
)
def test_what_comes_of_a_join(state: ClassicGroupState, request_: JoinRequest, decided: JoinStep | ErrorCode) -> None:
    metadata, members = group(state, member("leader"), member("follower"), member("static", "i"))
    members.pending.add("pending", 5000)
    assert decide_join(request_, metadata, members, 1000) is decided
    assert ("pending" in members.pending, len(members), metadata.state) == (True, 3, state)


@pytest.mark.parametrize(
    ("request_", "decided"),
    [
        (joining(), JoinStep.ADD),
        (joining(**STRANGE), JoinStep.ADD),
        (joining(protocol_type=""), INCONSISTENT),
        (joining(protocols=()), INCONSISTENT),
        (joining("nobody"), UNKNOWN),
    ],
)
def test_what_comes_of_a_join_to_an_empty_group(request_: JoinRequest, decided: JoinStep | ErrorCode) -> None:
    metadata, members = group(EMPTY)
    assert decide_join(request_, metadata, members, 0) is decided


def test_a_full_group_has_room_for_its_members_and_while_it_rebalances_for_the_first_to_come() -> None:
    metadata, members = group(STABLE, member("a"), member("b"))
    assert decide_join(joining(), metadata, members, 2) is FULL
    assert decide_join(joining("b"), metadata, members, 2) is JoinStep.REPEAT_ANSWER
    metadata.become(PREPARING, NOW)
    members.await_join(members["a"], object())
    assert decide_join(joining("b"), metadata, members, 1) is FULL
    assert decide_join(joining("a"), metadata, members, 1) is JoinStep.REJOIN
    assert decide_join(joining(), metadata, members, 2) is JoinStep.ADD


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, None),
        ({"member_id": "nobody"}, UNKNOWN),
        ({"instance_id": "nobody"}, UNKNOWN),
        ({"instance_id": "i"}, FENCED),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "consumer", "protocol_name": "range"}, None),
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"protocol_name": "sticky"}, INCONSISTENT),
    ],
)
def test_which_syncs_are_refused(fields: dict[str, Any], error: ErrorCode | None) -> None:
    values = {"member_id": "a", "instance_id": None, "generation": 3, "protocol_type": None, "protocol_name": None}
    request = SyncRequest(**{**values, **fields})
    metadata, members = group(COMPLETING, member("a"), member("static", "i"))
    assert check_sync(request, metadata, members) is error
    metadata.become(PREPARING, NOW)
    assert check_sync(request, metadata, members) is (error or ErrorCode.REBALANCE_IN_PROGRESS)


def test_the_initial_delay_goes_on_while_members_come_up_to_the_rebalance_timeout() -> None:
    delay = InitialDelay(3000, 7000)
    delay.member_came()
    assert delay.extend() == 3000
    assert delay.extend() is None
    delay.member_came()
    assert delay.extend() == 1000
    delay.member_came()
    assert delay.extend() is None


def test_an_initial_delay_beyond_the_rebalance_timeout_is_not_prolonged() -> None:
    delay = InitialDelay(3000, 2000)
    delay.member_came()
    assert delay.extend() is None


def test_a_group_is_woken_for_what_is_due_first() -> None:
    members = Roster()
    deadlines = Deadlines(members)
    deadlines.plan_wake()
    assert deadlines.wake_at is None
    for each in (member("a", session_timeout_ms=9000), member("b", session_timeout_ms=6000)):
        members.add(each)
        deadlines.expect_heartbeat(each, NOW)
    assert deadlines.wake_at == 7000
    deadlines.wait_for_joins(5000)
    assert deadlines.wake_at == 5000
    deadlines.wait_for_syncs(6000)
    assert deadlines.wake_at == 5000
    deadlines.join = None
    deadlines.plan_wake()
    assert deadlines.wake_at == 6000
    deadlines.sync = None
    members.pending.add("c", 6500)
    deadlines.plan_wake()
    assert deadlines.wake_at == 6500
    members.pending.discard("c")
    deadlines.plan_wake()
    assert deadlines.wake_at == 7000


def test_ids_that_were_given_out_end_in_time() -> None:
    given = GivenIds()

    def left() -> tuple[int, int | None]:
        return len(given), given.next_deadline

    for number in range(3 * SPARE):
        given.add(f"m{number}", 1000 + number)
    for number in range(3 * SPARE - 2):
        given.discard(f"m{number}")
    given.discard("nobody")
    # Ids that have joined leave little behind.
    assert len(given._heap) <= SPARE + 4
    last = 1000 + 3 * SPARE - 1
    given.end(last - 2)
    assert left() == (2, last - 1)
    given.end(last - 1)
    assert left() == (1, last)
    given.end(last)
    assert left() == (0, None)


class Watched(int):
    """A time that counts how often such times are compared."""

    compared = 0

    def __radd__(self, other: int) -> Watched:
        return Watched(int(other) + int(self))

    def __lt__(self, other: int) -> bool:
        Watched.compared += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Watched.compared += 1
        return int(self) <= int(other)

    def __eq__(self, other: object) -> bool:
        Watched.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_a_group_that_is_woken_looks_at_few_of_many_ids() -> None:
    world = World()
    for number in range(10_000):
        world.join(session_timeout_ms=Watched(SESSION_MS + number), require_known_id=True)
    Watched.compared = 0
    world.pass_time(SESSION_MS + 9)
    assert len(world.group.members.pending) == 10_000 - 10
    # Ten were due, each at a time of its own.
    assert Watched.compared < 10 * 200
    assert world.group.wake_at == SESSION_MS + 10


def test_members_that_have_not_synced_are_known_in_the_order_in_which_they_joined() -> None:
    members = Roster()
    for name in "cab":
        members.add(member(name, f"static-{name}"))
        members.awaiting_sync[name] = None
    members.rename("c", "new")
    members.remove("b")
    assert list(members.awaiting_sync) == ["a", "new"]
    assert members.leader == "new"


def test_what_is_stored_is_what_is_loaded() -> None:
    metadata, members = group(COMPLETING, member("a"), member("b", "i"))
    record = metadata.record(members, {"a": b"1", "b": b"2"})
    assert record.key == records.group_metadata_key("g")
    assert [each.assignment for each in members] == [b"", b""], "they count once they are stored"
    assert record.value is not None
    value = records.decode_versioned(GroupMetadataValue, record.value)
    restored = GroupMetadata("g", Moment(0, 0))
    restored.restore(value)
    assert (restored.generation, restored.protocol_type, restored.protocol_name) == (3, "consumer", "range")
    assert restored.state_since_ms == NOW.wall_ms
    first, second = stored_members(value)
    assert (first.member_id, first.instance_id, first.assignment, first.protocols) == ("a", None, b"1", RANGE)
    assert (second.member_id, second.instance_id, second.assignment) == ("b", "i", b"2")
    loaded = ClassicGroup.load("g", value, ClassicSettings(3000, 1000), str, NOW)
    assert (loaded.state, loaded.members.leader) == (STABLE, "a")
    assert loaded.record().value == record.value


def test_a_member_without_a_rebalance_timeout_has_its_session_timeout() -> None:
    """Releases of Apache Kafka before 0.10.1 stored none."""
    value = GroupMetadataValue(members=[MemberMetadata(member_id="a", session_timeout=10_000)])
    assert [each.rebalance_timeout_ms for each in stored_members(value)] == [10_000]


def test_a_group_that_was_only_committed_to_has_no_record_to_be_forgotten() -> None:
    assert GroupMetadata("g", NOW).tombstones() == []
    metadata, _ = group(EMPTY)
    assert [(each.key, each.value) for each in metadata.tombstones()] == [(records.group_metadata_key("g"), None)]


def test_a_group_that_was_loaded_before_its_first_generation_is_forgotten() -> None:
    """The newer coordinator of Apache Kafka stores a group when its first member joins."""
    metadata = GroupMetadata("g", NOW)
    metadata.restore(GroupMetadataValue(protocol_type="consumer"))
    assert [(each.key, each.value) for each in metadata.tombstones()] == [(records.group_metadata_key("g"), None)]


def test_offsets_of_an_empty_group_are_kept_from_when_it_became_empty() -> None:
    metadata, _ = group(STABLE, member("a"))
    assert metadata.retention() is None, "its subscription cannot be read"
    metadata.become(EMPTY, Moment(2000, NOW.wall_ms + 1000))
    assert metadata.retention() == Retention(NOW.wall_ms + 1000)


def test_a_group_of_consumers_comes_with_its_assignments_and_joins_again_when_it_takes_over() -> None:
    members = [member("a", assignment=b"1"), member("b", assignment=b"2")]
    made = ClassicGroup.of_consumers("g", 7, members, ClassicSettings(3000, 1000), str, NOW)
    assert (made.state, made.generation, made.protocol_name, made.members.leader) == (STABLE, 7, "range", "a")
    assert [each.assignment for each in made.summary().members] == [b"1", b"2"]
    assert (made.wake_at, made.out) == (None, [])
    made.take_over(NOW)
    assert made.state is PREPARING
    assert made.wake_at == NOW.ms + 10_000
    assert made.heartbeat("b", None, 7, NOW) is ErrorCode.REBALANCE_IN_PROGRESS


def test_only_the_leaders_sync_completes_a_rebalance() -> None:
    members = [member("a"), member("b")]
    made = ClassicGroup.of_consumers("g", 7, members, ClassicSettings(3000, 1000), str, NOW)
    assert not made.awaits_assignments_of("a")
    for token, member_id in enumerate("ab"):
        made.join(joining(member_id, **OTHER), token, NOW)
    assert made.state is COMPLETING
    assert (made.awaits_assignments_of("a"), made.awaits_assignments_of("b")) == (True, False)
