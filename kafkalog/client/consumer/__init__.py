"""A consumer: alone, or as a member of a group.

- `consumer`             what users call
- `config`               Kafka's consumer properties
- `errors`               what can go wrong
- `listener`             the callbacks of a rebalance
- `topic_filter`         patterns of topics
- `subscription`         what the consumer is to read, and the state of each assigned partition
- `poll_loop`            carries out a call of `poll`, step by step
- `deserializers`        turn keys and values into objects; `interceptors` change records on their way out
- `arrow_reading`        polls again and again for Arrow batches
- `offsets`              where reading begins in a new partition, and questions about offsets, whatever is assigned
- `fetcher`              the thread that fetches, and what it fetched
- `group`                membership in a group: what both protocols have in common
- `classic`              the classic protocol (JoinGroup, SyncGroup)
- `kip848`               the consumer protocol (KIP-848); the two folders are laid out alike
- `assignors`            which member gets which partitions, under the classic protocol
- `threads`              the lock that the threads share, what keeps a second application thread out, worker threads

A consumer has these threads. The *application's* thread calls `Consumer.poll`, and runs listeners, callbacks,
deserializers and interceptors. The *fetch* thread keeps one request in flight to each leader; it has workers for
metadata, connecting and look-ups of offsets, so that it waits for no broker. The *heartbeat* thread keeps a member in
its group. One worker *commits* and reads committed offsets, and one *joins* (classic protocol). They share the state in
`subscription` under one lock (`threads.Monitor`).
"""

from kafkalog.client.consumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
)
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.consumer import Consumer
from kafkalog.client.consumer.errors import (
    CommitFailedError,
    LogTruncationError,
    NoOffsetForPartitionError,
    PositionOutOfRangeError,
    RetriableCommitFailedError,
    UnreadableBatchError,
    WakeupError,
)
from kafkalog.client.consumer.listener import RebalanceListener
from kafkalog.client.consumer.topic_filter import Blacklist, SubscriptionPattern, TopicFilter, Whitelist
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata

__all__ = [
    "Assignor",
    "Blacklist",
    "CommitFailedError",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "CooperativeStickyAssignor",
    "LogTruncationError",
    "NoOffsetForPartitionError",
    "OffsetAndMetadata",
    "PositionOutOfRangeError",
    "RangeAssignor",
    "RebalanceListener",
    "RebalanceProtocol",
    "RetriableCommitFailedError",
    "RoundRobinAssignor",
    "StickyAssignor",
    "SubscriptionPattern",
    "TopicFilter",
    "UnreadableBatchError",
    "WakeupError",
    "Whitelist",
]
