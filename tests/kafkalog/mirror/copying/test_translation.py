"""Test the translation of offsets against logs that are written out record by record."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog.mirror.copying.translation import OffsetMap
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
