"""Answers of a member that the controller has not told of the cluster yet; on simulated time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.api.cluster.unknown_cluster import PATIENCE_S
from broker.net.links.link_errors import LinkBrokenError
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkalog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.schema import Request
from tests.broker.member.simulated import Cluster, with_cluster
from tests.simulation.host import PORT

ABOUT_THE_CLUSTER = [
    (MetadataRequest(topics=None), 9),
    (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 4),
    (DescribeClusterRequest(), 0),
    (DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0),
    (FindCoordinatorRequest(key="g"), 2),
]


async def restart(cluster: Cluster) -> None:
    """Start member 3 anew. No controller tells it of anything."""
    await cluster.hosts[3].stop()
    await cluster.hosts[3].start()


def test_requests_about_the_cluster_wait_until_it_is_known(tmp_path: Path) -> None:
    """An answer without brokers makes librdkafka forget all that it knew; it never connects again."""

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        await restart(cluster)
        links = [cluster.hosts[3].link_to(PORT) for _ in ABOUT_THE_CLUSTER]
        waiting = [
            asyncio.ensure_future(link.send(request, max_version=version))
            for link, (request, version) in zip(links, ABOUT_THE_CLUSTER, strict=True)
        ]
        await asyncio.sleep(PATIENCE_S / 2)
        assert not any(each.done() for each in waiting)
        await cluster.tell_metadata(("t", 0), to=[3])
        everything, one, described, partitions, coordinator = await asyncio.gather(*waiting)
        for answer in (everything, one):
            assert [each.node_id for each in answer.brokers] == [1, 2, 3]
            assert [(each.name, each.error_code) for each in answer.topics] == [("t", ErrorCode.NONE)]
        assert [each.broker_id for each in described.brokers] == [1, 2, 3]
        assert [each.error_code for each in partitions.topics] == [ErrorCode.NONE]
        assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "this controller makes no topic"
        for link in links:
            await link.close()

    with_cluster(tmp_path, work)


@pytest.mark.parametrize(("about", "version"), ABOUT_THE_CLUSTER)
def test_in_the_end_the_client_is_sent_away(tmp_path: Path, about: Request, version: int) -> None:
    async def work(cluster: Cluster) -> None:
        await restart(cluster)
        link = cluster.hosts[3].link_to(PORT)
        # What is not about the cluster is answered.
        await link.send(ApiVersionsRequest(), max_version=3)
        with pytest.raises(LinkBrokenError, match="closed the connection"):
            await link.send(about, max_version=version)
        await link.close()

    with_cluster(tmp_path, work)
