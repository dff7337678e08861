"""Fixtures of the broker tests: a raw connection and a fresh topic."""

from __future__ import annotations

import socket
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import create_topic


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Return a directory on a disk, whose pages can leave the page cache; `tmp_path` may be in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def wire(broker: KafkalogBroker) -> Iterator[socket.socket]:
    with broker.connect() as sock:
        yield sock


@pytest.fixture
def topic(wire: socket.socket) -> str:
    """Create a topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex}"
    create_topic(wire, name)
    return name
