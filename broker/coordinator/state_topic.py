"""The internal topics in which coordinators keep their state: which partition a key belongs to, and their settings.

A group or transactional id belongs to partition `abs(hash) % partitions`. The hash is Java's `String.hashCode`, and
abs of the least int32 is 0 (Kafka's `Utils.abs`): so this broker and Apache Kafka find the same state.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.config.server import BrokerConfig
from kafkalog.storage.java_hash import java_hash, positive
from kafkalog.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE


def partition_of(key: str, partitions: int) -> int:
    """Return which of `partitions` partitions holds the state of a group or transactional id."""
    return positive(java_hash(key)) % partitions


@dataclass(frozen=True, slots=True)
class StateTopic:
    """The properties with which an internal topic of a coordinator is created."""

    name: str
    partitions: int
    """The number of its partitions; a topic that exists keeps its own."""
    replication_factor: int
    """The number of replicas of each partition."""
    codec: int
    """The compression of a coordinator's batches (`kafkalog.records.compression.Codec`)."""
    load_buffer_bytes: int
    """The number of bytes of a partition that are read at once when its state is loaded."""
    config: dict[str, str]
    """The topic's configuration."""


def consumer_offsets_topic(config: BrokerConfig, replica_limit: int | None) -> StateTopic:
    """Return `__consumer_offsets` by the `offsets.topic.*` settings.

    Args:
        config: the broker's configuration.
        replica_limit: the most replicas that it has, if the settings ask for more; None for no limit.
    """
    return StateTopic(
        CONSUMER_OFFSETS,
        config["offsets.topic.num.partitions"],
        _limited(config["offsets.topic.replication.factor"], replica_limit),
        config["offsets.topic.compression.codec"],
        config["offsets.load.buffer.size"],
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        },
    )


def _limited(replication_factor: int, limit: int | None) -> int:
    return replication_factor if limit is None else min(replication_factor, limit)


def transaction_state_topic(config: BrokerConfig, replica_limit: int | None) -> StateTopic:
    """Return `__transaction_state` by the `transaction.state.log.*` settings; see `consumer_offsets_topic`."""
    replication_factor = _limited(config["transaction.state.log.replication.factor"], replica_limit)
    return StateTopic(
        TRANSACTION_STATE,
        config["transaction.state.log.num.partitions"],
        replication_factor,
        0,
        config["transaction.state.log.load.buffer.size"],
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(config["transaction.state.log.min.isr"], replication_factor)),
            "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
            "unclean.leader.election.enable": "false",
        },
    )
