"""Fixtures of the broker tests: a raw connection and a fresh topic."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest

from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import create_topic


@pytest.fixture
def wire(broker: KafkalogBroker) -> Iterator[socket.socket]:
    with broker.connect() as sock:
        yield sock


@pytest.fixture
def topic(wire: socket.socket) -> str:
    """A topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex}"
    create_topic(wire, name)
    return name
