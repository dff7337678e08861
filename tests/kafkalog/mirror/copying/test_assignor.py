"""Test how work is divided among processes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.consumer.classic.protocol import Subscription
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.assignor import divide, task_assignor, task_of

TOPICS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9))


@given(TOPICS, st.integers(1, 5), st.integers(1, 8))
def test_each_partition_has_one_owner_and_so_has_each_task(topics: dict[str, int], members: int, tasks: int) -> None:
    partitions = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
    given_to = divide(partitions, [f"m{number}" for number in range(members)], tasks)
    assert sorted(tp for each in given_to.values() for tp in each) == sorted(partitions)
    owners: dict[int, set[str]] = {}
    for member, each in given_to.items():
        for tp in each:
            owners.setdefault(task_of(tp, tasks), set()).add(member)
    assert all(len(found) == 1 for found in owners.values())


def test_the_partitions_of_a_topic_are_in_different_tasks() -> None:
    assert len({task_of(TopicPartition("words", number), 8) for number in range(8)}) == 8


def test_a_new_partition_leaves_the_others_in_their_tasks() -> None:
    assert task_of(TopicPartition("words", 3), 8) == task_of(TopicPartition("words", 3), 8)
    assert (task_of(TopicPartition("words", 4), 8) - task_of(TopicPartition("words", 3), 8)) % 8 == 1


def test_both_members_work() -> None:
    given_to = divide([TopicPartition("words", number) for number in range(6)], ["a", "b"], 8)
    assert sorted(map(len, given_to.values())) == [3, 3]


def test_members_with_another_number_of_tasks_are_told_apart() -> None:
    assert task_assignor(8).name != task_assignor(4).name
    members = {"m": Subscription(("words",)), "n": Subscription(("words", "gone"))}
    found = task_assignor(2).assign({"words": [frozenset()] * 2}, members)
    assert sorted(map(len, found.values())) == [1, 1]
