"""Whole brokers on simulated hosts: an unclean election asks them where their logs end."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.cluster.machine.partitions import UNCLEAN_KEY
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.controller.cluster.support import IDS, Cluster, play

DEBUGGING_REPLICA, LATEST = -2, -1


async def log_end(cluster: Cluster, number: int, version: int) -> tuple[int, int, int]:
    """Return what a replica, which leads or not, says of its end: error, leader epoch and offset."""
    request = ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA,
        topics=[ListOffsetsTopic(name="words", partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])],
    )
    answer = await cluster.hosts[number].ask(request, version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.offset


@pytest.mark.parametrize("compares", [True, False])
def test_the_longest_log_leads_although_another_replica_comes_first(tmp_path: Path, compares: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        state = cluster.partition("words")
        assert state is not None
        short, long = (number for number in state.replicas if number != state.leader)
        await cluster.produce("words", b"on all")
        await stop(cluster, short)
        await cluster.until_in_sync("words", {state.leader, long})
        await cluster.produce("words", b"on two")
        await stop(cluster, long)
        await cluster.until_in_sync("words", {state.leader})
        await cluster.produce("words", b"on the leader")
        await stop(cluster, state.leader)
        for number in (short, long):
            await cluster.hosts[number].start()
            cluster.running.add(number)
        await cluster.until(lambda: cluster.boss() is not None)
        await cluster.until(lambda: (found := cluster.partition("words")) is not None and found.leader < 0)
        assert await log_end(cluster, short, 9) == (0, 0, 1)
        assert await log_end(cluster, long, 9) == (0, 1, 2)
        assert await log_end(cluster, long, 3) == (0, -1, 2)
        boss = cluster.boss()
        assert boss is not None
        wanted = [TopicPartitions(topic="words", partitions=[0])]
        request = ElectLeadersRequest(election_type=1, topic_partitions=wanted, timeout_ms=10_000)
        answer = await cluster.hosts[boss].ask(request, 2)
        result = answer.replica_election_results[0].partition_result[0]
        assert result.error_code == 0, ErrorCode(result.error_code)
        await cluster.until_in_sync("words", {short, long})
        leader = long if compares else short
        assert (found := cluster.partition("words")) is not None
        assert found.leader == leader
        assert await log_end(cluster, short, 9) == await log_end(cluster, long, 9)
        controller = cluster.hosts[boss].server.broker.controller
        assert controller is not None
        known = controller.explain(("words", 0))
        assert known is not None
        cause = next(each.cause for each in known.changes if each.what.startswith("leader -1 ->"))
        assert (f"{long}: offset 2, last record of epoch 1" in cause) is compares
        assert f"replica {leader} " in cause

    play(tmp_path, scenario, settings={} if compares else {"kafkalog.unclean.recovery.timeout.ms": "0"})


def test_a_topic_that_allows_them_now_has_a_leader_at_once(tmp_path: Path) -> None:
    """The value is read as booleans are, whatever its case and the spaces around it."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words", 2)
        await cluster.until(lambda: cluster.partition("words") is not None)
        state = cluster.partition("words")
        assert state is not None
        await cluster.until_in_sync("words", set(state.replicas))
        (other,) = set(state.replicas) - {state.leader}
        await stop(cluster, other)
        await cluster.until_in_sync("words", {state.leader})
        await stop(cluster, state.leader)
        await cluster.hosts[other].start()
        cluster.running.add(other)
        await cluster.until(lambda: (found := cluster.partition("words")) is not None and found.leader < 0)
        await cluster.until(lambda: cluster.boss() is not None)
        config = AlterableConfig(name=UNCLEAN_KEY, config_operation=0, value=" TRUE")
        resource = AlterConfigsResource(resource_type=2, resource_name="words", configs=[config])
        boss = cluster.boss()
        assert boss is not None
        answer = await cluster.hosts[boss].ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, ErrorCode(answer.responses[0].error_code)
        await cluster.until(lambda: (found := cluster.partition("words")) is not None and found.leader == other)

    play(tmp_path, scenario)


async def stop(cluster: Cluster, number: int) -> None:
    cluster.running.discard(number)
    await cluster.hosts[number].stop()


def test_a_broker_without_such_a_log_says_so(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words", 1)
        await cluster.until(lambda: cluster.partition("words") is not None)
        state = cluster.partition("words")
        assert state is not None
        other = next(number for number in IDS if number not in state.replicas)
        assert await log_end(cluster, other, 9) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)

    play(tmp_path, scenario)
