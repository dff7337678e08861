"""Metadata while a leader seems to be dead, and until there is another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.api import metadata
from broker.api.metadata import ELECTIONS_S
from broker.metadata.cache import LISTED_S
from broker.metadata.model import NO_LEADER
from broker.modes.cluster import ClusterMode
from broker.net.links.link_errors import LinkBrokenError
from broker.replica.fetching.fetcher import DOUBT_S
from broker.replica.fetching.fetchers import FollowerFetchers
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.member.simulated import Cluster, with_cluster
from tests.simulation.host import PORT


def test_a_leader_that_may_be_dead_is_told_to_no_client(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        assert await cluster.produce(1, "t", b"a") == 0
        await cluster.until_equal("t", 1, 2)

        async def leader() -> tuple[int, int]:
            found = (await cluster.hosts[2].ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)).topics[0]
            return found.partitions[0].error_code, found.partitions[0].leader_id

        assert await leader() == (ErrorCode.NONE, 1)
        # It listens, and fetches go on at once.
        mode = cluster.hosts[2].server.mode
        assert isinstance(mode, ClusterMode)
        fetchers = mode.member.fetchers
        lose_connections(fetchers)
        assert fetchers.doubted() == {1}
        # The answer waits until the follower has connected again.
        assert await leader() == (ErrorCode.NONE, 1)
        assert fetchers.doubted() == set()
        assert fetchers.troubled == 0
        # Nobody listens.
        await cluster.hosts[1].stop()
        began = cluster.loop.time()
        assert await leader() == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
        assert cluster.loop.time() - began == pytest.approx(ELECTIONS_S, abs=0.1)
        assert await leader() == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
        await asyncio.sleep(DOUBT_S / 2)
        assert await leader() == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
        # The controller must have noticed by now, if the leader is dead.
        await asyncio.sleep(DOUBT_S)
        assert await leader() == (ErrorCode.NONE, 1)
        await cluster.hosts[1].start()

    with_cluster(tmp_path, work)


def test_metadata_waits_for_the_next_leader_and_lists_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for all that the test does meanwhile.
    monkeypatch.setattr(metadata, "ELECTIONS_S", 5.0)

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        await cluster.create("other", (2, 3))
        await cluster.until_equal("t", 1, 2, 3)

        client, another = cluster.hosts[2].link_to(PORT), cluster.hosts[2].link_to(PORT)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        await cluster.hosts[1].stop()
        coming = client.send(asked, max_version=9)
        began = cluster.loop.time()
        of_other = await another.request(MetadataRequest(topics=[MetadataRequestTopic(name="other")]), max_version=9)
        assert of_other.topics[0].partitions[0].leader_id == 2
        assert cluster.loop.time() - began < 0.5, "no other topic waits"
        assert not coming.done()
        # A new controller tells first which brokers are alive.
        await cluster.tell_metadata(("t", 0), to=[2])
        await asyncio.sleep(0.1)
        assert not coming.done()
        await cluster.elect("t", 3, (2, 3), to=[2, 3])
        answer = await coming
        assert cluster.loop.time() - began < 5
        assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].leader_id) == (0, 3)
        assert [each.node_id for each in answer.brokers] == [1, 2, 3]
        described = await cluster.hosts[2].ask(DescribeClusterRequest(), 0)
        assert [each.broker_id for each in described.brokers] == [2, 3]
        await asyncio.sleep(LISTED_S)
        assert [each.node_id for each in (await client.request(asked, max_version=9)).brokers] == [2, 3]
        await client.close()
        await another.close()
        await cluster.hosts[1].start()

    with_cluster(tmp_path, work)


def test_a_leader_that_listens_again_is_in_doubt_no_more(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        await cluster.until_equal("t", 1, 2)
        mode = cluster.hosts[2].server.mode
        assert isinstance(mode, ClusterMode)
        fetchers, stopped_at = mode.member.fetchers, cluster.loop.time()
        await cluster.hosts[1].stop()
        await cluster.until(lambda: 1 in fetchers.doubted(), "the follower has lost the connection")
        # Long enough that the first attempt to connect again has failed.
        await asyncio.sleep(1)
        assert 1 in fetchers.doubted()
        await cluster.hosts[1].start()
        await cluster.until(lambda: 1 not in fetchers.doubted(), "a later attempt has connected")
        assert cluster.loop.time() < stopped_at + DOUBT_S

    with_cluster(tmp_path, work)


def lose_connections(fetchers: FollowerFetchers) -> None:
    for fetcher in fetchers._fetchers.values():
        channel = fetcher._link._channel
        assert channel is not None
        channel.fail(LinkBrokenError("the connection has ended"))
