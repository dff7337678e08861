"""The assignment of partitions to the streams of a group in ZooKeeper.

Each member computes this for itself, from what it has read of ZooKeeper. Members that have read the same come to
results that fit together, so each of them follows `PartitionAssignor` of Kafka 0.8.2 to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kafkalog.client.connector.subscription import ThreadId, in_order
from kafkalog.client.consumer.assignors.java_order import string_hash
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition


class GroupView(NamedTuple):
    """A member's view of its group and its topics, as it has read them."""

    consumer: str
    """The member itself."""
    mine: Mapping[str, Sequence[ThreadId]]
    """Its own streams by topic."""
    threads: Mapping[str, Sequence[ThreadId]]
    """The streams of all members by topic, in order."""
    partitions: Mapping[str, Sequence[int]]
    """The partitions of the member's own topics, in order."""


class AssignmentError(ClientError):
    """The members' subscriptions do not fit the strategy."""


Decision: TypeAlias = dict[TopicPartition, ThreadId]
"""The partitions of one member, each with the stream that owns it."""
Assign: TypeAlias = Callable[[GroupView], Decision]


def range_assignment(view: GroupView) -> Decision:
    """Give each stream of a topic a range of its partitions; the first streams get one more where they do not divide.

    Raises:
        AssignmentError: The view does not have the member itself.
    """
    found: Decision = {}
    for topic, mine in view.mine.items():
        threads, partitions = view.threads.get(topic, ()), view.partitions[topic]
        places = {thread: place for place, thread in enumerate(threads)}
        for thread in mine:
            if thread not in places:
                raise AssignmentError(f"member {view.consumer} is not registered for topic {topic}")
            share, more = divmod(len(partitions), len(threads))
            place = places[thread]
            first = share * place + min(place, more)
            for number in partitions[first : first + share + (place < more)]:
                found[TopicPartition(topic, number)] = thread
    return found


def roundrobin_assignment(view: GroupView) -> Decision:
    """Deal the partitions of all topics to the streams in turn.

    The partitions are dealt in the order of their hash codes in Java. Kafka leaves the order of equal hash codes to a
    hash table; here it is that of the topics' names.

    Raises:
        AssignmentError: The members do not all read the same topics with the same numbers of streams.
    """
    threads: list[ThreadId] = []
    for number, (topic, streams) in enumerate(sorted(view.threads.items())):
        if not number:
            threads = in_order(set(streams))
        elif set(streams) != set(threads):
            raise AssignmentError(
                "partition.assignment.strategy=roundrobin needs members that read the same topics with the same "
                f"numbers of streams; topic {topic} has other streams than {min(view.threads)}"
            )
    partitions = [TopicPartition(topic, each) for topic in sorted(view.partitions) for each in view.partitions[topic]]
    partitions.sort(key=_java_hash)
    return {
        tp: thread for tp, thread in zip(partitions, cycle(threads), strict=False) if thread.consumer == view.consumer
    }


def _java_hash(tp: TopicPartition) -> int:
    value = string_hash(f"[{tp.topic},{tp.partition}]")
    return value - (1 << 32) if value >> 31 else value


STRATEGIES: Mapping[str, Assign] = MappingProxyType({"range": range_assignment, "roundrobin": roundrobin_assignment})
"""The values of `partition.assignment.strategy`."""
