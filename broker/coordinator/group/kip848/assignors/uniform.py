"""The assignor `uniform`, the default: as even as possible, and then with as few moves as possible.

Balance goes before stickiness, as in Kafka's `UniformAssignor`. If all members subscribe to the same topics, their
numbers of partitions differ by one at most. If they do not, no partition could go to a subscriber that would then still
have fewer than its present owner had.
"""

from __future__ import annotations

import heapq
import sys
from uuid import UUID

from broker.coordinator.group.kip848.assignors.spec import GroupSpec, Partition, grouped, partitions_of
from broker.coordinator.group.kip848.model import Assignment


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Assign partitions evenly.

    Raises:
        AssignorError: a member is subscribed to a topic that does not exist.
    """
    if not group.members:
        return {}
    owned, unassigned = _still_owned(group)
    if group.is_homogeneous:
        _spread_evenly(owned, unassigned)
    else:
        _Balance(group, owned).spread(unassigned)
    result: dict[str, Assignment] = {}
    for member_id, partitions in owned.items():
        topics: dict[UUID, set[int]] = {}
        for topic_id, partition in partitions:
            topics.setdefault(topic_id, set()).add(partition)
        result[member_id] = grouped(topics)
    return result


def _still_owned(group: GroupSpec) -> tuple[dict[str, list[Partition]], list[Partition]]:
    """Return what each member may keep of its target, and the unassigned partitions; both in a fixed order."""
    topics = sorted(frozenset[UUID]().union(*{member.topics for member in group.members.values()}))
    free = {(topic_id, partition): None for topic_id in topics for partition in range(group.count(topic_id))}
    owned: dict[str, list[Partition]] = {}
    for member_id in sorted(group.members):
        member = group.members[member_id]
        kept = []
        for partition in partitions_of(member.assigned):
            # Drop partitions that two members would keep, and partitions that the topic no longer has.
            if partition[0] in member.topics and partition in free:
                del free[partition]
                kept.append(partition)
        owned[member_id] = kept
    return owned, list(free)


def _spread_evenly(owned: dict[str, list[Partition]], unassigned: list[Partition]) -> None:
    total = len(unassigned) + sum(map(len, owned.values()))
    least, extra = divmod(total, len(owned))
    quotas = dict.fromkeys(owned, least)
    # A member that has one partition more than the others is the first to be allowed one more.
    for member_id in sorted(owned, key=lambda member_id: len(owned[member_id]) <= least)[:extra]:
        quotas[member_id] += 1
    for member_id, partitions in owned.items():
        unassigned += partitions[quotas[member_id] :]
        del partitions[quotas[member_id] :]
    rest = iter(unassigned)
    for member_id, partitions in owned.items():
        for _ in range(quotas[member_id] - len(partitions)):
            partitions.append(next(rest))


class _Balance:
    """The members' loads while partitions are handed out among different subscriptions."""

    def __init__(self, group: GroupSpec, owned: dict[str, list[Partition]]) -> None:
        self._owned = {member_id: dict.fromkeys(partitions) for member_id, partitions in owned.items()}
        self._lists = owned
        self._owner = {partition: member_id for member_id, some in owned.items() for partition in some}
        self._subscribers: dict[UUID, list[str]] = {}
        for member_id in sorted(group.members):
            for topic_id in group.members[member_id].topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
        self._group = group
        self._heaps: dict[frozenset[UUID], list[tuple[int, str]]] = {}
        """Heaps per subscription, of its members by load; an entry with an outdated load is dropped when it is met.
        With heaps per topic, every partition would change as many heaps as a member has topics."""
        for member_id, member in group.members.items():
            self._heaps.setdefault(member.topics, []).append((len(owned[member_id]), member_id))
        self._of_topic: dict[UUID, list[list[tuple[int, str]]]] = {}
        for topics, heap in self._heaps.items():
            heapq.heapify(heap)
            for topic_id in topics:
                self._of_topic.setdefault(topic_id, []).append(heap)

    def spread(self, unassigned: list[Partition]) -> None:
        """Give every partition an owner and level the loads."""
        lightest: dict[UUID, list[tuple[int, str, int]]] = {}
        for partition in sorted(unassigned, key=self._order):
            self._give(partition, self._least_loaded_so_far(partition[0], lightest))
        movable = [
            (topic_id, partition)
            for topic_id, members in self._subscribers.items()
            if len(members) > 1
            for partition in range(self._group.count(topic_id))
        ]
        movable.sort(key=self._order)
        # The loop ends, because every move makes the sum of the squared loads smaller.
        while self._level(movable):
            pass
        for member_id, partitions in self._lists.items():
            partitions[:] = self._owned[member_id]

    def _level(self, movable: list[Partition]) -> bool:
        """Move each partition once that has a lighter subscriber; return whether there was one."""
        moved = False
        # Most partitions stay. A subscriber is as light as the lightest one was, or has lost a partition since.
        least: dict[UUID, int] = {}
        least_owner = sys.maxsize
        for partition in movable:
            topic_id, owner = partition[0], self._owner[partition]
            if topic_id in least and self._load(owner) <= min(least[topic_id], least_owner) + 1:
                continue
            lightest = self._least_loaded(topic_id)
            least[topic_id] = self._load(lightest)
            if self._load(owner) > self._load(lightest) + 1:
                del self._owned[owner][partition]
                self._note(owner)
                least_owner = min(least_owner, self._load(owner))
                self._give(partition, lightest)
                moved = True
        return moved

    def _order(self, partition: Partition) -> tuple[float, int, int, UUID]:
        """Sort the topics: first those with many partitions for each subscriber, then those with few subscribers."""
        topic_id, number = partition
        subscribers = len(self._subscribers[topic_id])
        return -self._group.count(topic_id) / subscribers, subscribers, number, topic_id

    def _load(self, member_id: str) -> int:
        return len(self._owned[member_id])

    def _least_loaded(self, topic_id: UUID) -> str:
        """Return the lightest subscriber of a topic; the one with the least id, if several are."""
        return min(map(self._top, self._of_topic[topic_id]))[1]

    def _least_loaded_so_far(self, topic_id: UUID, lightest: dict[UUID, list[tuple[int, str, int]]]) -> str:
        """Return what `_least_loaded` returns, while loads only grow; it does not look at each subscription.

        Args:
            lightest: kept by the caller: by topic, a heap of the load and id of the lightest member of each
                subscription, with the subscription's number.
        """
        heaps = self._of_topic[topic_id]
        found = lightest.get(topic_id)
        if found is None:
            found = lightest[topic_id] = [(*self._top(heap), number) for number, heap in enumerate(heaps)]
            heapq.heapify(found)
        while (top := self._top(heaps[found[0][2]])) != found[0][:2]:
            heapq.heapreplace(found, (*top, found[0][2]))
        return found[0][1]

    def _top(self, heap: list[tuple[int, str]]) -> tuple[int, str]:
        """Return the lightest member of a subscription, with its load."""
        while heap[0][0] != self._load(heap[0][1]):
            heapq.heappop(heap)
        return heap[0]

    def _give(self, partition: Partition, member_id: str) -> None:
        self._owned[member_id][partition] = None
        self._owner[partition] = member_id
        self._note(member_id)

    def _note(self, member_id: str) -> None:
        heapq.heappush(self._heaps[self._group.members[member_id].topics], (self._load(member_id), member_id))
