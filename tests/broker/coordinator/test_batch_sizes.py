"""Test how records are divided among batches."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.batch_sizes import RECORD_BYTES, fitting

HEADER = 2 * RECORD_BYTES


def test_a_batch_has_as_many_as_fit() -> None:
    assert list(fitting([3, 4, 3, 8, 1], int, HEADER + 10, 9)) == [[3, 4, 3], [8, 1]]
    assert list(fitting([1] * 5, int, HEADER + 10, 2)) == [[1, 1], [1, 1], [1]]
    assert list(fitting([], int, HEADER + 10, 2)) == []


def test_one_that_is_too_large_is_alone() -> None:
    assert list(fitting([1, 99, 1], int, HEADER + 10, 9)) == [[1], [99], [1]]
    assert list(fitting([1, 1], int, 0, 9)) == [[1], [1]]


@given(st.lists(st.integers(1, 20)), st.integers(0, 40), st.integers(1, 5))
def test_all_come_in_order_and_no_two_neighbours_would_fit_together(
    sizes: list[int], most_bytes: int, most: int
) -> None:
    batches = list(fitting(sizes, int, HEADER + most_bytes, most))
    assert [size for batch in batches for size in batch] == sizes
    for batch in batches:
        assert len(batch) == 1 or (len(batch) <= most and sum(batch) <= most_bytes)
    for batch, following in pairwise(batches):
        assert len(batch) == most or sum(batch) + following[0] > most_bytes
