"""The range assignor: consecutive partitions of each topic; the first members get one more where they cannot be equal.

With racks (KIP-881), partitions first go to members on a rack that holds them, as far as the same numbers allow. Topics
with the same number of partitions and the same members stay co-partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkalog.client.consumer.assignors.base import Assignor, Layout, Racks, member_order, rack_aware
from kafkalog.client.consumer.assignors.java_order import JavaMap, hash_set_order, java_key
from kafkalog.client.consumer.classic.protocol import Subscription
from kafkalog.client.types import TopicPartition


class RangeAssignor(Assignor):
    """Kafka's `range`."""

    name = "range"

    def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        assignment: dict[str, list[TopicPartition]] = {member: [] for member in members}
        topics = [_Topic(name, layout[name], members) for name in _topic_order(layout, members) if layout[name]]
        racks = any(topic.rack_aware for topic in topics)
        if racks:
            _match_racks(topics, assignment)
        for topic in topics:
            topic.assign_ranges(lambda member, tp: True, assignment)
        if racks:
            for partitions in assignment.values():
                partitions.sort(key=lambda tp: (java_key(tp.topic), tp.partition))
        return assignment


def _topic_order(layout: Layout, members: Mapping[str, Subscription]) -> list[str]:
    """Return topics in the order in which Kafka meets them: that of a HashMap filled in the order of a HashSet."""
    by_member: JavaMap[str, Subscription] = JavaMap()
    for member, subscription in members.items():
        by_member[member] = subscription
    wanted = hash_set_order(topic for member in by_member for topic in by_member[member].topics)
    return hash_set_order(topic for topic in wanted if topic in layout)


class _Topic:
    """The assigned partitions of a topic, and the members that want it."""

    def __init__(self, name: str, racks: Sequence[Racks], members: Mapping[str, Subscription]) -> None:
        self.name = name
        wanting = [(member, each) for member, each in members.items() if name in each.topics]
        wanting.sort(key=lambda pair: member_order(*pair))
        self.members = {member: each.rack_id or None for member, each in wanting}
        self.partitions = [TopicPartition(name, number) for number in range(len(racks))]
        self._unassigned = dict.fromkeys(self.partitions)
        self._counts = dict.fromkeys(self.members, 0)
        self._each, self._extra = divmod(len(racks), len(self.members)) if self.members else (0, 0)
        known = {rack for rack in self.members.values() if rack}
        self._racks = dict(zip(self.partitions, racks, strict=True)) if known else {}
        self.rack_aware = bool(known) and rack_aware(known, self._racks)

    @property
    def kind(self) -> tuple[tuple[tuple[str, str | None], ...], int]:
        """A value that is equal for topics that must be co-partitioned."""
        return tuple(sorted(self.members.items())), len(self._racks)

    def matches(self, member: str, tp: TopicPartition) -> bool:
        """Tell whether the member is on one of the partition's racks, or has no known rack."""
        rack = self.members[member]
        return rack is None or rack in self._racks.get(tp, ())

    def room(self, member: str) -> int:
        """Return how many more partitions the member may get."""
        return max(self._each + (self._extra > 0) - self._counts[member], 0)

    def give(
        self, member: str, partitions: Sequence[TopicPartition], assignment: Mapping[str, list[TopicPartition]]
    ) -> None:
        assignment[member].extend(partitions)
        self._counts[member] += len(partitions)
        if self._counts[member] > self._each:
            self._extra -= 1
        for tp in partitions:
            self._unassigned.pop(tp, None)

    def assign_ranges(
        self, may: Callable[[str, TopicPartition], bool], assignment: Mapping[str, list[TopicPartition]]
    ) -> None:
        """Give members as many of the unassigned partitions as they may have."""
        for member in self.members:
            given = [tp for tp in self._unassigned if may(member, tp)][: self.room(member)]
            if given:
                self.give(member, given, assignment)


def _match_racks(topics: list[_Topic], assignment: Mapping[str, list[TopicPartition]]) -> None:
    alike: dict[object, list[_Topic]] = {}
    for topic in topics:
        alike.setdefault(topic.kind, []).append(topic)
    for group in alike.values():
        if len(group) > 1:
            _match_together(group, assignment)
        elif group[0].rack_aware:
            group[0].assign_ranges(group[0].matches, assignment)


def _match_together(topics: list[_Topic], assignment: Mapping[str, list[TopicPartition]]) -> None:
    """Give equal numbers of all these topics to a member on a rack of all of them."""
    remaining = list(topics[0].members)
    for number in range(topics[0].kind[1]):
        for member in remaining:
            if all(t.matches(member, TopicPartition(t.name, number)) and t.room(member) > 0 for t in topics):
                break
        else:
            continue
        for topic in topics:
            topic.give(member, [TopicPartition(topic.name, number)], assignment)
        if not any(topic.room(member) > 0 for topic in topics):
            remaining.remove(member)
            if not remaining:
                break
