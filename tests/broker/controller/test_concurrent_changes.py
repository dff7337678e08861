"""Test that nothing that was answered is lost where several changes of topics, configurations and quotas meet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from broker.api.context import Broker
from broker.config.server import BrokerConfig
from broker.controller.alterations import Alteration, Op
from broker.controller.configs import ATTEMPTS, ResourceKind
from broker.controller.decisions.planning import NewTopic
from broker.controller.quotas import QuotaAlteration, QuotaController
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed
from broker.metadata.cache import MetadataCache
from broker.metadata.operations import SetClientQuota
from broker.quota.client import ClientQuotas
from broker.quota.connections import ConnectionRates
from broker.quota.entities import QuotaEntity
from broker.quota.measures import Window
from broker.runtime import Runtime
from broker.server import Server
from tests.support.in_process.node_store import Nodes, NodeStore

DEADLINE_S = 120
PARTITIONS = 100


def run(directory: Path, work: Callable[[Broker], Awaitable[None]]) -> None:
    """Run a broker in this process."""

    async def main() -> None:
        config = BrokerConfig({"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"})
        server = Server(config, Runtime.of_process(2))
        async with asyncio.timeout(DEADLINE_S):
            await server.start()
            try:
                await work(server.broker)
            finally:
                await server.stop()

    asyncio.run(main())


async def alter(broker: Broker, topic: str, retention_ms: int) -> list[Exception | None]:
    setting = Alteration("retention.ms", Op.SET, str(retention_ms))
    change = broker.configs.alteration(ResourceKind.TOPIC, topic, [setting])
    return await broker.configs.alter([change], validate_only=False)


def test_alterations_that_meet_are_all_stored(tmp_path: Path) -> None:
    """Each commit changes the state that all the others have checked against."""

    async def work(broker: Broker) -> None:
        names = [f"t{number}" for number in range(ATTEMPTS + 4)]
        await broker.topics.create([NewTopic(name, 1, 1) for name in names])
        altered = await asyncio.gather(*(alter(broker, name, 7) for name in names))
        assert altered == [[None]] * len(names)
        stored = [broker.metadata.image.topics[name].config for name in names]
        assert stored == [{"retention.ms": "7"}] * len(names)
        # A change that is wrong is refused then, too.
        refused = await asyncio.gather(*(alter(broker, name, 8) for name in names), alter(broker, "gone", 8))
        assert [type(result).__name__ for result in refused[-1]] == ["UnknownTopicOrPartitionError"]
        assert refused[:-1] == [[None]] * len(names)

    run(tmp_path, work)


def test_an_alteration_reaches_partitions_that_are_hosted_after_it(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        creating = asyncio.create_task(broker.topics.create([NewTopic("t", PARTITIONS, 1)]))
        while not broker.replicas.partitions_of("t"):
            await asyncio.sleep(0)
        assert await alter(broker, "t", 7) == [None]
        await creating
        hosted = broker.replicas.partitions_of("t")
        assert [partition.log.config.retention_ms for partition in hosted] == [7] * PARTITIONS

    run(tmp_path, work)


def test_a_topic_whose_configuration_cannot_be_applied_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(broker: Broker) -> None:
        await broker.topics.create([NewTopic(name, 1, 1) for name in ("wrong", "right")])
        reconfigure = broker.replicas.reconfigure

        def fail(topic: object) -> None:
            if getattr(topic, "name", None) == "wrong":
                raise RuntimeError("a defect")
            reconfigure(topic)  # type: ignore[arg-type]

        monkeypatch.setattr(broker.replicas, "reconfigure", fail)
        with caplog.at_level(logging.ERROR):
            await asyncio.gather(alter(broker, "wrong", 7), alter(broker, "right", 7))
        assert broker.replicas.require("right", 0).log.config.retention_ms == 7
        assert any("topic wrong could not be put in force" in record.getMessage() for record in caplog.records)

    run(tmp_path, work)


class SlowNames:
    """Host names of which the first takes until `answer` is set to look up."""

    def __init__(self) -> None:
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def addresses_of(self, hosts: Iterable[str]) -> dict[str, str]:
        hosts = set(hosts)
        if "slow.example" in hosts:
            self.asked.set()
            await self.answer.wait()
        return {host: "10.0.0.1" if host == "slow.example" else "10.0.0.2" for host in hosts}


def test_a_look_up_that_ends_late_keeps_the_addresses_found_meanwhile() -> None:
    async def work() -> None:
        slow = QuotaEntity.of([("ip", "slow.example")])
        nodes = Nodes()
        store = NodeStore(nodes)
        await store.commit(lambda state: [SetClientQuota(slow, {"connection_creation_rate": 1e-9})])
        cache, names = MetadataCache(store.state), SlowNames()
        window = Window(11, 1000)
        rates = ConnectionRates(window)
        quotas = QuotaController(names, store, cache, ClientQuotas(window, window), rates)  # type: ignore[arg-type]
        store.subscribe(cache.update)
        store.subscribe(lambda state, operations: quotas.install())
        looking = asyncio.create_task(quotas.look_up_hosts())
        await names.asked.wait()
        other = QuotaAlteration([("ip", "other.example")], [("connection_creation_rate", 1e-9)])
        assert await quotas.alter([other], validate_only=False) == [None]
        names.answer.set()
        await looking
        for address in ("10.0.0.1", "10.0.0.2"):
            assert any(rates.refused_ms(address, 0) for _ in range(10)), address

    asyncio.run(work())


def test_offsets_of_a_topic_that_is_made_anew_during_a_deletion_stay(tmp_path: Path) -> None:
    """The logs of many deleted topics are removed after the commit; the first may be there again long before that."""

    async def work(broker: Broker) -> None:
        await broker.groups.ready()
        names = [f"t{number}" for number in range(4 * PARTITIONS)]
        await broker.topics.create([NewTopic(name, 1, 1) for name in names])
        member = CommitRequest("", None, -1, 8)
        assert await broker.groups.commit("old", member, {("t1", 0): Committed(3, -1, "", 0)}) == {}
        deleting = asyncio.create_task(broker.topics.delete(names))
        while broker.metadata.topic("t0") is not None:
            await asyncio.sleep(0)
        creating = asyncio.create_task(broker.topics.create([NewTopic("t0", 1, 1)]))
        while broker.metadata.topic("t0") is None:
            await asyncio.sleep(0)
        assert await broker.groups.commit("new", member, {("t0", 0): Committed(7, -1, "", 0)}) == {}
        await asyncio.gather(deleting, creating)
        while broker.groups.offsets_of("old").partitions():
            await asyncio.sleep(0.001)
        assert broker.groups.offsets_of("new").partitions() == [("t0", 0)]

    run(tmp_path, work)
