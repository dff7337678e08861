"""The sticky assignors: balanced assignments with as few moves as possible (KIP-54), eager or cooperative (KIP-429).

Under `sticky`, members give everything up before a rebalance and get most of it back; what a member had travels in
its user data. Under `cooperative-sticky` they give up only what other members will get, in a second rebalance after
that; what a member has travels in its subscription.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkalog.client.consumer.assignors.base import Assignor, Layout, RebalanceProtocol
from kafkalog.client.consumer.assignors.constrained import assign_alike
from kafkalog.client.consumer.assignors.general import assign_general
from kafkalog.client.consumer.assignors.java_order import JavaMap
from kafkalog.client.consumer.assignors.racks import RackInfo
from kafkalog.client.consumer.classic.protocol import NO_GENERATION, Assignment, Subscription
from kafkalog.client.types import ConsumerGroupMetadata, TopicPartition
from kafkalog.protocol.codec import ProtocolError
from kafkalog.protocol.embedded.consumer import TopicPartitions
from kafkalog.protocol.embedded.sticky import (
    StickyUserData,
    decode_generation,
    decode_sticky,
    encode_generation,
    encode_sticky,
)


class MemberData(NamedTuple):
    """The partitions that a member had, and in which generation (None where it does not say)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


class _AbstractSticky(Assignor):
    """The common part of both sticky assignors.

    Attributes:
        max_generation: The highest generation that a member has ever reported, kept as Kafka's assignors keep it.
    """

    def __init__(self) -> None:
        self.max_generation = NO_GENERATION

    @abstractmethod
    def member_data(self, subscription: Subscription) -> MemberData:
        """Return what a member had before."""

    def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        return self.decide(layout, members)[0]

    def decide(
        self, layout: Layout, members: Mapping[str, Subscription]
    ) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, str] | None]:
        """Assign; return the assignment, and the partitions that change hands with their new owners.

        The latter is None where the algorithm does not record it.
        """
        ordered: JavaMap[str, Subscription] = JavaMap()
        for member, subscription in members.items():
            ordered[member] = subscription
        owned, contested, alike = self._owned(layout, ordered)
        racks = RackInfo.of(layout, ordered)
        if alike:
            return assign_alike(layout, racks, owned, contested)
        earlier: dict[TopicPartition, tuple[str, int]] = {}
        for member in ordered:
            data = self.member_data(ordered[member])
            generation = NO_GENERATION if data.generation is None else data.generation
            if generation < self.max_generation:
                for tp in data.partitions:
                    if tp not in earlier or generation > earlier[tp][1]:
                        earlier[tp] = member, generation
        before = {tp: member for tp, (member, _) in earlier.items()}
        return assign_general(layout, racks, owned, ordered, before), None

    def _owned(
        self, layout: Layout, members: JavaMap[str, Subscription]
    ) -> tuple[JavaMap[str, list[TopicPartition]], set[TopicPartition], bool]:
        """Find out what members have; skip topics that do not exist.

        Returns the partitions of each member, those that several members of one generation claim, and whether all
        members want the same topics.
        """
        owned: JavaMap[str, list[TopicPartition]] = JavaMap()
        contested: set[TopicPartition] = set()
        owners: dict[TopicPartition, str] = {}
        topics: set[str] = set()
        alike = True
        for member in members:
            subscription = members[member]
            if not topics:
                topics.update(subscription.topics)
            elif len(subscription.topics) != len(topics) or not topics.issuperset(subscription.topics):
                alike = False
            data = self.member_data(subscription)
            generation = NO_GENERATION if data.generation is None else data.generation
            self.max_generation = max(self.max_generation, generation)
            mine = owned[member] = []
            for tp in data.partitions:
                if tp.topic not in layout:
                    continue
                other = owners.get(tp)
                if other is None:
                    mine.append(tp)
                    owners[tp] = member
                    continue
                others = members[other].generation_id
                if generation >= others:
                    if tp in owned[other]:
                        owned[other].remove(tp)
                    owners[tp] = member
                    if generation == others:
                        contested.add(tp)
                    else:
                        mine.append(tp)
        return owned, contested, alike


class StickyAssignor(_AbstractSticky):
    """Kafka's `sticky`."""

    name = "sticky"

    def __init__(self) -> None:
        super().__init__()
        self._had: Sequence[TopicPartition] | None = None
        self._generation = NO_GENERATION

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self._had = assignment.partitions
        self._generation = metadata.generation_id

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        if self._had is None:
            return None
        grouped: JavaMap[str, list[int]] = JavaMap()
        for topic, partition in self._had:
            if topic not in grouped:
                grouped[topic] = []
            grouped[topic].append(partition)
        had = [TopicPartitions(topic=topic, partitions=grouped[topic]) for topic in grouped]
        return encode_sticky(StickyUserData(previous_assignment=had, generation=self._generation))

    def member_data(self, subscription: Subscription) -> MemberData:
        data = subscription.user_data
        if not data:
            return MemberData((), None)
        try:
            found, version = decode_sticky(data)
        except ProtocolError:
            return MemberData((), NO_GENERATION)
        had = [TopicPartition(each.topic, n) for each in found.previous_assignment for n in each.partitions]
        return MemberData(had, found.generation if version else None)


class CooperativeStickyAssignor(_AbstractSticky):
    """Kafka's `cooperative-sticky`."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        super().__init__()
        self._generation = NO_GENERATION

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self._generation = metadata.generation_id

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return encode_generation(self._generation)

    def member_data(self, subscription: Subscription) -> MemberData:
        if subscription.generation_id >= 0:
            return MemberData(subscription.owned, subscription.generation_id)
        data = subscription.user_data
        if data is None:
            return MemberData(subscription.owned, None)
        try:
            return MemberData(subscription.owned, decode_generation(data))
        except ProtocolError:
            return MemberData(subscription.owned, NO_GENERATION)

    def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        assignment, moving = self.decide(layout, members)
        if moving is None:
            moving = _changing_hands(assignment, members)
        for tp, member in moving.items():
            # Its owner must give it up first. The next rebalance gives it to the member that it is meant for.
            if tp in assignment[member]:
                assignment[member].remove(tp)
        return assignment


def _changing_hands(
    assignment: Mapping[str, Sequence[TopicPartition]], members: Mapping[str, Subscription]
) -> dict[TopicPartition, str]:
    """Return the partitions that one member has and another one gets, with the latter."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        owned = frozenset(members[member].owned)
        added.update((tp, member) for tp in partitions if tp not in owned)
        revoked |= owned.difference(partitions)
    return {tp: member for tp, member in added.items() if tp in revoked}
