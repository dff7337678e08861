"""A cluster's metadata, as clients know it: brokers, topics, leaders of partitions. Pure values; nothing changes them.

Answers of brokers may come in another order than the changes that they tell. So a partition's leader is replaced only
by one of the same or a later leader epoch, as in Java (`Metadata.updateLatestMetadata`). This needs the id of the
topic: without ids, a topic that was created again could not be told from the old one, and any answer counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from kafkalog.client.errors import about
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafkalog.protocol.schema import ZERO_UUID


class Broker(NamedTuple):
    """A broker's id and address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """A partition's leader and replicas; `leader` is -1 where it has none, `leader_epoch` where it is unknown."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """A topic and its partitions by number; without partitions where `error_code` is not 0."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    error_code: int = 0


@dataclass(frozen=True)
class ClusterMetadata:
    """The latest answer of the brokers. `controller_id` is -1 where there is none."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)


class Leader(NamedTuple):
    """The leader of a partition and its epoch, which is -1 where unknown; and the id of the topic that it leads."""

    broker: Broker
    epoch: int
    topic_id: UUID = ZERO_UUID


class LeaderIdAndEpoch(NamedTuple):
    """A leader that a response names by its id."""

    node_id: int
    epoch: int


def from_response(response: MetadataResponse, wanted: Iterable[str] | None) -> ClusterMetadata:
    """Return what a broker has answered to a request for the topics `wanted` (None: all).

    Topics that the broker leaves out have UNKNOWN_TOPIC_OR_PARTITION.
    """
    brokers = {each.node_id: Broker(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
    topics = {topic.name: _topic(topic) for topic in response.topics if topic.name is not None}
    for name in wanted or ():
        topics.setdefault(name, TopicMetadata(name, ZERO_UUID, False, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return ClusterMetadata(response.cluster_id, response.controller_id, brokers, topics)


def with_later_leaders(answer: ClusterMetadata, known: ClusterMetadata) -> ClusterMetadata:
    """Return an answer with the leaders of `known` that are of a later epoch."""
    topics = {
        name: _with_later_leaders(topic, known.topics[name]) if name in known.topics else topic
        for name, topic in answer.topics.items()
    }
    return replace(answer, topics=topics)


def _with_later_leaders(topic: TopicMetadata, known: TopicMetadata) -> TopicMetadata:
    if topic.topic_id != known.topic_id or topic.topic_id == ZERO_UUID:
        return topic
    later = {
        each.partition: known.partitions[each.partition]
        for each in topic.partitions.values()
        if each.partition in known.partitions and known.partitions[each.partition].leader_epoch > each.leader_epoch
    }
    return topic._replace(partitions={**topic.partitions, **later}) if later else topic


def without_leader_epoch(known: ClusterMetadata, tp: TopicPartition) -> ClusterMetadata:
    """Return the metadata with an unknown leader epoch of a partition, so that any answer replaces its leader."""
    topic = known.topics.get(tp.topic)
    found = None if topic is None else topic.partitions.get(tp.partition)
    if topic is None or found is None:
        return known
    changed = topic._replace(partitions={**topic.partitions, tp.partition: found._replace(leader_epoch=-1)})
    return replace(known, topics={**known.topics, tp.topic: changed})


def with_leaders(
    known: ClusterMetadata, leaders: Mapping[TopicPartition, LeaderIdAndEpoch], brokers: Iterable[Broker]
) -> tuple[ClusterMetadata, frozenset[TopicPartition]]:
    """Add leaders that a broker names where it is not the leader itself (KIP-951), and their addresses.

    Return the metadata and the partitions whose leader is new. A leader is passed over if its address is unknown, or
    its epoch is not later than the known one.
    """
    addresses = {**known.brokers, **{each.node_id: each for each in brokers}}
    topics = dict(known.topics)
    moved = set()
    for tp, leader in leaders.items():
        topic = topics.get(tp.topic)
        found = None if topic is None else topic.partitions.get(tp.partition)
        if topic is None or found is None or leader.node_id not in addresses or leader.epoch <= found.leader_epoch:
            continue
        partition = found._replace(leader=leader.node_id, leader_epoch=leader.epoch, error_code=0)
        topics[tp.topic] = topic._replace(partitions={**topic.partitions, tp.partition: partition})
        moved.add(tp)
    if not moved:
        return known, frozenset()
    return replace(known, brokers=addresses, topics=topics), frozenset(moved)


def with_broker(known: ClusterMetadata, broker: Broker) -> ClusterMetadata:
    """Replace a broker's address. Metadata that names no broker at all stays so, because it was never fetched."""
    if not known.brokers:
        return known
    before = known.brokers.get(broker.node_id)
    named = broker._replace(rack=before.rack) if before is not None and broker.rack is None else broker
    return replace(known, brokers={**known.brokers, broker.node_id: named})


def existing(topic: TopicMetadata) -> TopicMetadata:
    """Return a topic that exists.

    Raises:
        KafkaError: The topic's metadata reports it.
    """
    if topic.error_code:
        raise about(topic.error_code, f"topic {topic.name}")
    return topic


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        each.partition_index: PartitionMetadata(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            each.error_code,
        )
        for each in topic.partitions
    }
    return TopicMetadata(topic.name or "", topic.topic_id, topic.is_internal, partitions, topic.error_code)
