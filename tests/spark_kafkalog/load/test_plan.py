"""Tests of a load's plan: which offsets it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from spark_kafkalog.load.layout.offsets_document import Lost, Offsets, PartitionOffsets
from spark_kafkalog.load.load_options import LoadOptions
from spark_kafkalog.load.load_plan import (
    LostOffsetsError,
    Plan,
    PlanError,
    RecreatedTopicError,
    Seen,
    Wanted,
    plan_load,
)
from spark_kafkalog.options.limits import AtEnd, AtOffsets, AtTimestamp


def after(ends: dict[int, int], topic_id: str = "a") -> Offsets:
    """The document of load 4."""
    parts = {number: PartitionOffsets(0, end, 0) for number, end in ends.items()}
    return Offsets("t", topic_id, 4, 3, "run", "now", "parquet", parts)


def plan(last: Offsets | None, earliest: list[int], latest: list[int], **more: Any) -> Plan:
    seen = Seen(
        more.pop("topic_id", "a"),
        dict(enumerate(earliest)),
        dict(enumerate(latest)),
        dict(enumerate(more.pop("high_watermarks", []))),
    )
    wanted = Wanted(dict(enumerate(earliest)), more.pop("until", dict.fromkeys(range(len(latest)), -1)))
    return plan_load("t", last, seen, replace(wanted, **more))


def test_the_first_load_begins_where_the_log_does() -> None:
    found = plan(None, [0, 5], [10, 5])
    assert (found.load, found.previous, found.positions) == (0, None, {0: (0, 10), 1: (5, 5)})
    assert not found.is_empty


def test_a_load_goes_on_where_the_last_one_ended() -> None:
    found = plan(after({0: 7, 1: 5}), [0, 0], [10, 5])
    assert (found.load, found.previous, found.positions) == (5, 4, {0: (7, 10), 1: (5, 5)})


def test_new_partitions_begin_at_their_earliest_offset() -> None:
    assert plan(after({0: 7}), [0, 2], [10, 5]).positions == {0: (7, 10), 1: (2, 5)}


def test_nothing_new() -> None:
    assert plan(after({0: 10}), [0], [10]).is_empty


def test_a_start_at_the_end_is_remembered() -> None:
    """Otherwise the next load would begin at its own latest, and leave out what came in between."""
    found = plan(None, [0, 0], [10, 0], first_starts={0: 10, 1: 0})
    assert (found.positions, found.is_empty, found.splits(2, None)) == ({0: (10, 10), 1: (0, 0)}, False, [])
    assert plan(after({0: 10, 1: 0}), [0, 0], [10, 0], first_starts={0: 10, 1: 0}).is_empty
    assert plan(None, [7], [7]).is_empty


def test_latest_of_empty_partitions_is_remembered() -> None:
    """Otherwise the next load would leave out all that came in between. They may have been emptied by retention."""
    found = plan(None, [0, 7], [0, 7], at_latest=True)
    assert (found.positions, found.is_empty, found.splits(2, None)) == ({0: (0, 0), 1: (7, 7)}, False, [])
    later = {"first_starts": {0: 100, 1: 7}, "at_latest": True}
    assert plan(after({0: 0, 1: 7}), [0, 7], [100, 7], **later).positions == {0: (0, 100), 1: (7, 7)}
    assert plan(after({0: 0, 1: 7}), [0, 7], [0, 7], first_starts={0: 0, 1: 7}, at_latest=True).is_empty


def test_latest_is_for_the_first_load_only() -> None:
    """New partitions, and those of a topic that was created again, have nothing that is older than that load."""
    assert plan(after({0: 7}), [0, 2], [10, 5], first_starts={0: 10, 1: 5}).positions == {0: (7, 10), 1: (2, 5)}
    again = plan(after({0: 7}), [0], [10], first_starts={0: 10}, topic_id="b", restart_recreated=True)
    assert (again.positions, again.restarted) == ({0: (0, 10)}, True)


@pytest.mark.parametrize(
    ("options", "topics", "expected"),
    [
        ({}, ("t",), False),
        ({"first": AtEnd(-1)}, ("t",), True),
        ({"first": AtEnd(-1), "start": AtTimestamp(0)}, ("t",), False),
        ({"start": AtOffsets({TopicPartition("t", 0): -2, TopicPartition("u", 0): -1})}, ("t", "u"), False),
        ({"start": AtOffsets({TopicPartition("t", 0): 5, TopicPartition("t", 1): -1})}, ("t",), True),
    ],
)
def test_starts_that_move_are_known(options: dict[str, Any], topics: tuple[str, ...], expected: bool) -> None:
    assert LoadOptions("x:1", topics, "/data", **options).starts_at_latest("t") is expected


def test_until() -> None:
    found = plan(after({0: 7, 1: 7, 2: 7}), [0] * 3, [10] * 3, until={0: 8, 1: 3, 2: -1})
    assert found.positions == {0: (7, 8), 1: (7, 7), 2: (7, 10)}
    with pytest.raises(PlanError, match="--until asks for offset 11, and the partition ends at 10"):
        plan(after({0: 7}), [0], [10], until={0: 11})


def test_offsets_are_not_loaded_twice_and_none_is_left_out() -> None:
    last = after({0: 7})
    assert plan(last, [0], [10], starts={0: 7}).positions == {0: (7, 10)}
    with pytest.raises(PlanError, match=r"offsets \[3, 7\) are loaded already"):
        plan(last, [0], [10], starts={0: 3})
    with pytest.raises(PlanError, match=r"would leave offsets \[7, 8\) out"):
        plan(last, [0], [10], starts={0: 8})
    assert plan(None, [0], [10], starts={0: 8}).positions == {0: (8, 10)}


def test_a_recreated_topic_is_an_error_with_a_remedy() -> None:
    with pytest.raises(RecreatedTopicError, match="--on-recreated-topic restart"):
        plan(after({0: 7}), [0], [10], topic_id="b")
    found = plan(after({0: 7}), [0], [10], topic_id="b", restart_recreated=True)
    assert (found.load, found.positions, found.restarted, found.topic_id) == (5, {0: (0, 10)}, True, "b")


def test_without_ids_a_recreated_topic_is_known_by_its_end_or_its_partitions() -> None:
    with pytest.raises(RecreatedTopicError, match="was loaded up to offset 7, and now ends at 3"):
        plan(after({0: 7}, ""), [0], [3], topic_id="")
    with pytest.raises(RecreatedTopicError, match="t-1 was loaded before and does not exist any more"):
        plan(after({0: 7, 1: 1}, ""), [0], [10], topic_id="")


def test_open_transactions_hold_the_end_back() -> None:
    """Earlier loads did not wait for them."""
    found = plan(after({0: 7, 1: 5}), [0, 0], [3, 9], high_watermarks=[7])
    assert found.positions == {0: (7, 7), 1: (5, 9)}
    assert plan(after({0: 7}), [0], [3], high_watermarks=[10], until={0: 2}).is_empty
    with pytest.raises(RecreatedTopicError, match="was loaded up to offset 7, and now ends at 3"):
        plan(after({0: 7}), [0], [3], high_watermarks=[6])
    with pytest.raises(PlanError, match="offset 7 to start from lies beyond the partition's end, 3"):
        plan(None, [0], [3], starts={0: 7}, high_watermarks=[9])


def test_data_loss_fails_with_ranges_and_counts() -> None:
    with pytest.raises(LostOffsetsError) as raised:
        plan(after({0: 7, 1: 4}), [9, 9], [10, 30])
    assert "7 offsets that were to be loaded are gone" in str(raised.value)
    assert "t-0 [7, 9)" in str(raised.value)
    assert "t-1 [4, 9)" in str(raised.value)
    assert "--no-fail-on-data-loss" in str(raised.value)


def test_data_loss_is_recorded_where_it_does_not_fail() -> None:
    found = plan(after({0: 7, 1: 4}), [9, 30], [10, 30], fail_on_data_loss=False)
    assert found.positions == {0: (7, 10), 1: (4, 30)}
    why = "the log now begins at"
    assert found.lost == (Lost(0, 7, 9, f"{why} 9"), Lost(1, 4, 30, f"{why} 30"))
    assert [(each.tp.partition, each.start, each.end) for each in found.ranges if each.size] == [(0, 9, 10)]
    assert [tuple(each) for each in found.splits(4, None)] == [("t", 0, 9, 10)]


partitions = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500)).map(sorted), min_size=1, max_size=6
)


@given(partitions, st.integers(1, 9), st.none() | st.integers(1, 100))
def test_splits_cover_exactly_what_is_new(found: list[list[int]], least: int, most: int | None) -> None:
    """earliest <= loaded <= latest: each new offset is in one split."""
    earliest, loaded, latest = (list(each) for each in zip(*found, strict=True))
    made = plan(after(dict(enumerate(loaded))), earliest, latest)
    covered = [(each.partition, offset) for each in made.splits(least, most) for offset in range(each.start, each.end)]
    wanted = [(number, offset) for number in range(len(found)) for offset in range(loaded[number], latest[number])]
    assert sorted(covered) == wanted
    assert most is None or all(each.end - each.start <= most for each in made.splits(least, most))


@given(st.lists(partitions, min_size=1, max_size=5))
def test_loads_one_after_another_leave_nothing_out_and_nothing_twice(runs: list[list[list[int]]]) -> None:
    """Whatever partitions do (they only grow): the loads' ranges together are [0, latest)."""
    latest: dict[int, int] = {}
    last: Offsets | None = None
    seen: dict[int, list[tuple[int, int]]] = {}
    for run in runs:
        for number, grows in enumerate(run):
            latest[number] = latest.get(number, 0) + grows[0]
        numbers = range(len(latest))
        made = plan(last, [0] * len(latest), [latest[number] for number in numbers])
        for number, position in made.positions.items():
            seen.setdefault(number, []).append(position)
        if not made.is_empty:
            last = replace(after({number: end for number, (_, end) in made.positions.items()}), load=made.load)
    for number, positions in seen.items():
        at = 0
        for start, end in positions:
            assert start == at
            at = end
        assert at == latest[number]
