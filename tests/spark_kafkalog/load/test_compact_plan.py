"""Tests of which files a compaction joins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_kafkalog.load.compact_plan import Group, Input, Merge, plan_merges
from spark_kafkalog.load.layout.file_names import file_name, parse_file_name
from tests.spark_kafkalog.load.compacting import HOUR


def named(
    load: int, start: int, end: int, size: int, hour: str = HOUR, partition: int = 0
) -> tuple[str, int, str, int]:
    return hour, load, file_name("t", partition, start, end, "parquet"), size


def test_consecutive_small_files_become_one_in_the_last_load() -> None:
    found = [named(0, 0, 5, 10), named(1, 5, 9, 10), named(1, 9, 12, 10), named(2, 12, 20, 10)]
    merge = Merge(tuple(Input(load, name) for _, load, name, _ in found), file_name("t", 0, 0, 20, "parquet"), 40)
    assert plan_merges("t", found, 100) == [Group(HOUR, (merge,))]
    assert (merge.load, plan_merges("t", found, 100)[0].loads) == (2, [0, 1, 2])


def test_hours_and_partitions_are_kept_apart() -> None:
    found = [named(0, 0, 5, 1), named(1, 5, 9, 1, partition=1), named(1, 9, 12, 1, "date=2026-11-21/hour=19")]
    assert plan_merges("t", found, 100) == []


def test_files_near_the_target_are_left_alone() -> None:
    found = [named(0, 0, 5, 10), named(1, 5, 9, 75), named(2, 9, 12, 10), named(3, 12, 13, 10)]
    (group,) = plan_merges("t", found, 100)
    assert [each.load for each in group.merges[0].inputs] == [2, 3]


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 1), st.integers(0, 1)), max_size=30), st.integers(1, 100))
def test_plans_keep_the_rows_and_make_new_names(sizes: list[tuple[int, int, int]], target: int) -> None:
    ends = [0, 0]
    found = []
    for load, (size, partition, hour) in enumerate(sizes):
        start = ends[partition]
        ends[partition] += 1 + size
        found.append(named(load // 3, start, ends[partition], size, f"{HOUR}{hour}", partition))
    groups = plan_merges("t", found, target)
    names = {name for *_, name, _ in found}
    replaced = [each for group in groups for merge in group.merges for each in merge.inputs]
    assert len(set(replaced)) == len(replaced)
    for group in groups:
        for merge in group.merges:
            assert merge.output not in names
            assert merge.size <= target
            assert len(merge.inputs) > 1
            spans = [parse_file_name(each.name) for each in merge.inputs]
            assert spans == sorted(spans)
            assert merge.load == max(each.load for each in merge.inputs)
