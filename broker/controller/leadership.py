"""Who leads from when on: leader epochs. Pure; states of the registry in, states out."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from broker.metadata.model import ClusterState


def with_new_epochs(state: ClusterState, partitions: Set[tuple[str, int]]) -> ClusterState:
    """The same leaders, elected again for these (topic, partition): each begins a new epoch. ``state`` itself for none.

    As Kafka's controller does for the partitions of a broker that comes back (KIP-101, KIP-320).
    """
    topics = []
    for topic in state.topics.values():
        raised = tuple(
            replace(each, leader_epoch=each.leader_epoch + 1) if (topic.name, index) in partitions else each
            for index, each in enumerate(topic.partitions)
        )
        if raised != topic.partitions:
            topics.append(replace(topic, partitions=raised))
    return state.with_topics(*topics) if topics else state
