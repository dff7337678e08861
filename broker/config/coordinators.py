"""Broker keys of the coordinators: groups, their offsets, and the topics that keep coordinators' state.

Names and defaults are Apache Kafka 3.9's, but for ``group.coordinator.rebalance.protocols``, which is 4.0's: the
consumer protocol of KIP-848 is no preview here.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.definition import ConfigKey, Type, Update, Value, at_least, between, list_of, one_of

_MAX_INT = (1 << 31) - 1


CONSUMER_LIMITS = {
    "group.consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms",
    ),
    "group.consumer.session.timeout.ms": (
        "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms",
    ),
}  # fmt: skip
"""Settings of the consumer protocol, each with the keys of its least and its greatest value."""


def group_fault(value: Callable[[str], Value]) -> str | None:
    """How the broker's settings of the consumer protocol contradict each other, or None; ``value`` is that of a key."""
    for name, (least, most) in CONSUMER_LIMITS.items():
        if value(most) < value(least):
            return f"{most} must be greater than or equals to {least}"
        if value(name) < value(least):
            return f"{name} must be greater than or equals to {least}"
        if value(name) > value(most):
            return f"{name} must be less than or equals to {most}"
    return None


GROUP_KEYS = [
    # The classic protocol
    ConfigKey("group.min.session.timeout.ms", Type.INT, 6000, "Shortest session timeout that a member of a classic group may ask for."),
    ConfigKey("group.max.session.timeout.ms", Type.INT, 1_800_000, "Longest session timeout that a member of a classic group may ask for."),
    ConfigKey("group.initial.rebalance.delay.ms", Type.INT, 3000, "How long the first rebalance of an empty classic group waits for more members; each that joins prolongs it, up to the rebalance timeout."),
    ConfigKey("group.max.size", Type.INT, _MAX_INT, "Most members of a classic group.", at_least(1)),
    ConfigKey("group.coordinator.rebalance.protocols", Type.LIST, ("classic", "consumer"), "Protocols of groups that are served.", list_of("classic", "consumer")),
    # The consumer protocol of KIP-848
    ConfigKey("group.consumer.session.timeout.ms", Type.INT, 45_000, "Session timeout of a group of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.min.session.timeout.ms", Type.INT, 45_000, "Least session timeout of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.max.session.timeout.ms", Type.INT, 60_000, "Greatest session timeout of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.heartbeat.interval.ms", Type.INT, 5000, "Heartbeat interval given to members of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.min.heartbeat.interval.ms", Type.INT, 5000, "Least heartbeat interval of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.max.heartbeat.interval.ms", Type.INT, 15_000, "Greatest heartbeat interval of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.max.size", Type.INT, _MAX_INT, "Most members of a group of the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.assignors", Type.LIST, ("org.apache.kafka.coordinator.group.assignor.UniformAssignor", "org.apache.kafka.coordinator.group.assignor.RangeAssignor"), "Assignors of the consumer protocol by Kafka's class names; the first is the default."),
    ConfigKey("group.consumer.migration.policy", Type.STRING, "disabled", "Whether groups with members move between the classic and the consumer protocol; empty ones always may.", one_of("bidirectional", "upgrade", "downgrade", "disabled")),
    # Offsets
    ConfigKey("offset.metadata.max.bytes", Type.INT, 4096, "Longest metadata of a committed offset."),
    ConfigKey("offsets.retention.minutes", Type.INT, 7 * 24 * 60, "How long offsets are kept after their group has lost its last member; of a group that never had one, or that no longer subscribes to the topic, after they were committed.", at_least(1)),
    ConfigKey("offsets.retention.check.interval.ms", Type.LONG, 600_000, "How often expired offsets are looked for.", at_least(1)),
    ConfigKey("offsets.commit.timeout.ms", Type.INT, 5000, "How long a commit waits for the replicas.", at_least(1)),
    ConfigKey("offsets.load.buffer.size", Type.INT, 5 << 20, "Bytes read at once when groups are loaded.", at_least(1)),
    ConfigKey("offsets.topic.num.partitions", Type.INT, 50, "Partitions of __consumer_offsets when it is made.", at_least(1)),
    ConfigKey("offsets.topic.replication.factor", Type.SHORT, 3, "Replicas of __consumer_offsets when it is made; as many as there are brokers, where there are fewer.", at_least(1)),
    ConfigKey("offsets.topic.segment.bytes", Type.INT, 100 << 20, "segment.bytes of __consumer_offsets when it is made.", at_least(1)),
    ConfigKey("offsets.topic.compression.codec", Type.INT, 0, "Codec of what is stored in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)),
]  # fmt: skip

TRANSACTION_LOG_KEYS = [
    ConfigKey("transaction.state.log.num.partitions", Type.INT, 50, "Partitions of __transaction_state when it is made.", at_least(1)),
    ConfigKey("transaction.state.log.replication.factor", Type.SHORT, 3, "Replicas of __transaction_state when it is made; as many as there are brokers, where there are fewer.", at_least(1)),
    ConfigKey("transaction.state.log.min.isr", Type.INT, 2, "min.insync.replicas of __transaction_state when it is made; at most its replicas.", at_least(1)),
    ConfigKey("transaction.state.log.segment.bytes", Type.INT, 100 << 20, "segment.bytes of __transaction_state when it is made.", at_least(1)),
    ConfigKey("transaction.state.log.load.buffer.size", Type.INT, 5 << 20, "Bytes read at once when transactions are loaded.", at_least(1)),
]  # fmt: skip

TRANSACTION_KEYS = [
    ConfigKey("transaction.max.timeout.ms", Type.INT, 15 * 60 * 1000, "Longest transaction.timeout.ms that a producer may ask for.", at_least(1)),
    ConfigKey("transactional.id.expiration.ms", Type.INT, 7 * 24 * 3600 * 1000, "How long a transactional id is kept that is not used; not while a transaction is open.", at_least(1)),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", Type.INT, 10_000, "How often transactions that have timed out are looked for, and aborted.", at_least(1)),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", Type.INT, 3_600_000, "How often expired transactional ids are looked for, and removed.", at_least(1)),
    ConfigKey("transaction.partition.verification.enable", Type.BOOLEAN, True, "Check that a partition was added to a transaction before the first of its records is appended there (KIP-890).", None, Update.CLUSTER_WIDE),
]  # fmt: skip
