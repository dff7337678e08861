"""Tests of ConsumerGroupHeartbeat: accepted and refused requests, error messages, and stored records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.coordinator.group.kip848 import advance
from broker.coordinator.group.kip848.assignors import GroupSpec
from broker.coordinator.group.kip848.assignors.uniform import assign_uniform
from broker.coordinator.group.kip848.context import TimerKind
from broker.coordinator.group.kip848.formats import log_records
from broker.coordinator.group.kip848.formats.log_records import decode_record
from broker.coordinator.group.kip848.group import ASSIGNING, EMPTY, RECONCILING, STABLE
from broker.coordinator.group.kip848.model import Assignment, MemberState, ResolvedRegex, assignment_of
from kafkalog.protocol.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    KafkaError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kafkalog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.broker.coordinator.group.kip848.support import Coordinator, FakeTopics, beat, join, topic_id


def _told(response: ConsumerGroupHeartbeatResponse) -> Assignment:
    assert response.assignment is not None
    return assignment_of(response.assignment.topic_partitions)  # type: ignore[arg-type]


def _parts(*partitions: int) -> Assignment:
    return {topic_id(0): frozenset(partitions)} if partitions else {}


def _first(*topics: int) -> Assignment:
    """Partition 0 of each topic."""
    return {topic_id(topic): frozenset([0]) for topic in topics}


def test_two_members_come_to_share_a_topic() -> None:
    coordinator = Coordinator(FakeTopics(4))
    group = coordinator.group
    assert group.state == EMPTY
    response = coordinator.request(join("a", "t0"))
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", 1, 5000)
    assert _told(response) == _parts(0, 1, 2, 3)
    assert group.state == STABLE

    response = coordinator.request(join("b", "t0"))
    assert (response.member_epoch, _told(response)) == (2, {}), "its partitions are in a's hands"
    assert group.state == RECONCILING
    assert group.members["b"].state is MemberState.UNRELEASED_PARTITIONS

    response = coordinator.request(beat("a", 1))
    assert (response.member_epoch, _told(response)) == (1, _parts(0, 1)), "a gives back before it goes on"
    assert group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert coordinator.timers[TimerKind.REBALANCE, "a"].delay_ms == 30_000
    response = coordinator.request(beat("a", 1, _parts(0, 1, 2, 3)))
    assert (response.member_epoch, response.assignment) == (1, None)
    assert coordinator.request(beat("b", 2)).assignment is None

    assert coordinator.request(beat("a", 1, _parts(0, 1))).member_epoch == 2
    assert (TimerKind.REBALANCE, "a") not in coordinator.timers
    response = coordinator.request(beat("b", 2))
    assert (response.member_epoch, _told(response)) == (2, _parts(2, 3))
    assert group.state == STABLE

    coordinator.request(beat("a", -1))
    assert group.state == ASSIGNING
    assert _told(coordinator.request(beat("b", 2))) == _parts(0, 1, 2, 3)
    assert not [key for key in coordinator.timers if key[1] == "a"]
    coordinator.fence("b")
    assert (group.state, group.group_epoch) == (EMPTY, 4)


def test_records_of_a_member_that_joins() -> None:
    coordinator = Coordinator(FakeTopics(2))
    coordinator.request(join("a", "t0"))
    (batch,) = coordinator.log
    records = [decode_record(key, value) for key, value in batch]
    assert [record.kind for record in records if record] == [
        log_records.MemberMetadata,
        log_records.PartitionMetadata,
        log_records.GroupMetadata,
        log_records.TargetAssignment,
        log_records.TargetAssignmentMetadata,
        log_records.CurrentAssignment,
    ]
    coordinator.request(beat("a", 1))
    assert len(coordinator.log) == 1, "nothing new is not stored"
    coordinator.request(beat("a", -1))
    assert [value for _, value in coordinator.log[1]][:3] == [None] * 3


def test_a_topic_that_is_made_and_grows_is_noticed() -> None:
    topics = FakeTopics()
    coordinator = Coordinator(topics)
    assert _told(coordinator.request(join("a", "t0"))) == {}
    topics.put("t0", 1, 0)
    assert _told(coordinator.request(beat("a", 1))) == _parts(0)
    topics.put("t0", 2)
    assert _told(coordinator.request(beat("a", 2))) == _parts(0, 1)
    topics.put("another", 1)
    assert coordinator.request(beat("a", 3)).member_epoch == 3


def test_regular_expressions() -> None:
    topics = FakeTopics(1, 1)
    coordinator = Coordinator(topics)
    response = coordinator.request(join("a", regex="t[0-9]"))
    assert _told(response) == _first(0, 1)
    assert coordinator.group.all_subscribed() == {"t0", "t1"}
    topics.put("t2", 1)
    assert coordinator.request(beat("a", 1)).assignment is None, "not again so soon"
    coordinator.now_ms += 10_000
    assert _told(coordinator.request(beat("a", 1))) == _first(0, 1, 2)
    with pytest.raises(InvalidRegularExpressionError, match=r"SubscribedTopicRegex `\(` is not a valid regular"):
        coordinator.request(join("b", regex="("))
    changed = beat("a", 2, {})
    changed.subscribed_topic_regex = "t1"
    coordinator.request(changed)
    assert coordinator.group.regexes.keys() == {"t1"}
    coordinator.request(beat("a", -1))
    assert not coordinator.group.regexes


def test_an_answer_that_was_lost() -> None:
    coordinator = Coordinator(FakeTopics(2))
    coordinator.request(join("a", "t0"))
    coordinator.request(join("b", "t0"))
    coordinator.request(beat("a", 1, _parts(0, 1)))
    assert coordinator.request(beat("a", 1, _parts(0))).member_epoch == 2
    assert coordinator.request(beat("a", 1, _parts(0))).member_epoch == 2, "its epoch before, and nothing too much"
    with pytest.raises(FencedMemberEpochError, match=r"smaller member epoch \(1\) than the one known .* \(2\)"):
        coordinator.request(beat("a", 1, _parts(0, 1)))
    with pytest.raises(FencedMemberEpochError, match=r"greater member epoch \(3\)"):
        coordinator.request(beat("a", 3, _parts(0)))
    # A member that was restarted under its id.
    assert _told(coordinator.request(join("a", "t0"))) == _parts(0)


def test_static_members() -> None:
    coordinator = Coordinator(FakeTopics(2))
    coordinator.request(join("a", "t0", instance="i"))
    with pytest.raises(UnreleasedInstanceIdError, match="cannot join the group because the instance id is owned by a"):
        coordinator.request(join("b", "t0", instance="i"))
    with pytest.raises(FencedInstanceIdError, match="was fenced by member a"):
        coordinator.request(beat("b", 1, instance="i"))
    with pytest.raises(UnknownMemberIdError, match="Instance id j is unknown"):
        coordinator.request(beat("a", 1, instance="j"))
    epoch = coordinator.group.group_epoch
    assert coordinator.request(beat("a", -2, instance="i")).member_epoch == -2
    response = coordinator.request(join("b", "t0", instance="i"))
    assert (_told(response), response.member_epoch) == (_parts(0, 1), epoch), "as if it had never been away"
    assert coordinator.group.members.keys() == {"b"}
    coordinator.request(beat("b", -1, instance="i"))
    assert not coordinator.group.static_members


def test_the_session_of_a_member_that_is_away_goes_on() -> None:
    coordinator = Coordinator(FakeTopics(2))
    coordinator.request(join("a", "t0", instance="i"))
    coordinator.request(beat("a", -2, instance="i"))
    assert coordinator.timers[TimerKind.SESSION, "a"].delay_ms == 45_000


def test_member_ids() -> None:
    coordinator = Coordinator(FakeTopics(1))
    assert coordinator.request(join("", "t0"), version=0).member_id == "made-1"
    with pytest.raises(InvalidRequestError, match="MemberId can't be empty"):
        coordinator.request(join("", "t0"), version=1)
    with pytest.raises(UnknownMemberIdError, match="Member x is not a member of group g"):
        coordinator.request(beat("x", 1))


def test_a_full_group() -> None:
    coordinator = Coordinator(FakeTopics(1), max_size=1)
    coordinator.request(join("a", "t0"))
    with pytest.raises(GroupMaxSizeReachedError, match="maximum capacity of 1 members"):
        coordinator.request(join("b", "t0"))
    coordinator.request(beat("a", 1))


def test_most_members_choose_the_assignor() -> None:
    coordinator = Coordinator(FakeTopics(2, 2))
    coordinator.request(join("a", "t0", "t1", assignor="range"))
    coordinator.request(join("b", "t0", "t1", assignor="range"))
    assert coordinator.group.target["a"] == _first(0, 1)
    with pytest.raises(UnsupportedAssignorError, match=r"ServerAssignor best is not .* assignors: uniform, range\."):
        coordinator.request(join("c", "t0", assignor="best"))


def _with(**fields: object) -> Callable[[ConsumerGroupHeartbeatRequest], None]:
    def change(request: ConsumerGroupHeartbeatRequest) -> None:
        for name, value in fields.items():
            setattr(request, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with(group_id=" "), "GroupId can't be empty."),
        (_with(instance_id=""), "InstanceId can't be empty."),
        (_with(rack_id=""), "RackId can't be empty."),
        (_with(rebalance_timeout_ms=-1), "RebalanceTimeoutMs must be provided in first request."),
        (_with(topic_partitions=None), "TopicPartitions must be empty when (re-)joining."),
        (_with(subscribed_topic_names=None), "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        (_with(member_epoch=-2), "InstanceId can't be null."),
        (_with(member_epoch=-3), "MemberEpoch is invalid."),
        (_with(member_epoch=-1, member_id=""), "MemberId can't be empty."),
    ],
)
def test_requests_that_are_wrong_in_themselves(
    change: Callable[[ConsumerGroupHeartbeatRequest], None], message: str
) -> None:
    request = join("a", "t0")
    change(request)
    with pytest.raises(KafkaError) as raised:
        Coordinator(FakeTopics(1)).request(request)
    assert raised.value.message.startswith(message)
    assert isinstance(raised.value, InvalidRequestError)


def test_a_state_of_a_newer_release() -> None:
    coordinator = Coordinator(FakeTopics(1))
    coordinator.request(join("a", "t0"))
    record = decode_record(*coordinator.log[0][-1])
    assert record is not None
    assert isinstance(record.value, log_records.CurrentAssignment)
    record.value.state = 77
    coordinator.append([record])
    coordinator.request(join("b", "t0"))
    with pytest.raises(FencedMemberEpochError, match="unknown state"):
        coordinator.request(beat("a", 1, _parts(0)))
    assert coordinator.request(join("a", "t0")).member_epoch == 2


class Matches(frozenset[str]):
    """The matches of an expression; they count how often they are joined with a member's names."""

    joined = 0

    def __ror__(self, names: object) -> frozenset[str]:
        Matches.joined += 1
        return frozenset(self)


def test_members_of_one_subscription_share_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a group with many members and topics must not take members times topics steps."""
    specs: list[GroupSpec] = []

    def note(spec: GroupSpec) -> dict[str, Assignment]:
        specs.append(spec)
        return assign_uniform(spec)

    monkeypatch.setattr(advance, "ASSIGNORS", {"uniform": note})
    coordinator = Coordinator(FakeTopics(2, 2))
    for number in range(4):
        coordinator.request(join(f"names{number}", "t0"))
        coordinator.request(join(f"regex{number}", regex="t.*"))
    members = specs[-1].members
    assert len(members) == 8
    assert len({id(member.topics) for member in members.values()}) == 2
    group = coordinator.group
    group.regexes = {"t.*": ResolvedRegex(Matches({"t1"}), 1, 1)}
    assert group.all_subscribed() == {"t0", "t1"}
    assert Matches.joined <= 1
