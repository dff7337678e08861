"""Test the properties of a trigger's limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from spark_kafkalog.offsets import Offsets, Position
from spark_kafkalog.plan import admission

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d", "e_f-g"]), st.integers(0, 12))
A0, A1, A2 = (TopicPartition("a", number) for number in range(3))

Trigger = tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]


@st.composite
def triggers(draw: st.DrawFn) -> Trigger:
    """Start, latest and the beginnings of new partitions."""
    latest = draw(st.dictionaries(PARTITIONS, st.integers(0, 1 << 62), min_size=1, max_size=8))
    begins = {tp: draw(st.integers(0, end)) for tp, end in latest.items()}
    new = {tp for tp in latest if draw(st.booleans())}
    start = {tp: begin for tp, begin in begins.items() if tp not in new}
    return start, latest, {tp: begins[tp] for tp in new}


@given(triggers(), st.integers(1, 1 << 40))
def test_the_limit_is_used_and_never_passed(trigger: Trigger, most: int) -> None:
    start, latest, new = trigger
    ends = admission.rate_limited(start, latest, new, most)
    begins = start | new
    taken = {tp: ends[tp] - begins[tp] for tp in latest}
    waiting = {tp: latest[tp] - begins[tp] for tp in latest}
    assert ends.keys() == latest.keys()
    assert all(0 <= taken[tp] <= size for tp, size in waiting.items())
    assert sum(taken.values()) == min(most, sum(waiting.values()))
    if most >= sum(size > 0 for size in waiting.values()):
        assert all(taken[tp] > 0 for tp, size in waiting.items() if size), "no partition goes without"


COSTS = st.integers(1, 5000)


@given(st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 1 << 50), COSTS), min_size=1), st.integers(1, 1 << 40))
def test_costs_stay_within_the_limit(partitions: dict[TopicPartition, tuple[int, int]], most: int) -> None:
    waiting = {tp: count for tp, (count, _) in partitions.items()}
    costs = {tp: cost for tp, (_, cost) in partitions.items()}
    taken = admission.apportion(waiting, most, 3, costs)
    assert all(0 <= taken[tp] <= count for tp, count in waiting.items())
    spent = sum(count * costs[tp] for tp, count in taken.items())
    assert spent <= most or sum(taken.values()) == 1
    assert (sum(taken.values()) > 0) == (sum(waiting.values()) > 0), "a query goes on"
    if any(taken[tp] < count for tp, count in waiting.items()):
        assert spent > most - len(waiting) * max(costs.values()), "the limit is used but for a part of an offset each"


def test_shares_are_proportional() -> None:
    latest = {A0: 1000, A1: 3}
    assert admission.rate_limited({A0: 0, A1: 0}, latest, {}, 10) == {A0: 9, A1: 1}
    assert admission.rate_limited({A0: 0}, latest, {A1: 1}, 100) == {A0: 99, A1: 2}
    assert admission.rate_limited({A0: 1000, A1: 3}, latest, {}, 100) == latest
    assert admission.rate_limited({A0: 0, A1: 0}, {A0: 80, A1: 20}, {}, 25) == {A0: 20, A1: 5}
    # Spark's source takes 9 (three shares of 3 1/3), and of three partitions with one offset each all, not 2.
    assert sum(admission.rate_limited({A0: 0, A1: 0, A2: 0}, {A0: 9, A1: 9, A2: 9}, {}, 10).values()) == 10
    assert sum(admission.rate_limited({A0: 0, A1: 0, A2: 0}, {A0: 1, A1: 1, A2: 1}, {}, 2).values()) == 2


@given(st.integers(1, 9), st.integers(1, 4), st.lists(st.integers(0, 50), min_size=9, max_size=9))
def test_every_partition_has_its_turn(partitions: int, most: int, begins: list[int]) -> None:
    """Partitions that grow faster than the limit: each moves on within a bounded number of triggers."""
    tps = [TopicPartition("t", number) for number in range(partitions)]
    position: dict[TopicPartition, int] = dict(zip(tps, begins, strict=False))
    before = dict(position)
    for _ in range(-(-partitions // most)):
        latest = {tp: offset + 1000 + 10 ** (tp.partition % 7) for tp, offset in position.items()}
        position = admission.rate_limited(position, latest, {}, most)
    assert all(position[tp] > before[tp] for tp in tps)


def test_a_partition_that_went_backwards_or_cannot_be_found_is_left_to_planning() -> None:
    assert admission.rate_limited({A0: 50}, {A0: 9, A1: 7}, {}, 3) == {A0: 9, A1: 7}


@given(triggers(), st.integers(1, 1 << 40))
def test_limited_triggers_reach_the_end(trigger: Trigger, most: int) -> None:
    start, latest, new = trigger
    total = sum(latest.values()) - sum((start | new).values())
    assume(total / most < 50)
    position: Offsets = start
    for _ in range(math.ceil(total / most)):
        position = admission.rate_limited(position, latest, new, most)
    if total:
        assert position == latest


@pytest.mark.parametrize(
    ("latest", "since", "held"), [(104, 1.0, True), (105, 1.0, False), (104, 60.0, False), (0, 0.0, True)]
)
def test_holding_back(latest: int, since: float, held: bool) -> None:
    assert admission.is_held_back({A0: 100}, {A0: max(latest, 100)}, 5, since, 60.0) is held


@pytest.mark.parametrize(
    ("latest", "condition"),
    [
        ({A0: 9}, "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"),
        ({A0: 9, A1: 4}, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST"),
    ],
)
def test_available_now_notices_changes(latest: Offsets, condition: str) -> None:
    target = Position({A0: 5, A1: 5}, {"a": "one"})
    admission.check_available_now(target, Position({A0: 9, A1: 5}, {"a": "one"}))
    with pytest.raises(RuntimeError, match=condition):
        admission.check_available_now(target, Position(latest))


def test_available_now_notices_a_topic_created_again() -> None:
    target = Position({A0: 5}, {"a": "one"})
    with pytest.raises(RuntimeError, match="topic was deleted and created again"):
        admission.check_available_now(target, Position({A0: 9}, {"a": "two"}))
