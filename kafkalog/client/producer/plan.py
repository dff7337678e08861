"""The plan that the accumulator makes for the sender."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.types import TopicPartition


@dataclass
class Plan:
    """The work that the sender must do now."""

    requests: dict[int, list[ProducerBatch]] = field(default_factory=dict)
    """Batches by the leader's node id, at most one of each partition."""
    expired: list[ProducerBatch] = field(default_factory=list)
    leaderless: set[str] = field(default_factory=set)
    """Topics with batches for a partition whose leader is unknown."""
    needs_producer_id: bool = False
    unregistered: list[TopicPartition] = field(default_factory=list)
    """Partitions with batches that are not in the transaction yet."""
    wake_at: float = float("inf")
    """The time to look again even if nothing happens (`time.monotonic`)."""
    expires_at: float = float("inf")
    """The time when the first of the waiting batches will have waited too long."""
    finished: bool = False
    """True if the producer is being closed and no batch is left."""
