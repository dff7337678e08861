"""Test where logs of leaders and followers diverge: where a follower truncates, and what a leader answers a fetch."""

from __future__ import annotations

import pytest

from broker.replica.divergence import divergence, truncation
from kafkalog.protocol.errors import OffsetOutOfRangeError


def end_offset_for(epoch: int) -> tuple[int, int]:
    """The ends of epochs in a log of ten records in epochs 2 (from 0) and 4 (from 5)."""
    return (4, 10) if epoch == 4 else (2, 5) if epoch in (2, 3) else (-1, -1)


@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        ((-1, -1), (4, True)),
        ((-1, 7), (7, True)),
        ((-1, 99), (10, True)),
        ((3, 6), (5, False)),
        ((4, 9), (9, True)),
        ((4, 99), (10, True)),
        ((1, 2), (2, True)),
    ],
)
def test_truncation_points(answer: tuple[int, int], cut: tuple[int, bool]) -> None:
    """The high watermark of the log is 4."""
    assert truncation(*answer, 10, 4, end_offset_for) == cut


@pytest.mark.parametrize(
    ("fetched", "diverged"),
    [
        ((4, 10), None),
        ((4, 7), None),
        ((2, 5), None),
        ((4, 11), (4, 10)),
        ((2, 6), (2, 5)),
        ((3, 5), (2, 5)),
    ],
)
def test_what_a_leader_answers_a_follower(fetched: tuple[int, int], diverged: tuple[int, int] | None) -> None:
    assert divergence(*fetched, 0, end_offset_for) == diverged


@pytest.mark.parametrize(("fetched", "start"), [((1, 3), 0), ((5, 10), 0), ((2, 3), 4)])
def test_a_follower_out_of_range_has_to_begin_anew(fetched: tuple[int, int], start: int) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        divergence(*fetched, start, end_offset_for)
