"""Test that a member of a cluster stops in time, whatever its clients or its controller wait for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.controller.cluster.succession import Succession
from broker.controller.cluster_topics import ClusterExecution
from broker.controller.decisions.elections import ElectionType
from kafkalog.protocol.errors import NotControllerError
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.controller.cluster.support import IDS, Cluster, play

SHUTDOWN_S = 5.0
SETTINGS = {"kafkalog.shutdown.timeout.ms": str(int(SHUTDOWN_S * 1000))}
FOREVER_MS = 2**31 - 1


async def stopped_within(cluster: Cluster, number: int, seconds: float) -> None:
    """Stop a broker. The seconds are of simulated time, so they tell nothing of the machine."""
    await cluster.hosts[number].link.close()
    async with asyncio.timeout(seconds):
        await cluster.hosts[number].stop()
    cluster.running.discard(number)


def test_a_client_that_waits_for_days_does_not_hold_the_stop_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for the leaders of a topic that it has created; a broker was lost that was to lead."""
    monkeypatch.setattr(ClusterExecution, "_have_leaders", lambda topics, name, new: False)

    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        assert boss is not None
        topic = CreatableTopic(name="words", num_partitions=1, replication_factor=3)
        asked = CreateTopicsRequest(topics=[topic], timeout_ms=FOREVER_MS)
        waiting = asyncio.ensure_future(cluster.hosts[boss].ask(asked, 7))
        await cluster.until_in_sync("words", set(IDS))
        await stopped_within(cluster, boss, 4 * SHUTDOWN_S)
        await asyncio.gather(waiting, return_exceptions=True)
        assert "1 requests are given up, because the broker stops" in caplog.text

    play(tmp_path, scenario, settings=SETTINGS)


def test_a_controller_stops_while_zookeeper_is_away(tmp_path: Path) -> None:
    """Its own request to leave waits for a decision that it cannot write."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        boss = cluster.boss()
        assert boss is not None
        for host in cluster.hosts.values():
            host.session.disconnect()
        await stopped_within(cluster, boss, 4 * SHUTDOWN_S)
        for number in sorted(cluster.running):
            await stopped_within(cluster, number, 4 * SHUTDOWN_S)

    play(tmp_path, scenario, settings=SETTINGS)


def test_a_request_that_comes_while_the_controller_stops_is_answered(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        assert boss is not None
        controller = cluster.hosts[boss].server.broker.controller
        assert controller is not None
        stopping = asyncio.ensure_future(controller.stop())
        await asyncio.sleep(0)
        assert controller.is_active
        async with asyncio.timeout(SHUTDOWN_S):
            with pytest.raises(NotControllerError):
                await controller.elect_leaders(None, ElectionType.PREFERRED)
        await stopping

    play(tmp_path, scenario, settings=SETTINGS)


def test_another_broker_is_the_controller_before_the_logs_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As brokers of Apache Kafka, the others do not look whether the controller's process listens."""

    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        assert boss is not None
        server, others = cluster.hosts[boss].server, set(IDS) - {boss}
        end, ended = server.broker.transactions.stop, False

        def controller_of_all() -> set[int]:
            return {cluster.hosts[number].server.store.state.controller_id for number in others}

        async def slow() -> None:
            nonlocal ended
            await cluster.until(lambda: len(controller_of_all()) == 1 and controller_of_all() <= others)
            assert cluster.ensemble.is_open(cluster.hosts[boss].session.session_id)
            await end()
            ended = True

        monkeypatch.setattr(server.broker.transactions, "stop", slow)
        await cluster.hosts[boss].link.close()
        await cluster.hosts[boss].stop()
        cluster.running.discard(boss)
        assert ended

    async def looks_not(watch: Succession) -> None: ...

    monkeypatch.setattr(Succession, "_look", looks_not)
    play(tmp_path, scenario, settings=SETTINGS)
