"""Read a topic with librdkafka."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

DEADLINE_S = 240.0

Record = tuple[bytes | None, bytes | None, dict[str, bytes]]
"""Key, value, headers."""


def records_of(bootstrap: str, topic: str) -> list[Record]:
    """Return all records of all partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reading", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        left = sum(consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=20)[1] for each in partitions)
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[Record] = []
        end = time.monotonic() + DEADLINE_S
        while len(found) < left:
            assert time.monotonic() < end, f"read {len(found)} of {left} records"
            for message in consumer.consume(10_000, timeout=1):
                assert not message.error()
                found.append((message.key(), message.value(), dict(message.headers() or [])))  # type: ignore[arg-type]
        return found
    finally:
        consumer.close()
