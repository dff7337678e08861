"""Tests of the rules of reset-offsets, for any group and any logs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.client.admin.groups.offset_reset import (
    LogRange,
    Plan,
    ResetError,
    Rule,
    ShiftBy,
    To,
    ToOffset,
    ToPlan,
    ToTimestamp,
    plan_reset,
)
from kafkalog.client.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {T0: LogRange(10, 20), T1: LogRange(0, 0)}

PARTITIONS = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3))
OFFSETS = st.integers(0, 1000)
ANY = st.integers(-(2**40), 2**40)
RANGES = st.tuples(OFFSETS, OFFSETS).map(lambda pair: LogRange(min(pair), max(pair)))


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    """Partitions, their logs, and a group that has committed in some of them."""
    logs = draw(st.dictionaries(PARTITIONS, RANGES, min_size=1))
    committed = draw(st.dictionaries(st.sampled_from(sorted(logs)), ANY.map(abs)))
    return {"partitions": list(logs), "logs": logs, "committed": committed}


@settings(max_examples=50)
@given(groups(), st.one_of(st.sampled_from([To.EARLIEST, To.LATEST]), ANY.map(ToOffset)))
def test_every_offset_is_one_that_the_log_has(group: dict[str, Any], rule: Rule) -> None:
    plan = plan_reset(rule, **group)
    assert list(plan.offsets) == sorted(group["logs"])
    for tp, offset in plan.offsets.items():
        start, end = group["logs"][tp]
        wanted = rule.offset if isinstance(rule, ToOffset) else start if rule is To.EARLIEST else end
        assert offset == sorted((start, wanted, end))[1]
        assert any(str(tp) in text for text in plan.warnings) == (offset != wanted)


@settings(max_examples=50)
@given(groups(), ANY)
def test_a_shift_goes_from_what_is_committed(group: dict[str, Any], by: int) -> None:
    if set(group["partitions"]) - set(group["committed"]):
        with pytest.raises(ResetError, match="committed none"):
            plan_reset(ShiftBy(by), **group)
        return
    plan = plan_reset(ShiftBy(by), **group)
    for tp, offset in plan.offsets.items():
        start, end = group["logs"][tp]
        assert offset == sorted((start, group["committed"][tp] + by, end))[1]


@settings(max_examples=50)
@given(groups(), st.data())
def test_a_plan_that_was_exported_is_itself(group: dict[str, Any], data: st.DataObject) -> None:
    offsets = {tp: data.draw(st.integers(*log)) for tp, log in group["logs"].items()}
    assert plan_reset(ToPlan(offsets), **group) == Plan(dict(sorted(offsets.items())), [])


@settings(max_examples=50)
@given(groups())
def test_to_current_changes_nothing_that_is_committed(group: dict[str, Any]) -> None:
    plan = plan_reset(To.CURRENT, **group)
    for tp, offset in plan.offsets.items():
        assert offset == group["committed"].get(tp, group["logs"][tp].end)
    assert plan.warnings == []


@settings(max_examples=50)
@given(groups(), st.data())
def test_a_time_after_the_last_record_is_the_end(group: dict[str, Any], data: st.DataObject) -> None:
    at_time = {tp: data.draw(st.one_of(st.just(-1), st.integers(*log))) for tp, log in group["logs"].items()}
    plan = plan_reset(ToTimestamp(1), at_time=at_time, **group)
    for tp, offset in plan.offsets.items():
        assert offset == (group["logs"][tp].end if at_time[tp] < 0 else at_time[tp])
    assert len(plan.warnings) == sum(each < 0 for each in at_time.values())


def test_the_words_of_a_warning() -> None:
    plan = plan_reset(ToOffset(15), [T1, T0], committed={}, logs=LOGS)
    assert plan == Plan({T0: 15, T1: 0}, ["new offset 15 of partition t-1 is higher than the latest: it becomes 0"])
    plan = plan_reset(ShiftBy(-5), [T0], committed={T0: 12}, logs=LOGS)
    assert plan == Plan({T0: 10}, ["new offset 7 of partition t-0 is lower than the earliest: it becomes 10"])


def test_a_plan_without_a_partition() -> None:
    with pytest.raises(ResetError, match="t-1"):
        plan_reset(ToPlan({T0: 11}), [T0, T1], committed={}, logs=LOGS)
