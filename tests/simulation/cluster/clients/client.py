"""The part that all simulated clients have: links to the brokers, and who leads what."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any

from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.schema import Request
from tests.simulation.cluster.clients.history import History, PartitionKey
from tests.simulation.cluster.hosts.machine import Machine, link
from tests.simulation.cluster.hosts.world import ProcessLoop
from tests.simulation.network import SimulatedNetwork

FAILURES = (KafkaError, LinkError, TimeoutError)
"""Errors that a client meets while brokers fail."""
PATIENCE_S = 6.0
PAUSE_S = 0.2
GROUP, TRANSACTION = 0, 1


def check(code: int) -> None:
    """Raise the error of a response, if it has one."""
    if code:
        raise error_for(code)


class Client:
    """A client on a host of its own.

    Attributes:
        name: the host's name.
        chance: decides what the client does.
    """

    def __init__(
        self,
        loop: ProcessLoop,
        network: SimulatedNetwork,
        machines: Iterable[Machine],
        history: History,
        name: str,
        seed: int,
        pace: float,
    ) -> None:
        self.loop = loop
        self.name = name
        self.history = history
        self.chance = random.Random(seed)
        self._network = network
        self._pace = pace
        self._machines = {machine.number: machine for machine in machines}
        self._links: dict[int, Link] = {}
        self._leaders: dict[PartitionKey, tuple[int, int]] = {}

    @property
    def brokers(self) -> Sequence[int]:
        return list(self._machines)

    async def ask(self, broker: int, request: Request, version: int, timeout: float = PATIENCE_S) -> Any:
        """Send a request to a broker; return its response. Raises what `FAILURES` lists."""
        found = self._links.get(broker)
        if found is None:
            found = self._links[broker] = link(self._network, self.loop, self.name, self._machines[broker], self.chance)
        return await found.send(request, max_version=version, timeout=timeout)

    async def ask_any(self, request: Request, version: int) -> Any:
        """Send a request to a broker of chance."""
        return await self.ask(self.chance.choice(self.brokers), request, version)

    async def leader(self, key: PartitionKey) -> tuple[int, int]:
        """Return who leads a partition, in which epoch, as far as this client knows."""
        if key not in self._leaders:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=key[0])], allow_auto_topic_creation=False)
            for topic in (await self.ask_any(request, 12)).topics:
                check(topic.error_code)
                for each in topic.partitions:
                    if each.leader_id in self._machines:
                        self._leaders[topic.name, each.partition_index] = each.leader_id, each.leader_epoch
        if key not in self._leaders:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        return self._leaders[key]

    def forget_leader(self, key: PartitionKey) -> None:
        """Ask anew who leads a partition."""
        self._leaders.pop(key, None)

    async def coordinator(self, kind: int, key: str) -> int:
        """Return the coordinator of a group or of a transactional producer."""
        answer = await self.ask_any(FindCoordinatorRequest(key=key, key_type=kind), 3)
        check(answer.error_code)
        found: int = answer.node_id
        if found not in self._machines:
            raise error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return found

    async def pause(self, longest: float = PAUSE_S) -> None:
        """Pause at this client's pace."""
        await asyncio.sleep(self._pace * self.chance.uniform(0, longest))

    async def close(self) -> None:
        for each in self._links.values():
            await each.close()
