"""Owners of partitions, as Kafka 0.8.2's `PartitionAssignor` chooses them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.connector.assignment import (
    STRATEGIES,
    Assign,
    AssignmentError,
    GroupView,
    range_assignment,
    roundrobin_assignment,
)
from kafkalog.client.connector.subscription import ThreadId, in_order, threads_of
from kafkalog.client.types import TopicPartition


def views(members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, int]) -> list[GroupView]:
    """Return what each member reads; `members` have numbers of streams by topic."""
    threads: dict[str, list[ThreadId]] = {}
    for name, counts in members.items():
        for topic, found in threads_of(name, counts).items():
            threads.setdefault(topic, []).extend(found)
    ordered = {topic: in_order(found) for topic, found in threads.items()}
    return [
        GroupView(
            name,
            threads_of(name, counts),
            ordered,
            {topic: list(range(partitions.get(topic, 0))) for topic in counts},
        )
        for name, counts in members.items()
    ]


def assigned(assign: Assign, members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, int]) -> dict[str, str]:
    return {str(tp): str(thread) for view in views(members, partitions) for tp, thread in assign(view).items()}


def test_range_is_that_of_kafkas_documentation() -> None:
    found = assigned(range_assignment, {"C1": {"t": 2}, "C2": {"t": 2}}, {"t": 5})
    assert found == {"t-0": "C1-0", "t-1": "C1-0", "t-2": "C1-1", "t-3": "C2-0", "t-4": "C2-1"}


def test_streams_are_in_the_order_of_their_names() -> None:
    # As strings, g_a-10 is before g_a-2.
    found = assigned(range_assignment, {"g_a": {"t": 11}}, {"t": 3})
    assert found == {"t-0": "g_a-0", "t-1": "g_a-1", "t-2": "g_a-10"}


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    assert assigned(range_assignment, {"a": {"t": 1}}, {}) == {}


def test_a_view_without_the_member_itself_is_refused() -> None:
    (view,) = views({"a": {"t": 1}}, {"t": 1})
    with pytest.raises(AssignmentError, match="a is not registered for topic t"):
        range_assignment(view._replace(threads={}))


def test_roundrobin_deals_in_the_order_of_javas_hash_codes() -> None:
    # "[t,0]".hashCode() is 87540032 and grows by 31 with the partition; that of "[s,0]" is 87510241.
    found = assigned(roundrobin_assignment, {"a": {"t": 1, "s": 1}, "b": {"t": 1, "s": 1}}, {"t": 3, "s": 2})
    assert found == {"s-0": "a-0", "s-1": "b-0", "t-0": "a-0", "t-1": "b-0", "t-2": "a-0"}


@pytest.mark.parametrize("other", [{"t": 1}, {"t": 2, "s": 1}])
def test_roundrobin_needs_members_that_are_alike(other: dict[str, int]) -> None:
    for view in views({"a": {"t": 1, "s": 1}, "b": other}, {"t": 3, "s": 2}):
        with pytest.raises(AssignmentError, match="read the same topics"):
            roundrobin_assignment(view)


names = st.text("ab-_1", min_size=1, max_size=6)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    members=st.sets(names, min_size=1, max_size=5),
    topics=st.dictionaries(st.sampled_from("xyz"), st.tuples(st.integers(1, 3), st.integers(0, 12)), min_size=1),
)
def test_each_partition_has_one_owner_and_shares_are_even(
    strategy: str, members: set[str], topics: dict[str, tuple[int, int]]
) -> None:
    if strategy == "roundrobin":
        topics = {topic: (1, partitions) for topic, (_, partitions) in topics.items()}
    counts = {topic: streams for topic, (streams, _) in topics.items()}
    partitions = {topic: number for topic, (_, number) in topics.items()}
    found = [STRATEGIES[strategy](view) for view in views(dict.fromkeys(members, counts), partitions)]
    owned = [tp for decision in found for tp in decision]
    everything = {TopicPartition(topic, each) for topic, number in partitions.items() for each in range(number)}
    assert sorted(owned) == sorted(everything)
    for topic, number in partitions.items():
        shares: dict[ThreadId, int] = {}
        for decision in found:
            for tp, thread in decision.items():
                if tp.topic == topic or strategy == "roundrobin":
                    shares[thread] = shares.get(thread, 0) + 1
        streams = len(members) * counts[topic]
        total = number if strategy == "range" else sum(partitions.values())
        assert all(total // streams <= share <= -(-total // streams) for share in shares.values())
