"""The sticky assignment where all members want the same topics.

Every member gets the minimum quota, or one partition more. Members keep what they own as far as that allows. The other
partitions go in turns to members below their quota: first, where racks matter, to members on the partition's racks,
then to any.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.client.consumer.assignors.base import Layout
from kafkalog.client.consumer.assignors.java_order import java_key
from kafkalog.client.consumer.assignors.racks import RackInfo, without
from kafkalog.client.types import TopicPartition


def assign_alike(
    layout: Layout,
    racks: RackInfo,
    owned: Mapping[str, list[TopicPartition]],
    contested: set[TopicPartition],
) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, str]]:
    """Assign; return the assignment, and the partitions that change hands with their new owners.

    `owned` is in the order of a HashMap. `contested` partitions are claimed by several members, and count as owned
    by none.
    """
    builder = _Constrained(layout, racks, owned, contested)
    builder.keep_owned()
    return builder.fill(), builder.moving


class _Constrained:
    def __init__(
        self,
        layout: Layout,
        racks: RackInfo,
        owned: Mapping[str, list[TopicPartition]],
        contested: set[TopicPartition],
    ) -> None:
        self._racks, self._owned, self._contested = racks, owned, contested
        self._every = [
            TopicPartition(topic, number)
            for topic in sorted(layout, key=java_key)
            for number in range(len(layout[topic]))
        ]
        self._least, self._richer = divmod(len(self._every), len(owned))
        """The minimum that a member gets, and how many members get one more."""
        self._most = self._least + (self._richer > 0)
        self._rich = 0
        self._under: list[str] = []
        """Members below the minimum."""
        self._exact: list[str] = []
        """Members with exactly the minimum, who may get one more."""
        self._released: dict[TopicPartition, str] = {}
        self._kept: list[TopicPartition] = []
        self._assignment: dict[str, list[TopicPartition]] = {member: [] for member in owned}
        self.moving: dict[TopicPartition, str] = {}

    def keep_owned(self) -> None:
        """Let members keep what they own, up to their quota."""
        for member in self._owned:
            mine = []
            for tp in self._owned[member]:
                if self._racks.mismatch(member, tp):
                    self._released[tp] = member
                else:
                    mine.append(tp)
            mine.sort(key=lambda tp: (tp.partition, java_key(tp.topic)))
            mine = [tp for tp in mine if tp not in self._contested]
            if len(mine) < self._least:
                self._keep(member, mine, len(mine))
                self._under.append(member)
            elif len(mine) >= self._most and self._rich < self._richer:
                self._one_more_rich()
                self._keep(member, mine, self._most)
            else:
                self._keep(member, mine, self._least)
                if self._rich < self._richer:
                    self._exact.append(member)

    def _keep(self, member: str, mine: list[TopicPartition], count: int) -> None:
        self._assignment[member] += mine[:count]
        self._kept += mine[:count]
        self._released.update(dict.fromkeys(mine[count:], member))

    def _one_more_rich(self) -> None:
        self._rich += 1
        if self._rich == self._richer:
            self._exact.clear()

    def fill(self) -> dict[str, list[TopicPartition]]:
        """Assign the other partitions."""
        self._kept.sort(key=lambda tp: (java_key(tp.topic), tp.partition))
        left = self._racks.fewest_first(without(self._every, self._kept))
        self._under.sort(key=java_key)
        self._exact.sort(key=java_key)
        if self._racks.members:
            left = self._fill_racks(left)
        self._fill_in_turns(left)
        return self._assignment

    def _fill_racks(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members on their racks; return the partitions that are left."""
        left = []
        turn = 0
        for tp in partitions:
            member = None
            index = self._racks.next_member(tp, self._under, turn)
            if index >= 0:
                member = self._under[index]
                count = len(self._assignment[member]) + 1
                if count >= self._least:
                    self._under.pop(index)
                    if count < self._most and self._rich < self._richer:
                        self._exact.append(member)
                else:
                    index += 1
                turn = index % len(self._under) if self._under else 0
            elif (index := self._racks.next_member(tp, self._exact, 0)) >= 0:
                member = self._exact[index]
                if len(self._assignment[member]) + 1 == self._most:
                    self._exact.pop(index)
                    self._one_more_rich()
            if member is None:
                left.append(tp)
            else:
                self._give(tp, member)
        return left

    def _fill_in_turns(self, partitions: list[TopicPartition]) -> None:
        turn = 0
        for tp in partitions:
            under = bool(self._under)
            if under:
                turn %= len(self._under)
                member = self._under[turn]
            else:
                member = self._exact.pop(0)
            count = self._give(tp, member)
            if count == self._least and under:
                self._under.pop(turn)
                self._exact.append(member)
            else:
                turn += 1
                self._rich += count == self._most

    def _give(self, tp: TopicPartition, member: str) -> int:
        self._assignment[member].append(tp)
        if self._released.get(tp, member) != member or tp in self._contested:
            self.moving[tp] = member
        return len(self._assignment[member])
