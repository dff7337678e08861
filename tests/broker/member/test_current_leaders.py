"""Responses name the leaders of partitions that a broker does not lead, and their addresses (KIP-951)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.produce import PartitionProduceResponse
from tests.broker.member.simulated import TOPIC_ID, Cluster, with_cluster
from tests.simulation.host import PORT
from tests.support.wire import batch, fetch_request, produce_request

UNNAMED = (-1, -1)


def _named(response: Any, entry: Any) -> tuple[int, int]:
    """Return the leader and its epoch that an entry of a response names, and see that its address is there, too."""
    leader = (entry.current_leader.leader_id, entry.current_leader.leader_epoch)
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
    number = leader[0]
    assert nodes == ([] if leader == UNNAMED else [(number, f"host{number}", 9092, f"rack{number}")])
    return leader


async def _produce(cluster: Cluster, broker: int, topic: str = "t", version: int = 10) -> Any:
    records = batch([b"a"], timestamp=cluster.hosts[broker].server.runtime.now_ms())
    return await cluster.hosts[broker].ask(produce_request(topic, {0: records}), version)


def _entry(response: Any) -> PartitionProduceResponse:
    entry: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return entry


async def _produced(cluster: Cluster, broker: int, topic: str = "t", version: int = 10) -> tuple[int, tuple[int, int]]:
    response = await _produce(cluster, broker, topic, version)
    return _entry(response).error_code, _named(response, _entry(response))


async def _fetched(cluster: Cluster, broker: int, version: int = 16, epoch: int = -1) -> tuple[int, tuple[int, int]]:
    message = fetch_request("t", {0: 0}, max_wait_ms=1000)
    message.topics[0].topic_id = TOPIC_ID
    message.topics[0].partitions[0].current_leader_epoch = epoch
    response = await cluster.hosts[broker].ask(message, version)
    entry = response.responses[0].partitions[0]
    return entry.error_code, _named(response, entry)


def test_a_follower_and_a_broker_without_a_replica_name_the_leader(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        await cluster.elect("t", 1, (1, 2))
        assert await _produced(cluster, 1) == (0, UNNAMED)
        for broker in (2, 3):
            assert await _produced(cluster, broker) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (1, 1))
            assert await _produced(cluster, broker, version=9) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, UNNAMED)
            assert await _produced(cluster, broker, "u") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNNAMED)
        assert await _fetched(cluster, 3) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (1, 1))
        assert await _fetched(cluster, 3, version=15) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, UNNAMED)
        # A consumer may read from the follower; one with an older epoch learns the new one.
        assert await _fetched(cluster, 2) == (0, UNNAMED)
        for broker in (1, 2):
            assert await _fetched(cluster, broker, epoch=0) == (ErrorCode.FENCED_LEADER_EPOCH, (1, 1))

    with_cluster(tmp_path, work)


def test_what_a_broker_without_a_replica_answers(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        host = cluster.hosts[3]
        wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        listed = await host.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7)
        assert listed.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        path = str(host.server.config.log_dirs[0])
        directory = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
        moved = await host.ask(AlterReplicaLogDirsRequest(dirs=[directory]), 2)
        assert moved.results[0].partitions[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE

    with_cluster(tmp_path, work)


def test_a_producer_that_waits_for_followers_is_sent_to_the_new_leader(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        await cluster.hosts[2].stop()
        link = cluster.hosts[1].link_to(PORT)
        waiting = link.send(produce_request("t", {0: batch([b"a"])}, -1, 60_000), max_version=10)
        await asyncio.sleep(1)
        await cluster.elect("t", 3, (1, 3))
        response = await waiting
        assert _entry(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert _named(response, _entry(response)) == (3, 1)
        await link.close()
        await cluster.hosts[2].start()

    with_cluster(tmp_path, work)


@pytest.mark.parametrize("is_told", [True, False], ids=["of its death", "of nothing"])
def test_a_leader_that_may_be_dead_is_not_named(tmp_path: Path, is_told: bool) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        await cluster.until_equal("t", 1, 2)
        await cluster.hosts[1].stop()
        if is_told:
            await cluster.tell_metadata(("t", 0))
        await asyncio.sleep(0.3)
        assert await _produced(cluster, 2) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, UNNAMED)
        await cluster.hosts[1].start()

    with_cluster(tmp_path, work)


def test_a_leader_that_lost_its_registration_does_not_name_itself(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        await cluster.zookeeper.delete("/brokers/ids/1")
        await cluster.until(lambda: not leader.is_leader, "it stops leading")
        assert await _produced(cluster, 1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, UNNAMED)
        await cluster.until(lambda: cluster.hosts[1].server.registration.epoch > 0, "it registers again")
        # It hears of its successor by the metadata before its role is changed.
        await cluster.elect("t", 2, (1, 2), to=[2])
        await cluster.tell_metadata(("t", 0), to=[1])
        assert await _produced(cluster, 1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, 1))

    with_cluster(tmp_path, work)
