"""Registering what is found in log directories that have logs but no registry, such as Apache Kafka's. Pure."""

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
    """A log that was found.

    Attributes:
        topic_id: the id in its directory, None where there is none.
        latest_epoch: the newest leader epoch of its records, -1 where there is none.
        was_compacted: whether it was compacted before.
    """

    topic: str
    partition: int
    topic_id: uuid.UUID | None
    latest_epoch: int
    was_compacted: bool


def adopt(
    state: ClusterState, broker_id: int, found: Iterable[FoundLog], largest_producer_id: int, chance: random.Random
) -> list[Operation]:
    """Register the topics of the logs that were found, led by this broker.

    Their configurations are not known. The broker's defaults would remove records that they were to keep: those that
    were compacted are compacted, and of the others nothing is removed.

    Args:
        largest_producer_id: of those that the logs know, -1 for none. One that was given again would let a log take a
            new producer's records for the old one's, and drop them.
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
