"""Merge an UpdateMetadata request into the state of the cluster. Pure.

The live brokers replace those that were known. The partitions are those that have changed; a leader of -2 stands for a
partition that is deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from broker.config.listeners import KNOWN_PROTOCOLS, Endpoint
from broker.metadata.model import (
    NO_LEADER,
    NO_TOPIC_ID,
    BrokerRegistration,
    ClusterState,
    PartitionState,
    TopicState,
    may_be_one_topic,
)
from broker.metadata.operations import ChangePartitions, CreateTopic, DeleteTopic, Operation
from kafkalog.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

DELETED = -2
"""The leader of a partition that is deleted."""
UNKNOWN_EPOCH = -1
"""A broker's epoch is not in the request."""
GROUPED_SINCE = 5
"""From this version on partitions are grouped by their topics."""
TOPIC_IDS_SINCE = 7
UNKNOWN_PARTITION = PartitionState((), (), NO_LEADER, -1)
"""A partition of which the controller has not told yet, before others of the topic."""


def merged(
    state: ClusterState, message: UpdateMetadataRequest, version: int
) -> tuple[ClusterState, Sequence[Operation]]:
    """Return the state after the request, and the operations that make the difference in topics."""
    brokers = {each.id: _broker(each, version) for each in message.live_brokers}
    topics, operations = dict(state.topics), list[Operation]()
    for name, topic_id, partitions in _topics(message, version):
        known = topics.get(name)
        before = known if known is not None and may_be_one_topic(known.topic_id, topic_id) else None
        after = _topic(before, name, topic_id, partitions, brokers)
        if after is None:
            if before is not None:
                del topics[name]
                operations.append(DeleteTopic(name, before.topic_id))
        elif after != before:
            topics[name] = after
            if before is None:
                if known is not None:
                    # It was deleted and created again.
                    operations.append(DeleteTopic(name, known.topic_id))
                operations.append(CreateTopic(after))
            else:
                changed = {
                    index: each
                    for index, each in enumerate(after.partitions)
                    if index >= len(before.partitions) or before.partitions[index] != each
                }
                operations.append(ChangePartitions(name, changed))
    return (
        replace(
            state,
            controller_id=message.controller_id,
            controller_epoch=max(state.controller_epoch, message.controller_epoch),
            brokers=state.brokers if brokers == state.brokers else brokers,
            topics=topics if operations else state.topics,
        ),
        operations,
    )


def _topics(
    message: UpdateMetadataRequest, version: int
) -> Iterator[tuple[str, uuid.UUID, list[UpdateMetadataPartitionState]]]:
    if version >= GROUPED_SINCE:
        for topic in message.topic_states:
            yield (
                topic.topic_name,
                topic.topic_id if version >= TOPIC_IDS_SINCE else NO_TOPIC_ID,
                topic.partition_states,
            )
        return
    grouped: dict[str, list[UpdateMetadataPartitionState]] = {}
    for partition in message.ungrouped_partition_states:
        grouped.setdefault(partition.topic_name, []).append(partition)
    for name, partitions in grouped.items():
        yield name, NO_TOPIC_ID, partitions


def _topic(
    before: TopicState | None,
    name: str,
    topic_id: uuid.UUID,
    told: list[UpdateMetadataPartitionState],
    live: Collection[int],
) -> TopicState | None:
    """Return the topic with the partitions that the request names; None if none of them is left.

    Args:
        live: the ids of the live brokers.
    """
    partitions = list(before.partitions) if before is not None else []
    for each in told:
        index = each.partition_index
        if index >= len(partitions):
            partitions += [UNKNOWN_PARTITION] * (index + 1 - len(partitions))
        is_deleted = each.leader == DELETED
        partitions[index] = UNKNOWN_PARTITION if is_deleted else _partition(partitions[index], each, live)
    while partitions and partitions[-1] is UNKNOWN_PARTITION:
        partitions.pop()
    if not partitions:
        return None
    config = before.config if before is not None else {}
    return TopicState(name, topic_id, tuple(partitions), config)


def _partition(before: PartitionState, told: UpdateMetadataPartitionState, live: Collection[int]) -> PartitionState:
    replicas = tuple(told.replicas)
    is_same = before.replicas == replicas
    return PartitionState(
        replicas=replicas,
        isr=tuple(told.isr),
        leader=told.leader,
        leader_epoch=told.leader_epoch,
        partition_epoch=told.zk_version,
        controller_epoch=told.controller_epoch,
        # Reassignments are not in the request; they change the replicas.
        adding=before.adding if is_same else (),
        removing=before.removing if is_same else (),
        # A broker that is not alive may be back before the controller tells of the partition again.
        offline=tuple(each for each in told.offline_replicas if each in live),
    )


def _broker(told: UpdateMetadataBroker, version: int) -> BrokerRegistration:
    if version == 0:
        endpoints = [Endpoint("PLAINTEXT", told.v0_host, told.v0_port, "PLAINTEXT")]
    else:
        endpoints = []
        for each in told.endpoints:
            protocol = (
                KNOWN_PROTOCOLS[each.security_protocol] if 0 <= each.security_protocol < len(KNOWN_PROTOCOLS) else ""
            )
            endpoints.append(Endpoint(each.listener or protocol, each.host, each.port, protocol))
    return BrokerRegistration(told.id, tuple(endpoints), told.rack, UNKNOWN_EPOCH)
