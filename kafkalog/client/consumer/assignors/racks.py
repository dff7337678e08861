"""Racks of members and of partitions' replicas, for the sticky assignors (KIP-881)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkalog.client.consumer.assignors.base import Layout, Racks, rack_aware
from kafkalog.client.consumer.classic.protocol import Subscription
from kafkalog.client.types import TopicPartition


@dataclass(frozen=True)
class RackInfo:
    """Racks (empty where they do not matter), and how many members each partition has on its racks."""

    members: Mapping[str, str]
    partitions: Mapping[TopicPartition, Racks]
    neighbours: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, layout: Layout, members: Mapping[str, Subscription]) -> RackInfo:
        """Collect the racks of the members that have one."""
        of_members = {member: rack for member in members if (rack := members[member].rack_id)}
        if not of_members:
            return cls({}, {}, {})
        of_partitions = {
            TopicPartition(topic, number): racks
            for topic, partitions in layout.items()
            for number, racks in enumerate(partitions)
        }
        counts: dict[str, int] = {}
        for rack in of_members.values():
            counts[rack] = counts.get(rack, 0) + 1
        neighbours = {tp: sum(counts.get(rack, 0) for rack in racks) for tp, racks in of_partitions.items()}
        if not rack_aware(of_members.values(), of_partitions):
            return cls({}, {}, neighbours)
        return cls(of_members, of_partitions, neighbours)

    def mismatch(self, member: str, tp: TopicPartition) -> bool:
        """Tell whether the member is on a rack without a replica of the partition."""
        rack = self.members.get(member)
        return rack is not None and rack not in self.partitions.get(tp, ())

    def fewest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort the partitions: those with the fewest members on their racks first."""
        if not self.neighbours:
            return partitions
        return sorted(partitions, key=lambda tp: self.neighbours.get(tp, 0))

    def next_member(self, tp: TopicPartition, members: Sequence[str], first: int) -> int:
        """Return the index of the next member (circularly, from `first`) on a rack of the partition; or -1."""
        racks = self.partitions.get(tp)
        if racks:
            for at in range(len(members)):
                index = (first + at) % len(members)
                if self.members.get(members[index]) in racks:
                    return index
        return -1


def without(every: Sequence[TopicPartition], some: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the elements of `every` that are not in `some`; both are in the same order.

    Kafka compares the heads of the two lists, so an element that is not in `every` ends the comparison. This does the
    same, to decide alike when a topic has lost partitions.
    """
    left = []
    at = 0
    for tp in every:
        if at < len(some) and some[at] == tp:
            at += 1
        else:
            left.append(tp)
    return left
