"""Topics of a broker that is killed, and the records that it has afterwards."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafkalog_broker import KafkalogBroker

PARTITIONS = 3

DEADLINE_S = 240.0


def create_topic(broker: KafkalogBroker, name: str, partitions: int = PARTITIONS, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)


def read_all(broker: KafkalogBroker, topic: str, partition: int) -> dict[int, bytes]:
    """Every record of the partition, by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    records: dict[int, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return records
                continue
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            assert offset not in records
            records[offset] = value
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic}-{partition} was never reached")
