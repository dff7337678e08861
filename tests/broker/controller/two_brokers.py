"""Two brokers that share their metadata, for tests of configurations and quotas."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from broker.api.context import Broker
from broker.assembly import assemble
from broker.config.server import BrokerConfig
from broker.log.log import Log
from broker.log.log_manager import LogManager
from broker.metadata.cache import MetadataCache
from broker.metadata.model import BrokerRegistration, PartitionState, TopicState
from broker.metadata.operations import (
    ConfigResource,
    CreateTopic,
    Operation,
    RegisterBroker,
)
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from tests.support.in_process.node_store import Nodes, NodeStore

DEADLINE_S = 60
TOPIC, BROKER = ConfigResource.TOPIC, ConfigResource.BROKER
ONE = PartitionState((0,), (0,), 0, 0)


class Two:
    """Two brokers that share `Nodes`: the parts of one, and the store of the other."""

    def __init__(self, directory: Path) -> None:
        config = BrokerConfig({"log.dirs": str(directory)})
        nodes = Nodes()
        self.ours, self.other = NodeStore(nodes), NodeStore(nodes)
        self.logs = LogManager([directory], config.log_config({}), clock=lambda: 0)
        self.logs.load_all({})
        replicas = ReplicaManager(Runtime.of_process(2), 0, config, self.logs)
        self.cache = MetadataCache(self.ours.state)
        self.ours.subscribe(self.cache.update)
        applier = ReplicaApplier(replicas, self.cache.topic_config)
        self.broker: Broker = assemble(config, 0, self.ours, self.cache, replicas, applier)

    async def __aenter__(self) -> Self:
        await self.ours.commit(lambda state: [RegisterBroker(BrokerRegistration(0, ()))])
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.broker.publisher.stop()
        self.broker.workers.close(wait=True)
        self.logs.shutdown()

    async def host(self, *names: str) -> None:
        """Topics of one partition on this broker."""
        manager = self.broker.replicas
        for name in names:
            topic = TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), (ONE,))
            await self.ours.commit(lambda state, topic=topic: [CreateTopic(topic)])  # type: ignore[misc]
            manager.host_partition(name, 0, topic.topic_id, ONE, manager.topic_config({}, name), is_new=True)

    async def foreign(self, *operations: Operation) -> None:
        """The other broker commits, and this broker sees it."""
        self.other.look()
        await self.other.commit(lambda state: operations)
        self.ours.look()

    def log(self, name: str) -> Log:
        return self.broker.replicas.require(name, 0).log


def run(directory: Path, work: Callable[[Two], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S), Two(directory) as two:
            await work(two)

    asyncio.run(main())
