"""Tests of which leader epochs of batches count where they contradict each other."""

from __future__ import annotations

import pytest

from broker.log.tools.checks.partition_check import growing_epochs
from broker.log.tools.checks.segment_check import EpochRun, SegmentReport


@pytest.mark.parametrize(
    ("runs", "kept"),
    [
        ([(0, 4), (3, 8), (1, 1)], [0, 3]),
        ([(0, 4), (3, 8), (1, 1), (4, 1)], [0, 3, 4]),
        ([(0, 4), (9, 1), (0, 2), (9, 1), (1, 2)], [0, 0, 1]),
        ([(5, 2), (1, 1), (2, 1), (3, 1)], [1, 2, 3]),
        ([(0, 1), (-1, 9), (3, 1), (1, 1)], [0, 3]),
        ([], []),
    ],
)  # fmt: skip
def test_the_epochs_of_the_most_batches_count(runs: list[tuple[int, int]], kept: list[int]) -> None:
    segment = SegmentReport(0, 0)
    segment.epochs = [EpochRun(epoch, 10 * at, batches) for at, (epoch, batches) in enumerate(runs)]
    assert [epoch for epoch, _ in growing_epochs([segment])] == kept
    pieces = [SegmentReport(run.first_offset, 0, epochs=[run]) for run in segment.epochs]
    assert growing_epochs(pieces) == growing_epochs([segment])
