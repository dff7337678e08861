"""Makes the field `explanation` of DescribeTopicPartitions: why a partition changed, and how far its followers are.

Apache Kafka has no such field. The controller knows why leaders, ISRs and assignments changed. A leader knows how far
its followers are.
"""

from __future__ import annotations

from broker.api.context import Broker
from broker.replica.isr.rules import LONG_AGO_MS
from kafkalog.protocol.messages.describe_topic_partitions import (
    ExplainedChange,
    ExplainedFollower,
    PartitionExplanation,
)


def explanation(broker: Broker, topic: str, index: int) -> PartitionExplanation:
    """Return what this broker knows of a partition. Fields that it knows nothing of keep their defaults."""
    told = PartitionExplanation(is_member=broker.member is not None)
    known = None if broker.controller is None else broker.controller.explain((topic, index))
    if known is not None:
        told.controller_epoch = known.controller_epoch
        told.controller_since_ms = known.controller_since_ms
        told.known_since_ms = known.known_since_ms
        told.changes = [
            ExplainedChange(
                at_ms=noted.at_ms,
                controller_epoch=noted.controller_epoch,
                what=noted.what,
                cause=noted.cause,
            )
            for noted in known.changes
        ]
    partition = broker.replicas.get(topic, index)
    if partition is not None and partition.leading is not None:
        broker.replicas.resting.settle(partition.key)
        now_ms = broker.runtime.monotonic_ms()
        told.leader_epoch = partition.leading.epoch
        told.log_end_offset = partition.log.log_end_offset
        told.followers = [
            ExplainedFollower(
                broker_id=replica,
                log_end_offset=follower.log_end_offset,
                behind_ms=_ago(follower.last_caught_up_ms, now_ms),
                fetched_ms=_ago(follower.last_fetch_ms, now_ms),
            )
            for replica, follower in sorted(partition.leading.followers.items())
        ]
    return told


def _ago(at_ms: int, now_ms: int) -> int:
    return -1 if at_ms == LONG_AGO_MS else max(0, now_ms - at_ms)
