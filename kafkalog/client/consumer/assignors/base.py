"""What an assignor is given and gives."""

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
"""The partitions of topics: of each, in order of their numbers, the racks that its replicas are on."""


class RebalanceProtocol(IntEnum):
    """What members do before they join: give up everything, or nothing (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


class Assignor(ABC):
    """Shares out partitions. One object belongs to one consumer: it may keep what it was told by `on_assignment`.

    `assign` runs in the group's leader alone, in a thread of the consumer's.
    """

    name: ClassVar[str]
    """What members agree upon: all of a group must offer one assignor of the same name."""
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, layout: Layout, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        """Who gets what, by member id: for every member, and only partitions of topics in ``layout``.

        ``members`` are in the order in which the coordinator names them. Topics without metadata are not in ``layout``.
        """

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """What travels with this member's subscription to the leader."""
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:  # noqa: B027
        """This member has been assigned ``assignment``."""


def rack_aware(consumer_racks: Iterable[str], partition_racks: Mapping[TopicPartition, Racks]) -> bool:
    """Whether racks make a difference: some are of both, and not every partition is on all of them (KIP-881)."""
    every = frozenset().union(*partition_racks.values())
    return not every.isdisjoint(consumer_racks) and any(racks != every for racks in partition_racks.values())


def member_order(member_id: str, subscription: Subscription) -> tuple[int, bytes]:
    """A key to sort members by: static ones first, by instance id (KIP-345), the others by member id."""
    if subscription.instance_id is None:
        return 1, java_key(member_id)
    return 0, java_key(subscription.instance_id)
