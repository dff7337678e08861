"""The names of a connector's metrics: those of Kafka 0.8.2. Pure.

Source: `ZookeeperConsumerConnector`, `ConsumerTopicStats`, `AbstractFetcherManager` and `FetcherLagMetrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkalog.client.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Readings:
    """The counts of a connector since it was made, and the partitions that it owns now."""

    seconds: float
    """The time since the connector was made, in seconds."""
    messages: Mapping[str, int]
    """The records that the streams have returned, by topic."""
    bytes: Mapping[str, int]
    """The bytes of keys and values that were fetched, by topic."""
    owned: Collection[TopicPartition]
    lags: Mapping[TopicPartition, int]
    """The lags of partitions, where they are known: the number of offsets that were not consumed yet."""
    rebalances: int
    rebalance_ms: int
    """The time that all rebalances took, in ms."""
    kafka_commits: int
    """Offsets that were committed to Kafka, one for each partition."""
    zookeeper_commits: int


def named(readings: Readings) -> dict[str, float]:
    """Return the metrics by their names.

    Tags stand at the end of a name, as in JMX. `.Count` of a meter is its total, `.MeanRate` the total by the seconds
    since the connector was made.
    """
    found: dict[str, float] = {}
    seconds = readings.seconds

    def meter(name: str, count: int, tags: str = "") -> None:
        found[f"{name}.Count{tags}"] = count
        found[f"{name}.MeanRate{tags}"] = count / seconds if seconds > 0 else 0.0

    for name, counts in (("MessagesPerSec", readings.messages), ("BytesPerSec", readings.bytes)):
        meter(name, sum(counts.values()))
        for topic, count in sorted(counts.items()):
            meter(name, count, f",topic={topic}")
    meter("KafkaCommitsPerSec", readings.kafka_commits)
    meter("ZooKeeperCommitsPerSec", readings.zookeeper_commits)
    meter("RebalanceRateAndTime", readings.rebalances)
    found["RebalanceRateAndTime.Mean"] = readings.rebalance_ms / readings.rebalances if readings.rebalances else 0.0
    found["OwnedPartitionsCount"] = len(readings.owned)
    for topic, owned in sorted(Counter(tp.topic for tp in readings.owned).items()):
        found[f"OwnedPartitionsCount,topic={topic}"] = owned
    found["MaxLag"] = max(readings.lags.values(), default=0)
    for tp, lag in sorted(readings.lags.items()):
        found[f"ConsumerLag,topic={tp.topic},partition={tp.partition}"] = lag
    return found
