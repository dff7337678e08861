"""Whole brokers on simulated hosts, as a cluster of their own: one of them is the controller."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from broker.metadata.model import PartitionState
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.produce import ProduceResponse
from tests.simulation import virtual_time
from tests.simulation.host import SimulatedHost
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble
from tests.support.wire import batch, produce_request

IDS = (1, 2, 3)

DEADLINE_S = 120.0

SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "200",
    "controlled.shutdown.retry.backoff.ms": "200",
    "leader.imbalance.check.interval.seconds": "5",
    "offsets.topic.replication.factor": "1",
    # `tests.broker.member.reconciliation.test_reconciliation` has the tests of that.
    "kafkalog.role.check.interval.ms": "-1",
}


class Cluster:
    """Three brokers on simulated time."""

    def __init__(self, loop: VirtualLoop, directory: Path, protocol: str, settings: Mapping[str, str]) -> None:
        chance = random.Random(1)
        self.loop = loop
        self.ensemble = SimulatedEnsemble(loop, chance)
        network = SimulatedNetwork(loop, chance)
        self.hosts = {
            number: SimulatedHost(
                network,
                f"host{number}",
                directory / str(number),
                {"broker.id": str(number), "inter.broker.protocol.version": protocol, **SETTINGS, **settings},
                random.Random(number),
                self.ensemble,
            )
            for number in IDS
        }
        self.running = set(IDS)

    async def until(self, holds: Callable[[], bool]) -> None:
        end = self.loop.time() + DEADLINE_S
        while not holds():
            assert self.loop.time() < end
            await asyncio.sleep(0.05)

    def boss(self) -> int | None:
        """Return the controller, if all running brokers agree."""
        known = {self.hosts[number].server.store.state.controller_id for number in self.running}
        return known.pop() if len(known) == 1 and known <= self.running else None

    def partition(self, topic: str, index: int = 0, of: int | None = None) -> PartitionState | None:
        """Return a partition as a broker knows it."""
        number = min(self.running) if of is None else of
        return self.hosts[number].server.store.state.partition(topic, index)

    async def until_in_sync(self, topic: str, isr: set[int]) -> None:
        """Wait until all running brokers know that the partition has a leader and this ISR."""

        def holds() -> bool:
            found = [self.partition(topic, of=number) for number in self.running]
            return all(each is not None and each.leader in isr and set(each.isr) == isr for each in found)

        await self.until(holds)

    async def create(self, topic: str, factor: int = 3) -> None:
        boss = self.boss()
        assert boss is not None
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=factor)], timeout_ms=20_000
        )
        answer = await self.hosts[boss].ask(request, 7)
        assert answer.topics[0].error_code == 0, ErrorCode(answer.topics[0].error_code)

    async def produce(self, topic: str, value: bytes) -> int:
        """Write a record to the leader with acks=all; return its offset."""
        while True:
            state = self.partition(topic)
            if state is not None and state.leader in self.running:
                request = produce_request(topic, {0: batch([value])}, acks=-1)
                answer: ProduceResponse = await self.hosts[state.leader].ask(request, 9)
                found = answer.responses[0].partition_responses[0]
                if not found.error_code:
                    return found.base_offset
            await asyncio.sleep(0.1)


def play(
    directory: Path,
    scenario: Callable[[Cluster], Awaitable[None]],
    protocol: str = "3.9",
    settings: Mapping[str, str] | None = None,
) -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = Cluster(loop, directory, protocol, settings or {})
        for host in cluster.hosts.values():
            await host.start()
        await cluster.until(lambda: cluster.boss() is not None)
        await cluster.until(
            lambda: all(len(host.server.store.state.brokers) == len(IDS) for host in cluster.hosts.values())
        )
        await scenario(cluster)
        for number in cluster.running:
            await cluster.hosts[number].link.close()
        # The controller last: it moves the leaderships of the others.
        for number in sorted(cluster.running, key=lambda each: each == cluster.boss()):
            await cluster.hosts[number].stop()

    virtual_time.run(main)
