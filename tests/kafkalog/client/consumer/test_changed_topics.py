"""Test which changes of topics make the leader of a group ask for a rebalance."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import ConsumerConfig
from kafkalog.client.consumer.classic.coordinator import ClassicCoordinator
from kafkalog.client.consumer.classic.join import Joined
from kafkalog.client.consumer.classic.protocol import Assignment
from kafkalog.client.consumer.group.generation import Generation
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata

BROKERS = {number: Broker(number, "127.0.0.1", number, f"rack {number}") for number in (1, 2, 3)}


def described(*replicas: Sequence[int]) -> ClusterMetadata:
    """Return a cluster with one topic, whose partitions have these replicas."""
    partitions = {
        number: PartitionMetadata(number, each[0], 1, tuple(each), tuple(each), ())
        for number, each in enumerate(replicas)
    }
    return ClusterMetadata(brokers=BROKERS, topics={"t": TopicMetadata("t", UUID(int=1), False, partitions)})


@pytest.mark.parametrize(
    ("rack", "now", "rejoins"),
    [
        ("", described([1, 2]), False),
        ("", described([1, 3]), False),
        ("", described([1, 2], [2, 3]), True),
        ("rack 1", described([2, 1]), False),
        ("rack 1", described([1, 3]), True),
        ("rack 1", described([1, 2], [2, 3]), True),
    ],
)
def test_partitions_and_racks_that_change(rack: str, now: ClusterMetadata, rejoins: bool) -> None:
    """As in Java (`ConsumerCoordinator.MetadataSnapshot`), racks count where the leader has one (KIP-881)."""
    config = ConsumerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "client.rack": rack})
    subscription = SubscriptionState()
    subscription.subscribe(["t"])
    member = ClassicCoordinator(
        *(config, Cluster(config.client), subscription, Monitor(), lambda: None, ConsumerInterceptors(config))
    )
    topics = frozenset({"t"})
    snapshot = member.joining.snapshot_of(described([1, 2]))
    generation = Generation(1, "m", "range")
    member.member.joined(1, "m", "range")
    assert member.member.synced(generation)
    member._joined = Joined(generation, config.assignors[0], Assignment(()), topics, True, topics, snapshot)
    member.note_metadata(now)
    assert member._wants_join() is rejoins
