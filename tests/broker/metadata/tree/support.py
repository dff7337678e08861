"""A store over a simulated ZooKeeper, and what the controller would tell it."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from broker.metadata.model import ClusterState, PartitionState, TopicState
from broker.metadata.operations import ConfigResource, CreateTopic, DeleteTopic, Operation, SetConfig
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import configs, controller, paths
from broker.metadata.znodes.topics import decode_topic
from broker.zookeeper.interface import ZooKeeper, ensure
from tests.simulation import virtual_time
from tests.simulation.virtual_time import EPOCH_MS, VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

SESSION_S = 6.0
BROKERS = (1, 2, 3)
CLUSTER = "cluster-of-tests"


class World:
    """A tree with a controller, and stores of brokers over it.

    Attributes:
        told: what the listeners of each store were told, by broker.
    """

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.ensemble = SimulatedEnsemble(loop, random.Random(seed))
        self.chance = random.Random(seed + 1)
        self.sessions: dict[int, SimulatedSession] = {}
        self.told: dict[int, list[Operation]] = {}

    def session(self) -> SimulatedSession:
        return SimulatedSession(self.ensemble, SESSION_S)

    async def prepare(self, zookeeper: ZooKeeper) -> None:
        """Create what brokers create at their start, and a controller."""
        for path in paths.PERSISTENT:
            await ensure(zookeeper, path)
        await zookeeper.create(paths.CONTROLLER, controller.encode(1, 0), is_ephemeral=True)

    async def store(self, broker_id: int = 1, **options: Any) -> ZooKeeperStore:
        session = self.sessions[broker_id] = self.session()
        store = ZooKeeperStore(
            session,
            broker_id=broker_id,
            cluster_id=CLUSTER,
            loop=self.loop,
            now_ms=lambda: EPOCH_MS + int(self.loop.time() * 1000),
            patience_s=20.0,
            **options,
        )
        told = self.told[broker_id] = []
        store.subscribe(lambda state, operations: told.extend(operations))
        await store.start()
        return store

    async def tell(self, store: ZooKeeperStore, zookeeper: ZooKeeper) -> None:
        """Tell a store of all topics in the tree, as a controller would."""
        topics = {}
        for name in await zookeeper.children(paths.TOPICS):
            node = await zookeeper.get(paths.topic(name))
            assert node is not None
            found = decode_topic(name, node.data)
            partitions = tuple(
                PartitionState(each.replicas, each.replicas, each.replicas[0]) for each in found.partitions.values()
            )
            assert found.topic_id is not None
            topics[name] = TopicState(name, found.topic_id, partitions)

        def merge(state: ClusterState) -> tuple[ClusterState, Sequence[Operation]]:
            same = {
                name: topic
                for name, topic in state.topics.items()
                if name in topics and topics[name].topic_id == topic.topic_id
            }
            gone = [DeleteTopic(name, topic.topic_id) for name, topic in state.topics.items() if name not in same]
            merged = {
                name: replace(topic, config=same[name].config if name in same else {}) for name, topic in topics.items()
            }
            new = [CreateTopic(topic) for name, topic in merged.items() if name not in same]
            return replace(state, topics=merged), [*gone, *new]

        store.publish(merge)


def run(main: Callable[[World], Coroutine[Any, Any, None]], seed: int = 0) -> None:
    """Run `main` in a world of its own, on simulated time."""

    async def body(loop: VirtualLoop) -> None:
        world = World(loop, seed)
        await asyncio.wait_for(world.prepare(world.session()), 60)
        await asyncio.wait_for(main(world), 36_000)

    virtual_time.run(body)


def new_topic(name: str, number: int, partitions: int = 2, config: dict[str, str] | None = None) -> TopicState:
    """Make a topic on all brokers, with an id that `number` determines."""
    one = PartitionState(BROKERS, BROKERS, BROKERS[0])
    return TopicState(name, uuid.UUID(int=1000 + number), (one,) * partitions, config or {})


def topic_config(name: str, **config: str) -> SetConfig:
    return SetConfig(ConfigResource.TOPIC, name, {key.replace("_", "."): value for key, value in config.items()})


def creating(topic: TopicState, state: ClusterState) -> list[CreateTopic]:
    return [] if topic.name in state.topics else [CreateTopic(topic)]


async def content(zookeeper: ZooKeeper, name: str) -> dict[str, str]:
    node = await zookeeper.get(f"/config/{name}")
    assert node is not None
    return configs.decode(name, node.data)


async def until(holds: object, what: str) -> None:
    assert callable(holds)
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"waited in vain: {what}")
