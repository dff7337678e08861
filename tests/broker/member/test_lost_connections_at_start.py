"""A broker starts although its connection to ZooKeeper is lost meanwhile, whichever request that is; simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.metadata.znodes import paths, topics
from broker.metadata.znodes.topics import Assignment, TopicNode
from kafkalog.storage.topics import CONSUMER_OFFSETS
from kafkalog.zookeeper.security import PLAIN, Security
from tests.broker.member.simulated import SETTINGS, TOPIC_ID, Cluster, with_cluster
from tests.simulation.host import SimulatedHost
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

T = TypeVar("T")

OUTAGE_S = 0.2
PARTITIONS = 5
LEAST_REQUESTS = 20
"""A start sends more requests than that; otherwise the test does not see what it should."""


class Requests:
    """The requests of one process to ZooKeeper; the connection is lost at one of them."""

    def __init__(self, breaks_at: int) -> None:
        self.sent = 0
        self.breaks_at = breaks_at

    def count(self) -> bool:
        """Count one; return whether the connection is lost at it."""
        self.sent += 1
        return self.sent == self.breaks_at


class BreakingSession(SimulatedSession):
    """A session whose connection is lost for a moment, after a request was sent and before it is answered."""

    def __init__(self, ensemble: SimulatedEnsemble, timeout: float, requests: Requests) -> None:
        super().__init__(ensemble, timeout)
        self._requests = requests

    async def _request(self, carry_out: Callable[[], T]) -> T:
        if self._requests.count():
            # In the next turn the request is under way.
            self._loop.call_soon(self.disconnect)
            self._loop.call_later(OUTAGE_S, self.reconnect)
        return await super()._request(carry_out)


class BreakingHost(SimulatedHost):
    """A host whose broker loses its connection to ZooKeeper once."""

    requests: Requests

    async def _open_zookeeper(
        self, address: str, *, session_timeout: float, connect_timeout: float, security: Security = PLAIN
    ) -> SimulatedSession:
        assert self._ensemble is not None
        self.session = BreakingSession(self._ensemble, session_timeout, self.requests)
        return self.session


def test_a_broker_starts_whichever_of_its_requests_to_zookeeper_is_lost(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        node = TopicNode(TOPIC_ID, {index: Assignment((1,)) for index in range(PARTITIONS)})
        await cluster.zookeeper.create(paths.topic(CONSUMER_OFFSETS), topics.encode_topic(node))
        number = 0
        while True:
            number += 1
            requests = Requests(number)
            settings = {**SETTINGS, "broker.id": "4"}
            host = BreakingHost(
                cluster.network, "four", tmp_path / f"four-{number}", settings, random.Random(number), cluster.ensemble
            )
            host.requests = requests
            await host.start()
            sent = requests.sent
            assert (await cluster.alive())[4].endpoints[0].host == "four"
            await host.stop()
            await host.link.close()
            if sent < number:
                break
        assert number > LEAST_REQUESTS

    with_cluster(tmp_path, work)
