"""Tests of replica placement: complete partitions, spread leaders and load, refused mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.decisions.assignment import assign_replicas, check_manual
from broker.controller.decisions.reassignments import judge_reassignment
from broker.metadata.model import ClusterState
from kafkalog.protocol.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
)


@given(st.sets(st.integers(0, 1000), min_size=1, max_size=9), st.integers(1, 60), st.data())
def test_assignments_are_complete_and_even(brokers: set[int], partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, len(brokers) - 1))
    assignment = assign_replicas(sorted(brokers), partitions, factor, start)
    assert len(assignment) == partitions
    for replicas in assignment:
        assert len(set(replicas)) == factor
        assert set(replicas) <= brokers
    leaders = Counter(replicas[0] for replicas in assignment)
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in brokers) <= 1


@given(st.integers(1, 7), st.integers(1, 20), st.integers(1, 20))
def test_growing_goes_on_where_creating_ended(brokers: int, first: int, added: int) -> None:
    ids = list(range(brokers))
    whole = assign_replicas(ids, first + added, 1, 0)
    assert assign_replicas(ids, first, 1, 0) + assign_replicas(ids, added, 1, 0, first) == whole


def test_mistakes_are_named() -> None:
    with pytest.raises(InvalidPartitionsError):
        assign_replicas([1], 0, 1, 0)
    with pytest.raises(InvalidReplicationFactorError):
        assign_replicas([1], 1, 0, 0)
    with pytest.raises(InvalidReplicationFactorError, match="larger than available brokers: 2"):
        assign_replicas([1, 2], 1, 3, 0)


@pytest.mark.parametrize(
    "assignments", [{1: [0]}, {0: [0], 2: [0]}, {0: []}, {0: [0], 1: [0, 1]}, {0: [0, 0]}, {0: [7]}]
)
def test_bad_manual_assignments(assignments: dict[int, Sequence[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignmentError):
        check_manual(assignments, [0, 1])


@pytest.mark.parametrize("replicas", [range(7, 100_000), [0] * 100_000, [*range(2), -5, *range(7, 100_000)]])
def test_of_a_list_of_100_000_replicas_only_the_beginning_is_looked_at(replicas: Sequence[int]) -> None:
    """The beginning is enough for a refusal, because there are not so many brokers."""
    with pytest.raises(InvalidReplicaAssignmentError) as refused:
        check_manual({0: replicas}, [0, 1])
    refusal = judge_reassignment(ClusterState("c"), ("t", 0), replicas, [0, 1])
    assert isinstance(refusal, InvalidReplicaAssignmentError)
    assert max(len(str(refused.value)), len(str(refusal))) < 10_000


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    assert check_manual({1: [1, 0], 0: [0, 1]}, [0, 1]) == [(0, 1), (1, 0)]


def test_brokers_with_racks_are_assigned_as_by_kafka() -> None:
    """The example of Kafka's `AdminUtils`."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert assign_replicas(range(6), 7, 3, 0, racks=racks) == [
        (0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2),
    ]  # fmt: skip
    without = assign_replicas(range(6), 7, 3, 0)
    assert assign_replicas(range(6), 7, 3, 0, racks={**racks, 3: None}) == without
    assert assign_replicas(range(6), 7, 3, 0, racks=dict.fromkeys(range(6), "rack1")) == without


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=9), st.integers(1, 30), st.integers(0, 20), st.data())
def test_no_rack_has_a_second_replica_before_each_has_one(
    names: list[str], partitions: int, start: int, data: st.DataObject
) -> None:
    racks = dict(enumerate(names))
    factor = data.draw(st.integers(1, len(racks)))
    for replicas in assign_replicas(list(racks), partitions, factor, start, racks=racks):
        assert len(set(replicas)) == factor
        if len(set(names)) > 1:
            assert len({racks[replica] for replica in replicas}) == min(factor, len(set(names)))
