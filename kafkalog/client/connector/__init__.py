"""The high-level consumer of Kafka 0.8 (`ConsumerConnector`), whose groups live in ZooKeeper.

Members of a group share the partitions of their topics by nodes in ZooKeeper, and each member reads its partitions in
streams. A group may have members of Apache Kafka 0.8. New programs use `kafkalog.client.consumer.Consumer`, whose
groups are coordinated by brokers.

Pure:

- `subscription`        the topics of a member with their numbers of streams, or a filter of topics
- `assignment`          assigns the partitions to streams: range and roundrobin
- `member`              registers, rebalances and gives up, as steps
- `events`              selects the steps that follow from an event
- `lease`               tells how long a member may rely on its session
- `metrics`             the names of what a connector counts

With threads:

- `rebalance_listener`  what the application learns before partitions are released
- `config`              the properties, under Kafka 0.8's names and with its defaults
- `streams`             queues of fetched records, from which the application takes them
- `fetchers`            threads that fetch a stream's partitions
- `offset_stores`       committed offsets in ZooKeeper, in Kafka, or in both
- `connector`           `ConsumerConnector`, which holds all of it
"""

from __future__ import annotations

from kafkalog.client.connector.config import ConnectorConfig
from kafkalog.client.connector.connector import ConsumerConnector, MessageStreamsExistError
from kafkalog.client.connector.member import ConsumerRebalanceFailedError
from kafkalog.client.connector.rebalance_listener import ConnectorRebalanceListener
from kafkalog.client.connector.streams import ConsumerTimeoutError, MessageStream
from kafkalog.client.consumer.topic_filter import Blacklist, Whitelist

__all__ = [
    "Blacklist",
    "ConnectorConfig",
    "ConnectorRebalanceListener",
    "ConsumerConnector",
    "ConsumerRebalanceFailedError",
    "ConsumerTimeoutError",
    "MessageStream",
    "MessageStreamsExistError",
    "Whitelist",
]
