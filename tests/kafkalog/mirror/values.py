"""Values that are written as a batch each."""

from __future__ import annotations

from kafkalog.client.producer import Producer
from kafkalog.client.types import ConsumerRecord

OWN = {"config_properties_exclude": "max.message.bytes,cleanup.policy"}
"""With these the target's topics are configured otherwise than the source's."""


def write_values(address: str, topic: str, values: list[bytes], key: bytes | None = b"k", partition: int = 0) -> None:
    """Write each value as a batch of its own."""
    with Producer({"bootstrap.servers": address}) as producer:
        for value in values:
            producer.send(topic, value, key, partition=partition).result()


def values_of(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]
