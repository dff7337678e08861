"""A consumer: alone or as a member of a group.

- `consumer`      what users call, `inquiries` its questions about topics; `config` Kafka's consumer properties,
                  `listener` rebalances, `topic_filter` patterns
- `subscription`  what is wanted and where the consumer stands, `positions` and `chunk` what it is made of
- `polling`       what a poll does; `guard` who may call
- `beginnings`    where it begins; `taking` and `delivery` what was fetched, on its way to the application
- `fetching`      the thread that fetches; `leaders` its connections, `watching` metadata, `lookups` offsets of
                  timestamps, `validation` positions after a change of leaders (KIP-320)
- `coordinator`   the application's side of a membership, `commits` and `group` its requests
- `classic`       under the classic protocol: `joining` the group, `heartbeat`, `membership` the member's state,
                  `protocol` what members tell each other
- `modern`        under the consumer protocol (KIP-848)
- `assignors`     who gets which partitions
- `shared`        the threads' lock
- `errors`        what can go wrong in a consumer
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
