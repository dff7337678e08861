"""Fixtures of the client tests: a configuration for the running broker, and topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig


@pytest.fixture
def make_config(broker_address: str) -> Callable[..., ClientConfig]:
    """Make configurations for the running broker; property names are written with underscores."""

    def make(**properties: Any) -> ClientConfig:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        return ClientConfig.from_dict({"bootstrap.servers": broker_address, **named})

    return make


@pytest.fixture
def cluster(make_config: Callable[..., ClientConfig]) -> Iterator[Cluster]:
    with Cluster(make_config()) as opened:
        yield opened


@pytest.fixture
def admin(make_config: Callable[..., ClientConfig]) -> Iterator[Admin]:
    with Admin(make_config()) as opened:
        yield opened


@pytest.fixture
def new_topic(admin: Admin) -> Callable[..., str]:
    """Create topics that no other test uses; configurations are written with underscores."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"client-{uuid.uuid4().hex[:12]}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, named)])
        return name

    return make
