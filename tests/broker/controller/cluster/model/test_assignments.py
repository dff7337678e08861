"""Assignments while a partition is reassigned; the cases of Kafka's `ReplicaAssignmentTest` and properties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.controller.cluster.model.assignments import is_being_reassigned, origin, reassign_to, target, without
from broker.metadata.znodes.topics import Assignment
from tests.support.amount import examples

replicas = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True).map(tuple)


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (Assignment((0, 1, 2)), (3, 4, 5), Assignment((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2))),
        (Assignment((0, 1, 2)), (0, 1, 2), Assignment((0, 1, 2))),
        (Assignment((0, 1, 2)), (2, 1, 0), Assignment((2, 1, 0))),
        (Assignment((0, 1, 2)), (0, 1), Assignment((0, 1, 2), (), (2,))),
        (Assignment((0, 1)), (0, 1, 2), Assignment((0, 1, 2), (2,))),
        (Assignment((3, 0, 1), (3,), (1,)), (0, 4), Assignment((0, 4, 1), (4,), (1,))),
        (Assignment((3, 0, 1), (3,), (1,)), (0, 1), Assignment((0, 1))),
    ],
)
def test_a_reassignment_begins_from_the_origin(before: Assignment, wanted: tuple[int, ...], after: Assignment) -> None:
    assert reassign_to(before, wanted) == after


@given(replicas, replicas, replicas)
@settings(max_examples=examples(300))
def test_origin_and_target_follow_from_the_assignment(
    first: tuple[int, ...], second: tuple[int, ...], third: tuple[int, ...]
) -> None:
    begun = reassign_to(Assignment(first), second)
    assert target(begun) == second
    assert set(origin(begun)) == set(first)
    assert is_being_reassigned(begun) == (set(first) != set(second))
    replaced = reassign_to(begun, third)
    assert target(replaced) == third
    assert set(origin(replaced)) == set(first)
    assert not is_being_reassigned(reassign_to(replaced, origin(replaced)))


def test_a_replica_is_taken_out_of_all_lists() -> None:
    assert without(Assignment((3, 0, 1), (3,), (1,)), 3) == Assignment((0, 1), (), (1,))
    assert without(Assignment((3, 0, 1), (3,), (1,)), 1) == Assignment((3, 0), (3,))
