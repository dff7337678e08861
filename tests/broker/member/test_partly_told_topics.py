"""A broker counts the partitions of a coordinator's topic right, although it was told of a part of them; simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.coordinator.state_topic import partition_of
from broker.member.partition_counts import PartitionCounts
from broker.metadata.model import PartitionState
from broker.metadata.znodes import paths, topics
from broker.metadata.znodes.topics import Assignment, TopicNode
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.broker.member.simulated import TOPIC_ID, Cluster, with_cluster

PARTITIONS = 4
LEADERS = (2, 3, 2, 3)
"""The leader of each partition."""


async def find(cluster: Cluster, kind: int, key: str) -> tuple[int, int]:
    """Ask broker 1 for a coordinator; return the error and the broker."""
    answer = await cluster.hosts[1].ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
    (found,) = answer.coordinators
    return found.error_code, found.node_id


def test_a_partition_that_was_not_told_of_is_not_deleted(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        counts = PartitionCounts(cluster.zookeeper, cluster.loop, patience_s=1.0)
        assert await counts.is_absent("data", 0)
        await cluster.zookeeper.create(
            paths.topic("data"), topics.encode_topic(TopicNode(TOPIC_ID, {0: Assignment((2,))}))
        )
        assert not await counts.is_absent("data", 0)
        assert await counts.is_absent("data", 1)
        await cluster.zookeeper.create(paths.topic("odd"), b"no JSON")
        assert not await counts.is_absent("odd", 0)

    with_cluster(tmp_path, work)


@pytest.mark.parametrize(("kind", "topic"), [(0, CONSUMER_OFFSETS), (1, TRANSACTION_STATE)])
@pytest.mark.parametrize("loses_connection", [False, True])
def test_keys_belong_to_partitions_of_which_the_controller_has_not_told_yet(
    tmp_path: Path, kind: int, topic: str, loses_connection: bool
) -> None:
    async def work(cluster: Cluster) -> None:
        node = TopicNode(TOPIC_ID, {index: Assignment((leader,)) for index, leader in enumerate(LEADERS)})
        await cluster.zookeeper.create(paths.topic(topic), topics.encode_topic(node))
        for index, leader in enumerate(LEADERS):
            cluster.assigned[topic, index] = PartitionState((leader,), (leader,), leader, 0, 0, cluster.epoch)
        await cluster.tell_metadata((topic, 0))
        if loses_connection:
            cluster.hosts[1].session.disconnect()
            cluster.loop.call_later(1.0, cluster.hosts[1].session.reconnect)
        keys = {partition_of(f"key{number}", PARTITIONS): f"key{number}" for number in range(50)}
        for index in range(PARTITIONS):
            code, leader = await find(cluster, kind, keys[index])
            if index:
                assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE, index
            else:
                assert (code, leader) == (ErrorCode.NONE, LEADERS[0])
        await cluster.tell_metadata(*((topic, index) for index in range(1, PARTITIONS)))
        for index, leader in enumerate(LEADERS):
            assert await find(cluster, kind, keys[index]) == (ErrorCode.NONE, leader)

    with_cluster(tmp_path, work)
