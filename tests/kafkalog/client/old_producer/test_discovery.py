"""Test what the discovery does with registrations that are no use, in a session that only pretends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkalog.client.old_producer.discovery import Discovery
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.session import ZooKeeperSession
from kafkalog.client.zookeeper.steps import Children, Read
from kafkalog.zookeeper.values import NO_OWNER, Node, Stat
from tests.support.waiting import wait_until


class PretendedSession(ZooKeeperSession):
    """One broker is registered, with this endpoint."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.served: list[str] = []
        self.watched: Callable[[Any], None] = print

    def open(self, *, on_watch: Callable[[Any], None], on_state: Callable[..., None]) -> PretendedSession:
        self.watched = on_watch
        return self

    def perform(self, effect: Any) -> Any:
        if isinstance(effect, Children):
            return ["1"]
        assert isinstance(effect, Read)
        self.served.append(self.endpoint)
        return Node(json.dumps({"endpoints": [self.served[-1]]}).encode(), Stat(0, 0, 0, NO_OWNER))

    def close(self) -> None:
        pass


@pytest.mark.parametrize("endpoint", ["PLAINTEXT://there:99999", "PLAINTEXT://there:-1", "PLAINTEXT://:9092"])
def test_an_address_that_is_none_does_not_end_it(endpoint: str) -> None:
    told: list[str] = []

    def changed(bootstrap_servers: str, partitions: Mapping[str, int]) -> bool:
        told.append(bootstrap_servers)
        return False

    session = PretendedSession("PLAINTEXT://here:9092")
    with Discovery(session.open, "PLAINTEXT", changed) as discovery:
        session.endpoint = endpoint
        session.watched(nodes.BROKER_IDS)
        wait_until(lambda: endpoint in session.served, "it looks")
        session.endpoint = "PLAINTEXT://[::1]:9093"
        wait_until(lambda: discovery.bootstrap_servers == "[::1]:9093", "it looks again, without another change")
    assert told == ["[::1]:9093"]
