"""Registers the topics of log directories that have logs but no registry, such as Apache Kafka's. Pure."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.metadata.model import ClusterState, PartitionState, TopicState, new_topic_id
from broker.metadata.operations import CreateTopic, Operation, TakeProducerIds
from kafkalog.storage.topics import INTERNAL_TOPICS

COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}
KEPT: Mapping[str, str] = {"retention.bytes": "-1", "retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log found in a log directory."""

    topic: str
    partition: int
    topic_id: uuid.UUID | None
    """The topic id in its directory, or None."""
    latest_epoch: int
    """The newest leader epoch of its records, or -1."""
    was_compacted: bool
    """True if the log has been compacted."""


def adopt(
    state: ClusterState, broker_id: int, found: Iterable[FoundLog], largest_producer_id: int, chance: random.Random
) -> list[Operation]:
    """Register the topics of the logs found, led by this broker.

    Their configurations are unknown, and the broker's defaults might remove records that should be kept. So topics that
    were compacted are compacted, and nothing is removed from the others.

    Args:
        state: the registry.
        broker_id: the id of this broker.
        found: the logs.
        largest_producer_id: the largest producer id in the logs, -1 for none. If an id were allocated again, a log
            would take the new producer's records for duplicates of the old one's, and drop them.
        chance: makes topic ids.
    """
    topics: dict[str, dict[int, FoundLog]] = {}
    for log in found:
        topics.setdefault(log.topic, {})[log.partition] = log
    operations: list[Operation] = []
    taken: set[uuid.UUID] = set()
    for name, logs in topics.items():
        topic_id = next((log.topic_id for log in logs.values() if log.topic_id is not None), None)
        if topic_id is None:
            topic_id = new_topic_id(taken, chance)
        taken.add(topic_id)
        partitions = []
        for index in range(max(logs) + 1):
            epoch = max(0, logs[index].latest_epoch) if index in logs else 0
            partitions.append(
                PartitionState((broker_id,), (broker_id,), broker_id, epoch, controller_epoch=state.controller_epoch)
            )
        compacted = name in INTERNAL_TOPICS or any(log.was_compacted for log in logs.values())
        operations.append(CreateTopic(TopicState(name, topic_id, tuple(partitions), COMPACTED if compacted else KEPT)))
    if largest_producer_id >= state.next_producer_id:
        operations.append(TakeProducerIds(largest_producer_id + 1))
    return operations
