"""The base class of assignors, and what they get and return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar

from kafkalog.client.consumer.assignors.java_order import java_key
from kafkalog.client.consumer.classic.protocol import Assignment, Subscription
from kafkalog.client.types import ConsumerGroupMetadata, TopicPartition

Racks = frozenset[str]
Layout = Mapping[str, Sequence[Racks]]
"""The partitions of topics: for each partition, in order of numbers, the racks of its replicas."""


class RebalanceProtocol(IntEnum):
    """The protocol of a rebalance: members give up all partitions before they join, or none (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


class Assignor(ABC):
    """Divide partitions among members. An object belongs to one consumer, so it may keep state from `on_assignment`.

    `assign` runs only in the group's leader, in a thread of the consumer.
    """

    name: ClassVar[str]
    """The name by which members agree on an assignor: all members of a group must offer one of the same name."""
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        """Return the partitions of every member, by member id; only partitions of topics in `layout`.

        `members` are in the order in which the coordinator names them. Topics without metadata are not in `layout`.
        """

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return data that travels with this member's subscription to the leader."""
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:  # noqa: B027
        """Note that this member has been assigned `assignment`."""


def rack_aware(consumer_racks: Iterable[str], partition_racks: Mapping[TopicPartition, Racks]) -> bool:
    """Tell whether racks matter: members and replicas share some, and not every partition is on all racks (KIP-881)."""
    every = frozenset().union(*partition_racks.values())
    return not every.isdisjoint(consumer_racks) and any(racks != every for racks in partition_racks.values())


def member_order(member_id: str, subscription: Subscription) -> tuple[int, bytes]:
    """Return a key to sort members by: static members first, by instance id (KIP-345), then the others by member id."""
    if subscription.instance_id is None:
        return 1, java_key(member_id)
    return 0, java_key(subscription.instance_id)
