"""Tests of the assignors: every partition has one owner, loads are balanced, and partitions move only if they must."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.kip848.assignors import ASSIGNORS, AssignorError, GroupSpec, MemberSpec, uniform
from broker.coordinator.group.kip848.model import Assignment, count_partitions
from tests.broker.coordinator.group.kip848.support import topic_id


def _valid(group: GroupSpec, result: Mapping[str, Assignment]) -> None:
    assert result.keys() == group.members.keys()
    owners: Counter[tuple[UUID, int]] = Counter()
    for member_id, assignment in result.items():
        assert assignment.keys() <= group.members[member_id].topics
        assert all(assignment.values()), "a topic without partitions does not appear"
        owners.update((topic, partition) for topic, some in assignment.items() for partition in some)
    subscribed = frozenset[UUID]().union(*(member.topics for member in group.members.values()))
    wanted = {(topic, partition) for topic in subscribed for partition in range(group.partitions[topic])}
    assert owners == dict.fromkeys(wanted, 1)


@st.composite
def _groups(draw: st.DrawFn, *, homogeneous: bool | None = None) -> GroupSpec:
    partitions = {topic_id(number): draw(st.integers(1, 9)) for number in range(draw(st.integers(1, 4)))}
    topics = st.frozensets(st.sampled_from(sorted(partitions)), min_size=1)
    same = draw(topics) if homogeneous else None
    members = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    owners: dict[tuple[UUID, int], str] = {}
    # A target so far of whatever came before: of topics that are gone, of partitions that are no more.
    for topic in [*partitions, topic_id(99)]:
        for partition in range(11):
            owner = draw(st.sampled_from([*members, "", ""]))
            if owner:
                owners[topic, partition] = owner
    specs = {}
    for place, member_id in enumerate(members):
        assigned: dict[UUID, frozenset[int]] = {}
        for (topic, partition), owner in owners.items():
            if owner == member_id:
                assigned[topic] = assigned.get(topic, frozenset()) | {partition}
        instance = f"i{place}" if draw(st.booleans()) else None
        specs[member_id] = MemberSpec(same or draw(topics), instance, assigned)
    return GroupSpec(specs, partitions)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=_groups())
def test_every_partition_has_one_owner_that_is_subscribed(name: str, group: GroupSpec) -> None:
    result = ASSIGNORS[name](group)
    _valid(group, result)
    assert ASSIGNORS[name](group) == result, "the same group gets the same answer"


@given(group=_groups(homogeneous=True))
def test_uniform_is_level_and_keeps_what_it_can(group: GroupSpec) -> None:
    result = ASSIGNORS["uniform"](group)
    loads = {member_id: count_partitions(assignment) for member_id, assignment in result.items()}
    assert max(loads.values()) - min(loads.values()) <= 1
    least = min(loads.values())
    for member_id, member in group.members.items():
        had = {
            (topic, partition)
            for topic, some in member.assigned.items()
            for partition in some
            if topic in member.topics and partition < group.partitions[topic]
        }
        kept = {(topic, partition) for topic, some in result[member_id].items() for partition in some}
        # It loses only what is above the quota, and gets more only once it has all that it had.
        assert had <= kept or (kept < had and len(kept) >= least)


@given(group=_groups())
def test_uniform_leaves_no_move_that_would_level_the_loads(group: GroupSpec) -> None:
    result = ASSIGNORS["uniform"](group)
    loads = {member_id: count_partitions(assignment) for member_id, assignment in result.items()}
    for owner, assignment in result.items():
        for topic in assignment:
            for other, member in group.members.items():
                if topic in member.topics:
                    assert loads[owner] <= loads[other] + 1


@given(group=_groups())
def test_uniform_keeps_its_own_answer(group: GroupSpec) -> None:
    result = ASSIGNORS["uniform"](group)
    again = GroupSpec(
        {
            member_id: MemberSpec(member.topics, member.instance_id, result[member_id])
            for member_id, member in group.members.items()
        },
        group.partitions,
    )
    assert ASSIGNORS["uniform"](again) == result


def test_uniform_does_not_take_topics_times_partitions_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = Counter[str]()

    def count(heap: list[tuple[int, str]], entry: tuple[int, str]) -> None:
        pushed[entry[1]] += 1
        heapq.heappush(heap, entry)

    counting = SimpleNamespace(**{**vars(heapq), "heappush": count})
    monkeypatch.setattr(uniform, "heapq", counting)
    topics = [topic_id(number) for number in range(100)]
    members = {f"m{number}": MemberSpec(frozenset(topics[: 100 - number])) for number in range(3)}
    result = uniform.assign_uniform(GroupSpec(members, dict.fromkeys(topics, 10)))
    assert sum(map(count_partitions, result.values())) == 1000
    assert sum(pushed.values()) < 3 * 1000


def test_uniform_does_not_take_members_times_partitions_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member has a subscription of its own, and all share one topic."""
    looks = 0
    load = uniform._Balance._load

    def count(self: uniform._Balance, member_id: str) -> int:
        nonlocal looks
        looks += 1
        return load(self, member_id)

    monkeypatch.setattr(uniform._Balance, "_load", count)
    shared = topic_id(0)
    members = {f"m{number}": MemberSpec(frozenset([shared, topic_id(number + 1)])) for number in range(50)}
    group = GroupSpec(members, {shared: 200, **{topic_id(number + 1): 1 for number in range(50)}})
    result = uniform.assign_uniform(group)
    _valid(group, result)
    assert set(map(count_partitions, result.values())) == {5}
    assert looks < 50 * 200


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_subscription_that_members_share_is_looked_at_once(name: str) -> None:
    """Otherwise a group takes members times topics steps, whatever its members get."""
    looks = 0

    class Topics(frozenset[UUID]):
        def __iter__(self) -> Iterator[UUID]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    topics = Topics(topic_id(number) for number in range(3))
    group = GroupSpec({f"m{number}": MemberSpec(topics) for number in range(9)}, dict.fromkeys(topics, 2))
    looks = 0
    result = ASSIGNORS[name](group)
    assert looks <= 1
    _valid(group, result)


def test_range_gives_runs_of_the_same_numbers() -> None:
    topics = frozenset([topic_id(0), topic_id(1)])
    group = GroupSpec(
        {"b": MemberSpec(topics), "a": MemberSpec(topics), "z": MemberSpec(topics, "instance")},
        dict.fromkeys(topics, 4),
    )
    result = ASSIGNORS["range"](group)
    assert result["z"] == dict.fromkeys(topics, frozenset([0, 1])), "static members come first"
    assert result["a"] == dict.fromkeys(topics, frozenset([2]))
    assert result["b"] == dict.fromkeys(topics, frozenset([3]))


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_topic_that_does_not_exist(name: str) -> None:
    with pytest.raises(AssignorError, match="non-existent topic"):
        ASSIGNORS[name](GroupSpec({"m": MemberSpec(frozenset([topic_id(5)]))}, {}))


@pytest.mark.parametrize("name", ASSIGNORS)
def test_nobody(name: str) -> None:
    assert ASSIGNORS[name](GroupSpec({}, {topic_id(0): 3})) == {}
