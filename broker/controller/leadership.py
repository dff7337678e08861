"""Who leads from when on: leader epochs. Pure; states of the registry in, operations out."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from broker.metadata.model import ClusterState
from broker.metadata.operations import ChangePartitions


def new_epochs(state: ClusterState, partitions: Set[tuple[str, int]]) -> list[ChangePartitions]:
    """Elect the same leaders again for these (topic, partition): each begins a new epoch.

    As Kafka's controller does for the partitions of a broker that comes back (KIP-101, KIP-320).
    """
    operations = []
    for topic in state.topics.values():
        raised = {
            index: replace(
                present,
                leader_epoch=present.leader_epoch + 1,
                partition_epoch=present.partition_epoch + 1,
                controller_epoch=state.controller_epoch,
            )
            for index, present in enumerate(topic.partitions)
            if (topic.name, index) in partitions
        }
        if raised:
            operations.append(ChangePartitions(topic.name, raised))
    return operations
