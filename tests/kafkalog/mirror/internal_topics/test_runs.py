"""Test the headers of offset syncs that say of more records where they are."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.formats import FormatError, OffsetSync
from kafkalog.mirror.internal_topics.runs import (
    BEFORE,
    MOST_RUNS_STORED,
    OWN,
    Run,
    own_runs,
    run_headers,
    runs_before,
)

TP = TopicPartition("words", 0)
STEPS = st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40))


def runs_of(steps: list[tuple[int, int, int]]) -> list[Run]:
    """Return runs that have these gaps before them, and these lengths."""
    up = down = 0
    runs = []
    for up_gap, down_gap, length in steps:
        runs.append(Run(up + up_gap, down + down_gap, length))
        up, down = runs[-1].ends
    return runs


def sync_after(runs: list[Run]) -> OffsetSync:
    up, down = runs[-1].ends
    return OffsetSync(TP, up - 1, down - 1)


@given(st.lists(STEPS, min_size=1, max_size=20), st.integers(0, 19))
def test_runs_come_back(steps: list[tuple[int, int, int]], count: int) -> None:
    runs = runs_of(steps)
    before, own = runs[:count], runs[count:]
    sync = sync_after(runs)
    headers = run_headers(sync, own, before)
    assert own_runs(sync, headers) == tuple(own)
    assert runs_before(sync, headers) == (tuple(before) or None)


def test_what_the_header_of_usual_transactions_takes() -> None:
    """Each has ten records of a partition of which others come between, and a marker."""
    runs = runs_of([(3, 1, 10)] * MOST_RUNS_STORED)
    sizes = [len(value) for _, value in run_headers(sync_after(runs), runs[-1:], runs[:-1])]
    assert sizes == [5, 3 + 3 * (MOST_RUNS_STORED - 1)]


def test_a_pair_without_headers_is_one_record() -> None:
    sync = OffsetSync(TP, 7, 5)
    assert own_runs(sync, ()) == (Run(7, 5, 1),)
    assert runs_before(sync, ()) is None


def test_a_later_version_leaves_the_pair() -> None:
    sync = OffsetSync(TP, 7, 5)
    headers = [(name, b"\x01whatever") for name in (OWN, BEFORE)]
    assert own_runs(sync, headers) == (Run(7, 5, 1),)
    assert runs_before(sync, headers) is None


@given(st.binary(max_size=60), st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_other_bytes_are_refused(data: bytes, up: int, down: int) -> None:
    sync = OffsetSync(TP, up, down)
    with contextlib.suppress(FormatError):
        runs = own_runs(sync, [(OWN, b"\x00" + data)])
        assert all(min(run) >= 0 for run in runs)
        assert all(one.ends <= two[:2] and one.ends[1] <= two.downstream for one, two in pairwise(runs))
        assert all(end <= at + 1 for end, at in zip(runs[-1].ends if runs else (0, 0), sync[1:], strict=True))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("00", "cut off"),
        ("00 04 00 00 02", "2 runs in 3 bytes"),
        ("00 ff ff ff ff ff ff ff ff ff 01", "runs in 0 bytes"),
        ("00 02 00 00 01", "a run of -1 records"),
        ("00 02 01 00 02", "-1 and 0 before"),
        ("00 02 00 00 12", "at the offsets -1 and"),
        ("00 02 00 00 02 00", "1 bytes after"),
        ("00 00 00", "1 bytes after"),
        ("00 02 00 00 ff", "cut off"),
    ],
)
def test_lengths_are_compared_with_what_is_there(data: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        own_runs(OffsetSync(TP, 7, 7), [(OWN, bytes.fromhex(data))])


def test_more_runs_than_a_header_may_have_are_refused() -> None:
    runs = runs_of([(1, 1, 1)] * (MOST_RUNS_STORED + 1))
    sync = sync_after(runs)
    with pytest.raises(FormatError, match="257 runs"):
        own_runs(sync, run_headers(sync, runs))
