"""Controllers over a simulated ZooKeeper, and simulated brokers that carry out what they are told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from broker.controller.cluster.model.assignments import is_being_reassigned
from broker.controller.cluster.model.context import PartitionKey
from broker.metadata.znodes import controller, paths, topics
from broker.metadata.znodes.topics import Assignment, StateNode, TopicNode
from broker.zookeeper.interface import Create, Operation, SetData
from tests.simulation import virtual_time
from tests.simulation.network import SimulatedNetwork
from tests.simulation.obedient_broker import ObedientBroker, running
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

DEADLINE_S = 200.0
"""In virtual time."""


class Cluster:
    """Brokers 1 to `count`, a ZooKeeper, and a client of it that does what tools do.

    Attributes:
        leaders: who was told to be the leader of a partition in an epoch.
    """

    def __init__(self, loop: VirtualLoop, seed: int, count: int = 3, **options: Any) -> None:
        self.chance = random.Random(seed)
        self.loop = loop
        self.ensemble = SimulatedEnsemble(loop, self.chance)
        self.network = SimulatedNetwork(loop, self.chance)
        self.tool = SimulatedSession(self.ensemble, 1e9)
        self.leaders: dict[tuple[PartitionKey, int], int] = {}
        self.faults: list[str] = []
        self.brokers: dict[int, ObedientBroker] = {}
        for broker_id in range(1, count + 1):
            self.brokers[broker_id] = ObedientBroker(
                broker_id,
                self.ensemble,
                self.network,
                self.chance,
                told=self._told,
                peers=self.brokers,
                **options,
            )

    def _told(self, broker_id: int, key: PartitionKey, leader: int, leader_epoch: int) -> None:
        """Check that there is one leader in each leader epoch (of a partition that is not created anew)."""
        known = self.leaders.setdefault((key, leader_epoch), leader)
        if known != leader:
            self.faults.append(f"{key} has leaders {known} and {leader} in epoch {leader_epoch}")

    async def start(self) -> None:
        for path in paths.PERSISTENT:
            self.make(path)
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))
        await self.until(lambda: self.active() is not None)

    async def close(self) -> None:
        for broker in running(self.brokers.values()):
            await broker.close()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition."""
        end = self.loop.time() + DEADLINE_S
        while not holds():
            assert self.loop.time() < end, self.amiss()
            await asyncio.sleep(0.05)

    def active(self) -> ObedientBroker | None:
        """Return the broker that is the controller, by what brokers think of themselves."""
        found = [each for each in running(self.brokers.values()) if each.controller.is_active]
        return found[0] if len(found) == 1 else None

    def boss(self) -> ObedientBroker:
        found = self.active()
        assert found is not None
        return found

    # The tree

    def make(self, path: str, data: bytes = b"") -> None:
        parent = path.rpartition("/")[0]
        if parent and not self.ensemble.exists(parent):
            self.make(parent)
        self.do(SetData(path, data) if self.ensemble.exists(path) else Create(path, data))

    def do(self, *operations: Operation) -> None:
        self.ensemble.carry_out(operations, self.tool.session_id)

    def make_topic(self, name: str, replicas: Sequence[Sequence[int]]) -> None:
        node = TopicNode(None, {index: Assignment(tuple(each)) for index, each in enumerate(replicas)})
        self.make(paths.topic(name), topics.encode_topic(node))

    def topic(self, name: str) -> TopicNode:
        return topics.decode_topic(name, self.ensemble.read(paths.topic(name)).data)

    def names(self) -> list[str]:
        return self.ensemble.names(paths.TOPICS)

    def state(self, name: str, index: int = 0) -> StateNode | None:
        path = paths.partition_state(name, index)
        if not self.ensemble.exists(path):
            return None
        node = self.ensemble.read(path)
        return topics.decode_state(name, index, node.data, node.stat.version)

    def states(self) -> dict[PartitionKey, StateNode | None]:
        return {
            (name, index): self.state(name, index) for name in self.names() for index in self.topic(name).partitions
        }

    def registered(self) -> set[int]:
        return {int(name) for name in self.ensemble.names(paths.BROKER_IDS)}

    # Whether all is well

    def is_settled(self) -> bool:
        """Return whether all brokers are alive, and know and do what ZooKeeper says."""
        return not self.amiss()

    def amiss(self) -> list[str]:
        """Return what is not in order yet."""
        boss = self.active()
        if (
            boss is None
            or not self.ensemble.exists(paths.CONTROLLER)
            or controller.decode(self.ensemble.read(paths.CONTROLLER).data) != boss.broker_id
        ):
            return ["no controller"]
        found = [f"{path} is left" for path in self.ensemble.names(paths.DELETE_TOPICS)]
        if self.ensemble.exists(paths.REASSIGN_PARTITIONS):
            found.append("a reassignment is ordered")
        if self.registered() != set(self.brokers):
            found.append(f"registered are {self.registered()}")
        states = self.states()
        for key, state in states.items():
            assignment = self.topic(key[0]).partitions[key[1]]
            members = set(assignment.replicas)
            if (
                state is None
                or is_being_reassigned(assignment)
                or state.leader not in members
                or set(state.isr) != members
            ):
                found.append(f"{key}: {assignment}, {state}")
        known = {key: (state.leader, state.isr) for key, state in states.items() if state}
        for broker in self.brokers.values():
            if broker.live != set(self.brokers):
                found.append(f"{broker.broker_id} knows of {broker.live}")
            if broker.metadata != known:
                found.append(f"{broker.broker_id} knows {broker.metadata}, not {known}")
            hosted = {key for key in states if broker.broker_id in self.topic(key[0]).partitions[key[1]].replicas}
            if broker.roles.keys() != hosted:
                found.append(f"{broker.broker_id} hosts {set(broker.roles)}, not {hosted}")
        return found


Scenario = Callable[[Cluster], Awaitable[None]]


def play(scenario: Scenario, seed: int = 1, **options: Any) -> None:
    """Run a scenario with a cluster that has started; no partition has two leaders in an epoch."""

    async def main(loop: VirtualLoop) -> None:
        cluster = Cluster(loop, seed, **options)
        await cluster.start()
        try:
            await scenario(cluster)
        finally:
            await cluster.close()
        assert not cluster.faults

    virtual_time.run(main)
