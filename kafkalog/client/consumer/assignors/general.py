"""The sticky assignment where members want different topics.

Members keep what they own and still want. Each other partition goes to the member with the fewest partitions that wants
it. Then partitions move from members with more to members with fewer, until no move improves the balance; a partition
that moved in an earlier generation moves back, if that helps as much. The result counts only if it is better than
before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from kafkalog.client.consumer.assignors.base import Layout
from kafkalog.client.consumer.assignors.java_order import JavaMap, java_key
from kafkalog.client.consumer.assignors.racks import RackInfo, without
from kafkalog.client.consumer.classic.protocol import Subscription
from kafkalog.client.types import TopicPartition


def assign_general(
    layout: Layout,
    racks: RackInfo,
    owned: Mapping[str, list[TopicPartition]],
    members: Mapping[str, Subscription],
    before: Mapping[TopicPartition, str],
) -> dict[str, list[TopicPartition]]:
    """Assign. `members` are in the order of a HashMap; `before` has the owners of earlier generations."""
    return _General(layout, racks, owned, members, before).build()


class _Movements:
    """The moves of partitions between members, so that no partition moves one way while another moves back."""

    def __init__(self) -> None:
        self._pairs: dict[str, dict[tuple[str, str], JavaMap[TopicPartition, None]]] = {}
        self._moved: dict[TopicPartition, tuple[str, str]] = {}

    def move(self, tp: TopicPartition, source: str, target: str) -> None:
        """Note that `tp` has moved."""
        pair = self._moved.pop(tp, None)
        if pair is None:
            self._add(tp, (source, target))
            return
        pairs = self._pairs[tp.topic]
        del pairs[pair][tp]
        if not pairs[pair]:
            del pairs[pair]
        if pair[0] != target:
            self._add(tp, (pair[0], target))

    def _add(self, tp: TopicPartition, pair: tuple[str, str]) -> None:
        self._moved[tp] = pair
        self._pairs.setdefault(tp.topic, {}).setdefault(pair, JavaMap())[tp] = None

    def instead(self, tp: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return what to move in place of `tp`: a partition of its topic that moved the other way, or `tp`."""
        if tp in self._moved:
            source = self._moved[tp][0]
        back = self._pairs.get(tp.topic, {}).get((target, source))
        return back.order()[0] if back else tp


class _General:
    def __init__(
        self,
        layout: Layout,
        racks: RackInfo,
        owned: Mapping[str, list[TopicPartition]],
        members: Mapping[str, Subscription],
        before: Mapping[TopicPartition, str],
    ) -> None:
        self._layout, self._racks, self._before = layout, racks, before
        self._topics = {member: [topic for topic in members[member].topics if topic in layout] for member in members}
        self._wanting: dict[str, list[str]] = {topic: [] for topic in layout}
        for member, topics in self._topics.items():
            for topic in topics:
                self._wanting[topic].append(member)
        self._total = sum(map(len, layout.values()))
        self._current = {member: list(owned[member]) for member in members}
        self._owner = {tp: member for member, partitions in self._current.items() for tp in partitions}
        self._every = [
            TopicPartition(topic, number)
            for topic in sorted(layout, key=self._topic_key)
            for number in range(len(layout[topic]))
        ]
        self._line: list[tuple[int, bytes, str]] = []
        """Members with the fewest partitions first."""
        self._movements = _Movements()

    def _topic_key(self, topic: str) -> tuple[int, bytes]:
        return len(self._wanting[topic]), java_key(topic)

    def _key(self, member: str) -> tuple[int, bytes, str]:
        return len(self._current[member]), java_key(member), member

    def _leave_line(self, member: str) -> None:
        del self._line[bisect_left(self._line, self._key(member))]

    def build(self) -> dict[str, list[TopicPartition]]:
        kept, revoking = self._keep_owned()
        kept.sort(key=lambda tp: (*self._topic_key(tp.topic), tp.partition))
        left = without(self._every, kept)
        self._line = sorted(map(self._key, self._current))
        initial = not self._current[self._line[-1][2]]
        self._share_out(left)
        fixed_topics = {topic for topic, wanting in self._wanting.items() if len(wanting) < 2}
        movable = [tp for tp in self._every if tp.topic not in fixed_topics]
        fixed = {member: self._current[member] for member in self._topics if not self._can_change(member, fixed_topics)}
        for member in fixed:
            self._leave_line(member)
            del self._current[member]
        saved = {member: list(partitions) for member, partitions in self._current.items()}
        if not revoking:
            self._rebalance([tp for tp in left if tp.topic not in fixed_topics])
        changed = self._rebalance(movable)
        if not initial and changed and _score(self._current) >= _score(saved):
            self._current = saved
        return {**self._current, **fixed}

    def _keep_owned(self) -> tuple[list[TopicPartition], bool]:
        """Drop partitions that are gone or unwanted; return what is kept, and whether a member has lost a partition."""
        kept: list[TopicPartition] = []
        revoking = False
        for member, partitions in self._current.items():
            mine = []
            for tp in partitions:
                if tp.topic not in self._topics[member] or self._racks.mismatch(member, tp):
                    revoking = True
                else:
                    mine.append(tp)
            self._current[member] = mine
            kept += mine
        return kept, revoking

    def _share_out(self, partitions: Sequence[TopicPartition]) -> None:
        left = list(partitions)
        if self._racks.members:
            left = [tp for tp in left if not self._wanting[tp.topic] or not self._assign(tp, racks=True)]
        for tp in left:
            self._assign(tp, racks=False)

    def _assign(self, tp: TopicPartition, *, racks: bool) -> bool:
        """Give the partition to the member with the fewest that wants it (with `racks`: on one of its racks)."""
        for _, _, member in self._line:
            if tp.topic in self._topics[member] and not (racks and self._racks.mismatch(member, tp)):
                self._leave_line(member)
                self._current[member].append(tp)
                self._owner[tp] = member
                insort(self._line, self._key(member))
                return True
        return False

    def _most(self, member: str) -> int:
        """Return how many partitions the member could have."""
        topics = self._topics[member]
        return self._total if len(topics) == len(self._layout) else sum(len(self._layout[topic]) for topic in topics)

    def _can_change(self, member: str, fixed_topics: set[str]) -> bool:
        partitions = self._current[member]
        return len(partitions) < self._most(member) or any(tp.topic not in fixed_topics for tp in partitions)

    def _balanced(self) -> bool:
        """Tell whether no member could get a partition from a member that has at least two more."""
        if self._line[0][0] >= self._line[-1][0] - 1:
            return True
        owner = {tp: member for member, partitions in self._current.items() for tp in partitions}
        for count, _, member in self._line:
            if count == self._most(member):
                continue
            for topic in self._topics[member]:
                for number in range(len(self._layout[topic])):
                    other = owner.get(TopicPartition(topic, number), member)
                    if other != member and count + 1 < len(self._current[other]):
                        return False
        return True

    def _rebalance(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until no move helps; return whether any has moved."""
        changed = False
        while True:
            modified = False
            for tp in partitions:
                if not self._line or self._balanced():
                    break
                modified |= self._improve(tp)
            if not modified:
                return changed
            changed = True

    def _improve(self, tp: TopicPartition) -> bool:
        """Move the partition if that improves the balance; return whether it did."""
        size = len(self._current[self._owner[tp]])
        earlier = self._before.get(tp)
        if earlier in self._current and size > len(self._current[earlier]) + 1:
            self._move(tp, earlier)
            return True
        if any(size > len(self._current[other]) + 1 for other in self._wanting[tp.topic]):
            target = next(member for _, _, member in self._line if tp.topic in self._topics[member])
            self._move(tp, target)
            return True
        return False

    def _move(self, tp: TopicPartition, target: str) -> None:
        tp = self._movements.instead(tp, self._owner[tp], target)
        source = self._owner[tp]
        self._leave_line(source)
        if target != source:
            self._leave_line(target)
        self._movements.move(tp, source, target)
        self._current[source].remove(tp)
        self._current[target].append(tp)
        self._owner[tp] = target
        insort(self._line, self._key(target))
        if target != source:
            insort(self._line, self._key(source))


def _score(assignment: Mapping[str, Sequence[TopicPartition]]) -> int:
    """Return the sum of the differences of all pairs: 0 for a balanced assignment."""
    sizes = sorted(map(len, assignment.values()))
    return sum(size * (2 * at - len(sizes) + 1) for at, size in enumerate(sizes))
