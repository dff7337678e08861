"""Records as producers of old versions send them, and topics that keep them."""

from __future__ import annotations

import socket
import uuid

from kafkalog.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from tests.support.wire import create_topic, exchange

TIME = 1_700_000_000_000


def sent(values: list[bytes], version: int, codec: Codec = Codec.NONE, first: int = 0) -> bytes:
    """Return the records as a producer puts them into a Produce request of that version."""
    records = [Record(at, TIME + first + at, b"k", value) for at, value in enumerate(values)]
    if version >= 3:
        return bytes(encode_batch(records, codec=codec))
    return bytes(encode_message_set(records, magic=1 if version == 2 else 0, codec=codec))


def topic_of(wire: socket.socket, **config: str) -> str:
    name = f"formats-{uuid.uuid4().hex}"
    create_topic(wire, name, 1, **config)
    return name


def alter(wire: socket.socket, topic: str, **config: str) -> None:
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
    assert exchange(wire, AlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
