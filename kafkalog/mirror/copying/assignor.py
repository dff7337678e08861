"""Divide the work of a mirror among its processes.

The unit is the task: all partitions of a task are written by one transactional producer, whose transactional id is the
task's. So whoever takes a task over fences the one who had it before, whatever that one still believes. The partitions
of a topic go to the tasks in turn; which task a partition belongs to depends on nothing else than its name and the
number of tasks. All members must have the same number of tasks, so it is part of the assignor's name: the group refuses
others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from kafkalog.client.consumer.assignors.base import Assignor, Layout, member_order
from kafkalog.client.consumer.classic.protocol import Subscription
from kafkalog.client.types import TopicPartition


def task_of(partition: TopicPartition, tasks: int) -> int:
    """Return the number of the task that mirrors a partition of the source."""
    return (crc32(partition.topic.encode()) + partition.partition) % tasks


def by_task(partitions: Iterable[TopicPartition], tasks: int) -> dict[int, list[TopicPartition]]:
    """Return the partitions of each task, in the order given."""
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        found[task_of(partition, tasks)].append(partition)
    return found


def divide(partitions: Sequence[TopicPartition], members: Sequence[str], tasks: int) -> dict[str, list[TopicPartition]]:
    """Give each task's partitions to one member: the largest tasks first, each to the member that has least."""
    given: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for _, wanted in sorted(by_task(sorted(partitions), tasks).items(), key=lambda each: (-len(each[1]), each[0])):
        least = min(members, key=lambda member: len(given[member]))
        given[least] += wanted
    return given


def task_assignor(tasks: int) -> Assignor:
    """Make the assignor of a mirror with so many tasks."""

    class TaskAssignor(Assignor):
        """Divide tasks."""

        name = f"kafkalog-mirror-{tasks}"

        def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
            wanted = frozenset().union(*(frozenset(each.topics) for each in members.values()))
            partitions = [
                TopicPartition(topic, number) for topic in wanted for number in range(len(layout.get(topic, ())))
            ]
            return divide(partitions, sorted(members, key=lambda each: member_order(each, members[each])), tasks)

    return TaskAssignor()
