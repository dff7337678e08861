"""Broker keys of the coordinators: groups, their offsets, and the topics that hold the coordinators' state.

Names and defaults are those of Apache Kafka 3.9, except that `group.coordinator.rebalance.protocols` is as in 4.0:
the consumer protocol of KIP-848 is enabled by default.
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
"""The settings of the consumer protocol, each with the keys of its smallest and its largest value."""


def group_fault(value: Callable[[str], Value]) -> str | None:
    """Find a contradiction between the broker's settings of the consumer protocol.

    Args:
        value: returns the value of a broker key.

    Returns:
        The error message, or None if there is no contradiction.
    """
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
    ConfigKey("group.min.session.timeout.ms", Type.INT, 6000, "The shortest session timeout that members of a classic group may request."),
    ConfigKey("group.max.session.timeout.ms", Type.INT, 1_800_000, "The longest session timeout that members of a classic group may request."),
    ConfigKey("group.initial.rebalance.delay.ms", Type.INT, 3000, "How long the first rebalance of an empty classic group waits for more members. Each new member extends the wait, up to the rebalance timeout."),
    ConfigKey("group.max.size", Type.INT, _MAX_INT, "The largest number of members of a classic group.", at_least(1)),
    ConfigKey("group.coordinator.rebalance.protocols", Type.LIST, ("classic", "consumer"), "The group protocols that the broker serves: classic, consumer.", list_of("classic", "consumer")),
    # The consumer protocol of KIP-848
    ConfigKey("group.consumer.session.timeout.ms", Type.INT, 45_000, "The session timeout of groups that use the consumer protocol (KIP-848).", at_least(1)),
    ConfigKey("group.consumer.min.session.timeout.ms", Type.INT, 45_000, "The smallest session timeout that may be set for a group that uses the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.max.session.timeout.ms", Type.INT, 60_000, "The largest session timeout that may be set for a group that uses the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.heartbeat.interval.ms", Type.INT, 5000, "The heartbeat interval of members of groups that use the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.min.heartbeat.interval.ms", Type.INT, 5000, "The smallest heartbeat interval that may be set for a group that uses the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.max.heartbeat.interval.ms", Type.INT, 15_000, "The largest heartbeat interval that may be set for a group that uses the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.max.size", Type.INT, _MAX_INT, "The largest number of members of a group that uses the consumer protocol.", at_least(1)),
    ConfigKey("group.consumer.assignors", Type.LIST, ("org.apache.kafka.coordinator.group.assignor.UniformAssignor", "org.apache.kafka.coordinator.group.assignor.RangeAssignor"), "The server-side assignors of the consumer protocol, by Kafka's class names. The first is the default.", skips_empty=True),
    ConfigKey("group.consumer.migration.policy", Type.STRING, "disabled", "In which directions non-empty groups may migrate between the classic and the consumer protocol. Empty groups always may.", one_of("bidirectional", "upgrade", "downgrade", "disabled")),
    # Offsets
    ConfigKey("offset.metadata.max.bytes", Type.INT, 4096, "The largest metadata of a committed offset, in bytes."),
    ConfigKey("offsets.retention.minutes", Type.INT, 7 * 24 * 60, "How long committed offsets are kept after a group has lost its last member. If the group never had members, or no longer subscribes to the topic, the time counts from the commit.", at_least(1)),
    ConfigKey("offsets.retention.check.interval.ms", Type.LONG, 600_000, "How often expired offsets are removed.", at_least(1)),
    ConfigKey("offsets.commit.timeout.ms", Type.INT, 5000, "How long an offset commit waits for the replicas at most.", at_least(1)),
    ConfigKey("offsets.load.buffer.size", Type.INT, 5 << 20, "How many bytes are read at a time when groups are loaded.", at_least(1)),
    ConfigKey("offsets.topic.num.partitions", Type.INT, 50, "The number of partitions of __consumer_offsets. Used when the topic is created.", at_least(1)),
    ConfigKey("offsets.topic.replication.factor", Type.SHORT, 3, "The replication factor of __consumer_offsets; a lone broker makes one replica. Used when the topic is created.", at_least(1)),
    ConfigKey("offsets.topic.segment.bytes", Type.INT, 100 << 20, "The segment.bytes of __consumer_offsets. Used when the topic is created.", at_least(1)),
    ConfigKey("offsets.topic.compression.codec", Type.INT, 0, "The compression codec of records in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)),
]  # fmt: skip

TRANSACTION_LOG_KEYS = [
    ConfigKey("transaction.state.log.num.partitions", Type.INT, 50, "The number of partitions of __transaction_state. Used when the topic is created.", at_least(1)),
    ConfigKey("transaction.state.log.replication.factor", Type.SHORT, 3, "The replication factor of __transaction_state; a lone broker makes one replica. Used when the topic is created.", at_least(1)),
    ConfigKey("transaction.state.log.min.isr", Type.INT, 2, "The min.insync.replicas of __transaction_state, or its replication factor if that is smaller. Used when the topic is created.", at_least(1)),
    ConfigKey("transaction.state.log.segment.bytes", Type.INT, 100 << 20, "The segment.bytes of __transaction_state. Used when the topic is created.", at_least(1)),
    ConfigKey("transaction.state.log.load.buffer.size", Type.INT, 5 << 20, "How many bytes are read at a time when transactions are loaded.", at_least(1)),
]  # fmt: skip

TRANSACTION_KEYS = [
    ConfigKey("transaction.max.timeout.ms", Type.INT, 15 * 60 * 1000, "The largest transaction.timeout.ms that a producer may request.", at_least(1)),
    ConfigKey("transactional.id.expiration.ms", Type.INT, 7 * 24 * 3600 * 1000, "How long an unused transactional id is kept. An id with an open transaction does not expire.", at_least(1)),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", Type.INT, 10_000, "How often transactions that have timed out are aborted.", at_least(1)),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", Type.INT, 3_600_000, "How often expired transactional ids are removed.", at_least(1)),
    ConfigKey("transaction.partition.verification.enable", Type.BOOLEAN, True, "Before appending a transaction's first records to a partition, verify that the partition was added to the transaction (KIP-890).", None, Update.CLUSTER_WIDE),
]  # fmt: skip
