"""The round-robin assignor: all partitions of all topics, in turns to the members that want them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog.client.consumer.assignors.base import Assignor, Layout, member_order
from kafkalog.client.consumer.assignors.java_order import java_key
from kafkalog.client.consumer.classic.protocol import Subscription
from kafkalog.client.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Kafka's `roundrobin`."""

    name = "roundrobin"

    def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        assignment: dict[str, list[TopicPartition]] = {member: [] for member in members}

        ring = sorted(members, key=lambda member: member_order(member, members[member]))
        wanted = {member: frozenset(members[member].topics) for member in members}
        at = 0
        for topic in sorted(frozenset().union(*wanted.values()), key=java_key):
            for number in range(len(layout.get(topic, ()))):
                while topic not in wanted[ring[at]]:
                    at = (at + 1) % len(ring)
                assignment[ring[at]].append(TopicPartition(topic, number))
                at = (at + 1) % len(ring)
        return assignment
