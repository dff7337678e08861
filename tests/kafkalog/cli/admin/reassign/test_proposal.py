"""Test that proposals are complete and even, use racks, and move little."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.cli.admin.reassign.proposal import proposed
from kafkalog.client.types import TopicPartition


def partitions(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", index): each for index, each in enumerate(replicas)}


def test_nothing_moves_where_all_is_even() -> None:
    current = partitions((1, 2), (2, 3), (3, 1))
    assert proposed(current, [1, 2, 3], {}) == current


def test_a_broker_that_goes_gives_its_replicas_away_and_a_new_one_gets_its_share() -> None:
    current = partitions((1, 2), (2, 1), (1, 2), (2, 1))
    gone = proposed(current, [2, 3], {})
    assert all(set(replicas) == {2, 3} for replicas in gone.values())
    assert Counter(replicas[0] for replicas in gone.values()) == {2: 2, 3: 2}
    grown = proposed(current, [1, 2, 3, 4], {})
    assert Counter(broker for replicas in grown.values() for broker in replicas) == dict.fromkeys([1, 2, 3, 4], 2)
    moved = sum(len(set(grown[tp]) - set(current[tp])) for tp in current)
    assert moved == 4, "only the new brokers' shares move"


def test_racks_are_spread_unless_they_are_disregarded() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    placed = proposed(partitions((5, 6), (5, 6)), [1, 2, 3, 4], racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in placed.values())


def test_too_few_brokers() -> None:
    with pytest.raises(ValueError, match="t-0 has 3 replicas, more than the 2 brokers"):
        proposed(partitions((1, 2, 3)), [1, 2], {})


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=2, max_size=2, unique=True).map(tuple), min_size=1, max_size=30),
    st.lists(st.integers(1, 9), min_size=2, max_size=9, unique=True),
    st.booleans(),
)
def test_every_proposal_is_complete_and_even(
    current: list[tuple[int, ...]], brokers: list[int], with_racks: bool
) -> None:
    racks = {broker: str(broker % 3) for broker in brokers} if with_racks else {}
    placed = proposed(partitions(*current), brokers, racks)
    assert len(placed) == len(current)
    for replicas in placed.values():
        assert len(set(replicas)) == len(replicas) == 2
        assert set(replicas) <= set(brokers)
    if not with_racks:
        load = Counter(broker for replicas in placed.values() for broker in replicas)
        assert max(load.values()) <= -(-2 * len(current) // len(brokers)) + 1
