"""Test the map that a process makes of stored offset syncs, against logs that are written out record by record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.positions.recalled import recalled
from kafkalog.mirror.copying.positions.translation import OffsetMap
from kafkalog.mirror.internal_topics.formats import OffsetSync
from kafkalog.mirror.internal_topics.runs import BEFORE, OWN, Headers, Run, run_headers

TP = TopicPartition("words", 0)
Stored = tuple[OffsetSync, Headers]


def transactions(lengths: list[int], whole: set[int], first: tuple[int, int] = (0, 0), most: int = 256) -> list[Stored]:
    """Return the syncs of transactions with so many records each, whose markers take an offset of the target.

    Those with numbers in `whole` have the runs before them, too.
    """
    up, down = first
    known = OffsetMap(most)
    stored: list[Stored] = []
    for number, length in enumerate(lengths):
        run = Run(up, down, length)
        up, down = run.ends
        sync = OffsetSync(TP, up - 1, down - 1)
        stored.append((sync, run_headers(sync, [run], known.runs if number in whole else ())))
        known.add(run)
        down += 1
    return stored


def exactly(lengths: list[int]) -> list[int]:
    """Return where each record is in the target."""
    return [sum(lengths[:number]) + n + number for number, length in enumerate(lengths) for n in range(length)]


def translations(stored: list[Stored], count: int) -> list[int | None]:
    found = recalled(stored)[TP]
    return [found.translate(position) for position in range(count)]


LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=30)


@given(LENGTHS, st.sets(st.integers(0, 29)), st.data())
def test_what_compaction_leaves_with_the_newest_whole_sync_is_exact(
    lengths: list[int], whole: set[int], data: st.DataObject
) -> None:
    stored = transactions(lengths, whole | {len(lengths) - 1})
    left = data.draw(st.sets(st.integers(0, len(lengths) - 1)))
    stored = [each for number, each in enumerate(stored) if number in left or number == len(lengths) - 1]
    assert translations(stored, sum(lengths)) == exactly(lengths)


@given(LENGTHS, st.sets(st.integers(0, 29)), st.data())
def test_whatever_is_left_skips_no_record(lengths: list[int], whole: set[int], data: st.DataObject) -> None:
    stored = transactions(lengths, whole, most=4)
    left = data.draw(st.sets(st.integers(0, len(lengths) - 1), min_size=1))
    found = translations([each for number, each in enumerate(stored) if number in left], sum(lengths))
    for translated, right in zip(found, exactly(lengths), strict=True):
        assert translated is None or translated <= right


def test_a_sync_that_only_says_what_was_before() -> None:
    """As one is written when no record has come since the last one."""
    lengths = [3, 1, 2]
    (last, _) = transactions(lengths, set())[-1]
    stored: list[Stored] = [(last, run_headers(last, (), [Run(0, 0, 3), Run(3, 4, 1), Run(4, 6, 2)]))]
    assert translations(stored, 6) == exactly(lengths)
    assert translations([*transactions(lengths, set()), *stored], 6) == exactly(lengths)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_source_that_began_anew_is_not_mixed_with_what_was(lost: int) -> None:
    """Also if compaction has taken the sync that shows where it begins."""
    old = transactions([50, 60, 70], {0, 1, 2})
    new = transactions([100, 90, 10], {1, 2}, (0, 1000))
    found = recalled([*old, *new[lost:]])[TP]
    first = (1000, 1000, 1000)[lost]
    assert found.translate(0) == first
    assert found.translate(195) == 1000 + 195 + 2
    assert found.translate(110) == 1000 + 110 + 1


def test_bytes_that_are_no_runs_leave_the_pair(caplog: pytest.LogCaptureFixture) -> None:
    sync = OffsetSync(TP, 9, 4)
    found = recalled([(sync, [(OWN, b"\x00\x08"), (BEFORE, b"\x00")])])[TP]
    assert list(found.runs) == [Run(9, 4, 1)]
    assert len(caplog.records) == 2
