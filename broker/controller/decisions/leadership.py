"""Raises leader epochs. Pure: turns a state of the registry into operations."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from broker.metadata.model import ClusterState
from broker.metadata.operations import ChangePartitions


def new_epochs(state: ClusterState, partitions: Set[tuple[str, int]]) -> list[ChangePartitions]:
    """Re-elect the leaders of these (topic, partition), each with a new epoch.

    Kafka's controller does the same for the partitions of a broker that returns (KIP-101, KIP-320).
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
