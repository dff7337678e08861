"""Helpers of the tests of clients."""

from __future__ import annotations

from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from peers.process import free_port
from tests.support.scripted import ScriptedBroker

TP = TopicPartition("t", 0)


def config_for(*brokers: ScriptedBroker | str, **properties: str) -> ClientConfig:
    servers = ",".join(broker if isinstance(broker, str) else broker.address for broker in brokers)
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return ClientConfig.from_dict({"bootstrap.servers": servers, "retry.backoff.ms": "1", **named})


def closed_port() -> str:
    return f"127.0.0.1:{free_port()}"
