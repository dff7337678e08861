"""Test the translation of offsets against logs that are written out record by record."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog.mirror.copying.positions.translation import OffsetMap, continued
from kafkalog.mirror.internal_topics.runs import Run

STEPS = st.lists(st.sampled_from(["record", "gap in the source", "marker in the target"]), min_size=1, max_size=60)


def logs(steps: list[str]) -> list[tuple[int, int]]:
    """Return the offsets of each record in the source and in the target."""
    up = down = 0
    found = []
    for step in steps:
        if step == "record":
            found.append((up, down))
        up += step != "marker in the target"
        down += step != "gap in the source"
    return found


@given(STEPS, st.integers(0, 70))
def test_a_position_is_translated_to_the_first_record_that_is_not_read(steps: list[str], position: int) -> None:
    records = logs(steps)
    offsets = OffsetMap()
    for up, down in records:
        offsets.add(Run(up, down, 1))
    found = offsets.translate(position)
    before = [down for up, down in records if up < position]
    after = [down for up, down in records if up >= position]
    if not records or position < records[0][0]:
        assert found is None
        return
    assert found is not None
    # No record is lost, and none is read again.
    assert found <= min(after, default=found)
    assert found > max(before, default=-1)


@given(STEPS, st.integers(0, 70), st.integers(2, 8))
@example(["record", "gap in the source"] * 4, 0, 2)
def test_with_fewer_runs_than_there_are_nothing_is_lost(steps: list[str], position: int, most: int) -> None:
    records = logs(steps)
    offsets = OffsetMap(most)
    for up, down in records:
        offsets.add(Run(up, down, 1))
    assert len(offsets) <= most
    found = offsets.translate(position)
    if found is not None:
        assert all(down >= found for up, down in records if up >= position)


@st.composite
def maps(draw: st.DrawFn) -> tuple[list[tuple[int, int]], OffsetMap]:
    """Return the records of a log, and what a mirror may know of them: some runs, whole or their last record only."""
    records = logs(draw(STEPS))
    offsets = OffsetMap(draw(st.integers(2, 8) | st.just(8192)))
    runs: list[Run] = []
    for up, down in records:
        if runs and runs[-1].ends == (up, down):
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(Run(up, down, 1))
    for up, down, length in runs:
        known = draw(st.sampled_from(["whole", "last record", "nothing"]))
        if known == "whole":
            offsets.add(Run(up, down, length))
        elif known == "last record":
            offsets.add(Run(up + length - 1, down + length - 1, 1))
    return records, offsets


@given(STEPS, st.integers(0, 70))
def test_a_position_of_the_target_is_translated_back_to_the_first_record_that_is_not_read(
    steps: list[str], position: int
) -> None:
    records = logs(steps)
    offsets = OffsetMap()
    for up, down in records:
        offsets.add(Run(up, down, 1))
    found = offsets.translate_back(position)
    before = [up for up, down in records if down < position]
    after = [up for up, down in records if down >= position]
    if not records or position < records[0][1]:
        assert found is None
        return
    assert found is not None
    assert found <= min(after, default=found)
    assert found > max(before, default=-1)


@given(maps(), st.integers(0, 70))
def test_nothing_is_lost_on_the_way_back(known: tuple[list[tuple[int, int]], OffsetMap], position: int) -> None:
    records, offsets = known
    found = offsets.translate_back(position)
    if found is not None:
        assert all(up >= found for up, down in records if down >= position)


@given(maps(), st.integers(0, 70))
def test_there_and_back_skips_no_record_and_comes_to_rest(
    known: tuple[list[tuple[int, int]], OffsetMap], position: int
) -> None:
    """As a group does that reads on neither side."""
    records, offsets = known
    unread = [up for up, _ in records if up >= position]
    upstream, reached = position, []
    for _ in range(3):
        downstream = offsets.translate(upstream)
        if downstream is None:
            break
        back = offsets.translate_back(downstream)
        assert back is not None
        upstream = max(upstream, back)
        assert all(up >= upstream for up in unread)
        reached.append((upstream, downstream))
    assert len(set(reached[1:])) <= 1


def test_a_pair_of_an_earlier_process_is_translated_back() -> None:
    offsets = OffsetMap()
    offsets.add(Run(100, 40, 1))
    assert [offsets.translate_back(each) for each in (39, 40, 41, 1000)] == [None, 100, 101, 101]


def test_a_partition_that_comes_again_goes_on_with_what_was_known() -> None:
    known = OffsetMap()
    for run in (Run(0, 0, 10), Run(10, 11, 5)):
        known.add(run)
    # Of two transactions only their last records are stored, of which the first one is compacted away.
    found = continued(known, [Run(14, 15, 1), Run(20, 17, 3)])
    assert [found.translate_back(each) for each in (3, 13, 16, 18)] == [3, 12, 15, 21]


def test_what_was_known_does_not_count_where_others_have_mirrored_unseen() -> None:
    known = OffsetMap()
    known.add(Run(0, 0, 10))
    found = continued(known, [Run(90, 95, 1)])
    assert [found.translate(each) for each in (5, 95)] == [None, 96]
    assert len(continued(known, [])) == 0


@pytest.mark.parametrize("behind", [10_000, 100_000, 500_000, 900_000])
def test_how_exact_a_translation_is_depends_on_how_far_the_position_is_behind(behind: int) -> None:
    """As after small transactions: each has ten records, and its marker takes an offset of the target."""
    offsets = OffsetMap(most=1024)
    for number in range(100_000):
        offsets.add(Run(10 * number, 11 * number, 10))
    position = 1_000_000 - behind
    found = offsets.translate(position)
    assert found is not None
    assert 0 <= position * 11 // 10 - found <= behind // 10


def test_consecutive_records_are_one_run() -> None:
    offsets = OffsetMap()
    offsets.add(Run(10, 4, 5))
    offsets.add(Run(15, 9, 3))
    assert len(offsets) == 1
    assert offsets.last == (17, 11)
    offsets.add(Run(18, 13, 1))
    assert len(offsets) == 2


def test_a_position_before_the_first_record_is_that_of_the_first_one() -> None:
    """As where a partition begins with an aborted transaction."""
    offsets = OffsetMap()
    for run in (Run(10, 4, 0), Run(15, 4, 3)):
        offsets.add(run)
    assert [offsets.translate(each) for each in (9, 10, 14, 15, 16)] == [None, 4, 4, 4, 5]
    assert [offsets.translate_back(each) for each in (3, 4, 5)] == [None, 15, 16]


def test_a_stored_pair_of_offsets_is_translated_as_mirrormaker_does() -> None:
    offsets = OffsetMap()
    offsets.add(Run(100, 40, 1))
    # OffsetSyncStore.translateDownstream: the pair itself, one beyond it, never before it.
    assert [offsets.translate(each) for each in (99, 100, 101, 1000)] == [None, 40, 41, 41]


def test_a_source_that_goes_back_forgets_what_was() -> None:
    offsets = OffsetMap()
    offsets.add(Run(0, 0, 10))
    offsets.add(Run(0, 12, 2))
    assert offsets.translate(1) == 13
    assert len(offsets) == 1


def test_a_target_that_goes_back_forgets_what_was() -> None:
    """Its topic was deleted: what is at the old offsets one day was not mirrored from the old ones."""
    offsets = OffsetMap()
    offsets.add(Run(0, 500, 10))
    offsets.add(Run(10, 0, 2))
    assert offsets.translate(5) is None
    assert offsets.translate(11) == 1


def test_without_runs_there_is_no_translation() -> None:
    assert OffsetMap().translate(3) is None
    assert OffsetMap().last is None
