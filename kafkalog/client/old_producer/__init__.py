"""The producer of Kafka 0.7 and 0.8 (`OldProducer`): its properties and its ways to send, over `producer`.

It is for programs and properties files of that time. New programs use `kafkalog.client.producer.Producer`, which does
the sending here, too.

- `config`        the properties, under the names of Kafka 0.8.2 and 0.7
- `partitioning`  the partition of a key, by Java's hash codes. Pure.
- `discovery`     the brokers in ZooKeeper, and watches of brokers and topics
- `metrics`       what it counts, under the names of Kafka 0.8.2
- `old_producer`  `OldProducer`: sends at once and waits (sync), or puts messages into a queue (async)
"""

from __future__ import annotations

from kafkalog.client.old_producer.config import OldProducerConfig
from kafkalog.client.old_producer.old_producer import (
    FailedToSendMessageError,
    KeyedMessage,
    OldProducer,
    QueueFullError,
)

__all__ = [
    "FailedToSendMessageError",
    "KeyedMessage",
    "OldProducer",
    "OldProducerConfig",
    "QueueFullError",
]
