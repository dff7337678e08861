"""Members replicate what others of them lead, on simulated time; the test is the controller."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from broker.config.cluster import RACK_AWARE
from broker.modes.cluster import ClusterMode
from broker.net.links.link import Link, LinkSettings
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tests.broker.member.simulated import Cluster, with_cluster
from tests.simulation.host import PORT
from tests.support.wire import fetch_request

VERSIONS = ("0.11.0", "2.6")
"""The oldest and the newest protocol in which leaders write ISRs themselves."""


@pytest.mark.parametrize("protocol", VERSIONS)
def test_followers_have_what_the_leader_acknowledges(tmp_path: Path, protocol: str) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2, 3))
        for number in range(20):
            assert await cluster.produce(1, "t", b"%d" % number * 100) == 0
        assert leader.high_watermark == 20
        await cluster.until_equal("t", 1, 2, 3)
        assert await cluster.produce(2, "t", b"x") == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_cluster(tmp_path, work, protocol)


def test_a_follower_that_stops_leaves_the_isr_and_joins_again(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        assert await cluster.produce(1, "t", b"a") == 0
        await cluster.hosts[2].stop()
        # The leader waits for it until it is out of the ISR.
        assert await cluster.produce(1, "t", b"b") == 0
        await cluster.until_isr("t", [1])
        assert leader.high_watermark == 2
        assert await cluster.produce(1, "t", b"c") == 0
        await cluster.hosts[2].start()
        await cluster.tell_metadata(("t", 0))
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.until_isr("t", [1, 2])
        await cluster.until(lambda: leader.isr == {1, 2}, "the leader knows of it")
        await cluster.until_equal("t", 1, 2)

    with_cluster(tmp_path, work)


@pytest.mark.parametrize("protocol", VERSIONS)
def test_a_leader_that_was_replaced_drops_what_nobody_else_has(tmp_path: Path, protocol: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await cluster.produce(1, "t", b"kept") == 0
        # Only the leader has these: its followers follow another one before they can fetch them.
        await cluster.elect("t", 2, (2, 3), to=[2, 3])
        for number in range(3):
            assert await cluster.produce(1, "t", b"lost %d" % number, acks=1) == 0
        assert await cluster.produce(2, "t", b"new") == 0
        assert cluster.partition(1, "t").log.log_end_offset == 4
        await cluster.tell_metadata(("t", 0), to=[1])
        await cluster.tell_roles(("t", 0), to=[1])
        await cluster.until_equal("t", 1, 2, 3)
        assert b"lost" not in cluster.log(1, "t")
        assert cluster.partition(1, "t").log.log_end_offset == 2
        assert cluster.partition(1, "t").log.epochs.entries() == cluster.partition(2, "t").log.epochs.entries()

    with_cluster(tmp_path, work, protocol)


def test_a_batch_is_replicated_that_is_larger_than_what_other_links_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"max.message.bytes": "200000"})
        assert await cluster.produce(1, "t", random.Random(1).randbytes(100_000), acks=1) == 0
        await cluster.until_equal("t", 1, 2)
        assert cluster.partition(2, "t").log.log_end_offset == 1

    defaults = LinkSettings.__init__.__defaults__
    assert defaults is not None
    least = (50_000 if each == LinkSettings("").max_response_bytes else each for each in defaults)
    monkeypatch.setattr(LinkSettings.__init__, "__defaults__", tuple(least))
    with_cluster(tmp_path, work)


def test_partitions_that_cannot_be_fetched_for_the_same_reason_are_logged_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failover there are thousands, and a line for each delayed the loop."""

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        keys = [("t", index) for index in range(1, 8)]
        cluster.assigned.update(dict.fromkeys(keys, cluster.assigned["t", 0]))
        caplog.set_level(logging.INFO, logger="broker.replica.fetching.fetcher")
        await cluster.tell_metadata(*keys)
        # The leader does not know yet that it is one.
        await cluster.tell_roles(*keys, to=[2], is_new=True)
        mode = cluster.hosts[2].server.mode
        assert isinstance(mode, ClusterMode)
        await cluster.until(lambda: mode.member.fetchers.troubled == len(keys), "all have been asked for")
        lines = [each.getMessage() for each in caplog.records if "not fetched" in each.getMessage()]
        named = "t-1, t-2, t-3, t-4, t-5 and 2 more"
        why = "the leader answers NOT_LEADER_OR_FOLLOWER"
        assert lines == [f"{named} are not fetched from broker 1 at present: {why}"]

    with_cluster(tmp_path, work)


def test_deleted_records_are_deleted_on_all_replicas_before_the_answer(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await cluster.produce(1, "t", b"a", b"b") == 0
        assert await cluster.produce(1, "t", b"c") == 0
        wanted = DeleteRecordsPartition(partition_index=0, offset=2)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=30_000)
        answer = (await cluster.hosts[1].ask(request, 2)).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 2)
        assert [cluster.partition(number, "t").log.log_start_offset for number in (1, 2, 3)] == [2, 2, 2]
        await cluster.hosts[3].stop()
        wanted.offset, request.timeout_ms = 3, 100
        answer = (await cluster.hosts[1].ask(request, 2)).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 2)
        # A broker that is not alive deletes them when it comes back.
        await cluster.tell_metadata()
        request.timeout_ms = 30_000
        answer = (await cluster.hosts[1].ask(request, 2)).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 3)
        await cluster.hosts[3].start()
        await cluster.tell_metadata(("t", 0))
        await cluster.tell_roles(("t", 0), to=[3])
        await cluster.until(lambda: cluster.partition(3, "t").log.log_start_offset == 3, "3 deletes them")

    with_cluster(tmp_path, work)


def test_a_deletion_of_records_does_not_wait_for_a_broker_that_has_died_meanwhile(tmp_path: Path) -> None:
    """No other follower has to fetch for that: those that are at the end of the log may rest in their sessions."""

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await cluster.produce(1, "t", b"a", b"b") == 0
        await cluster.until_equal("t", 1, 2, 3)
        await cluster.hosts[3].stop()
        leader, leading = cluster.hosts[1], cluster.partition(1, "t").leading
        assert leading is not None
        # A client sends a request to a broker on another connection than the controller.
        client = leader.link_to(PORT)
        wanted = DeleteRecordsPartition(partition_index=0, offset=2)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=25_000)
        asked = client.send(request, max_version=2)
        resting = leader.server.replicas.resting
        await cluster.until(
            lambda: leading.followers[2].log_start_offset == 2 and len(resting) == 1,
            "the live follower has deleted them, and has nothing to fetch",
        )
        assert not asked.done()
        told_at = cluster.loop.time()
        await cluster.tell_metadata()
        assert leader.server.replicas.alive == frozenset((1, 2))
        answer = (await asked).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 2)
        assert cluster.loop.time() < told_at + 1
        await client.close()
        await cluster.hosts[3].start()

    with_cluster(tmp_path, work)


def test_a_follower_that_is_too_far_behind_begins_anew_where_its_leader_does(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        assert await cluster.produce(1, "t", b"old") == 0
        await cluster.until_equal("t", 1, 2)
        await cluster.hosts[2].stop()
        for number in range(3):
            assert await cluster.produce(1, "t", b"%d" % number) == 0
        leader.delete_records(3)
        await cluster.hosts[2].start()
        await cluster.tell_metadata(("t", 0))
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.until_isr("t", [1, 2])
        follower = cluster.partition(2, "t").log
        assert (follower.log_start_offset, follower.log_end_offset) == (3, 4)

    with_cluster(tmp_path, work)


def test_a_leader_that_was_not_in_sync_shortens_the_logs_of_its_followers(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        assert await cluster.produce(1, "t", b"both") == 0
        await cluster.until_equal("t", 1, 2)
        await cluster.hosts[2].stop()
        assert await cluster.produce(1, "t", b"first alone", b"and another") == 0
        await cluster.hosts[1].stop()
        await cluster.hosts[2].start()
        await cluster.tell_metadata(("t", 0))
        await cluster.elect("t", 2, (2,))
        assert await cluster.produce(2, "t", b"second alone") == 0
        await cluster.hosts[1].start()
        await cluster.tell_metadata(("t", 0))
        await cluster.tell_roles(("t", 0), to=[1])
        await cluster.until_equal("t", 1, 2)
        await cluster.until_isr("t", [1, 2])
        assert b"first alone" not in cluster.log(1, "t")

    with_cluster(tmp_path, work)


def test_a_leader_that_is_not_known_yet_is_followed_once_it_is(tmp_path: Path) -> None:
    """Apache Kafka's followers wait for the controller's next word on the partition."""

    async def work(cluster: Cluster) -> None:
        await cluster.hosts[1].stop()
        await cluster.tell_metadata()
        await cluster.hosts[1].start()
        # The followers have their roles before they know that the leader is alive.
        await cluster.create("t", (1, 2, 3), tell_metadata=False)
        produced = asyncio.ensure_future(cluster.produce(1, "t", b"a"))
        await asyncio.sleep(1)
        assert not produced.done()
        await cluster.tell_metadata(("t", 0))
        assert await produced == 0
        await cluster.until_equal("t", 1, 2, 3)

    with_cluster(tmp_path, work)


def test_a_follower_that_catches_up_keeps_to_the_throttle(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        config = {"leader.replication.throttled.replicas": "0:1"}
        await cluster.create("t", (1, 2), config)
        await cluster.hosts[2].stop()
        for number in range(40):
            assert await cluster.produce(1, "t", b"%d" % number * 50_000) == 0
        replicas = cluster.hosts[1].server.replicas
        replicas.reconfigure_broker(replicas.config.with_dynamic({"leader.replication.throttled.rate": "100000"}))
        began = cluster.loop.time()
        await cluster.hosts[2].start()
        await cluster.tell_metadata(("t", 0))
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.until_isr("t", [1, 2])
        # Two fetches of 1 MB fill the windows of 11 s.
        assert cluster.loop.time() - began > 10
        # Replicas in sync are not held back.
        began = cluster.loop.time()
        for number in range(10):
            assert await cluster.produce(1, "t", b"%d" % number * 50_000) == 0
        assert cluster.loop.time() - began < 5

    with_cluster(tmp_path, work)


def test_a_throttled_follower_waits_by_itself(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"follower.replication.throttled.replicas": "*"})
        await cluster.hosts[2].stop()
        for number in range(40):
            assert await cluster.produce(1, "t", b"%d" % number * 50_000) == 0
        assert cluster.partition(1, "t").log.size > 3_000_000
        began = cluster.loop.time()
        await cluster.hosts[2].start()
        replicas = cluster.hosts[2].server.replicas
        replicas.reconfigure_broker(replicas.config.with_dynamic({"follower.replication.throttled.rate": "100000"}))
        await cluster.tell_metadata(("t", 0))
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.until_isr("t", [1, 2])
        # Two fetches of 1 MB fill the windows of 11 s.
        assert cluster.loop.time() - began > 10

    with_cluster(tmp_path, work)


def test_a_broker_that_leaves_begins_to_follow_nobody(tmp_path: Path) -> None:
    """The high watermark of the new leader would wait for it: producers waited 30 s for their acknowledgements."""

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await cluster.produce(1, "t", b"a") == 0
        await cluster.hosts[1].server.mode.leave()
        await cluster.elect("t", 2, (2, 3))
        assert cluster.partition(1, "t").leader == 2
        for number in range(3):
            assert await asyncio.wait_for(cluster.produce(2, "t", b"%d" % number), 5) == 0
        assert cluster.partition(1, "t").log.log_end_offset == 1
        leading = cluster.partition(2, "t").leading
        assert leading is not None
        assert leading.followers[1].last_fetch_ms < 0, "it has not fetched from the new leader"

    with_cluster(tmp_path, work)


def test_consumers_read_from_a_follower_in_their_rack(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2, 3))
        assert await cluster.produce(1, "t", b"a") == 0
        await cluster.until_equal("t", 1, 2, 3)

        async def fetch(broker: int, rack: str, offset: int = 0, version: int = 11) -> PartitionData:
            message = fetch_request("t", {0: offset}, rack_id=rack, max_wait_ms=60_000)
            response: FetchResponse = await cluster.hosts[broker].ask(message, version)
            return response.responses[0].partitions[0]

        began = cluster.loop.time()
        told = await fetch(1, "rack2")
        assert (told.preferred_read_replica, len(told.records or b"")) == (2, 0)
        assert (await fetch(1, "rack2", 1)).preferred_read_replica == 2, "it has the offset, too"
        assert cluster.loop.time() - began < 5, "there is nothing to wait for"
        for broker, rack in ((1, "rack1"), (1, "elsewhere"), (2, "rack2"), (2, "rack1")):
            told = await fetch(broker, rack)
            assert (told.error_code, told.preferred_read_replica, told.high_watermark) == (0, -1, 1)
            assert len(told.records or b"") > 0
        assert (await fetch(2, "rack2", 5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await fetch(2, "", version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_cluster(tmp_path, work, settings={"replica.selector.class": RACK_AWARE})


def test_a_consumer_that_waits_at_a_follower_gets_what_comes(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        waits = fetch_request("t", {0: 0}, rack_id="rack2", max_wait_ms=60_000)
        coming = asyncio.ensure_future(cluster.hosts[2].ask(waits, 11))
        await asyncio.sleep(0.1)
        assert await cluster.produce(1, "t", b"a") == 0
        assert len((await coming).responses[0].partitions[0].records) > 0
        assert cluster.loop.time() < 5

    with_cluster(tmp_path, work)


def test_what_a_follower_has_told_to_have_is_flushed_where_the_topic_asks_for_it(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"flush.messages": "1"})
        for number in range(5):
            assert await cluster.produce(1, "t", b"%d" % number) == 0
            assert cluster.partition(2, "t").log.recovery_point == number + 1

    with_cluster(tmp_path, work)


def test_the_number_of_connections_to_a_leader_changes_while_they_are_used(tmp_path: Path) -> None:
    topics = [f"topic-{number}" for number in range(12)]

    async def work(cluster: Cluster) -> None:
        for topic in topics:
            await cluster.create(topic, (1, 2))
        mode = cluster.hosts[2].server.mode
        assert isinstance(mode, ClusterMode)
        fetchers, replicas = mode.member.fetchers, cluster.hosts[2].server.replicas
        assert fetchers.connections == 1
        for count in (4, 2, 1):
            producing = asyncio.gather(*(cluster.produce(1, topic, b"a") for topic in topics))
            await asyncio.sleep(0.001)
            replicas.reconfigure_broker(replicas.config.with_dynamic({"num.replica.fetchers": str(count)}))
            assert await producing == [0] * len(topics), "each is acknowledged by the follower"
            await cluster.until(lambda wanted=count: fetchers.connections == wanted, f"{count} connections")  # type: ignore[misc]
            for topic in topics:
                assert await cluster.produce(1, topic, b"b") == 0
                await cluster.until_equal(topic, 1, 2)
        assert fetchers.troubled == 0

    with_cluster(tmp_path, work)


def test_a_connection_that_lost_its_last_partitions_one_after_the_other_ends_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A log goes offline some time before the end of its role is told of; another partition goes in between."""

    async def work(cluster: Cluster) -> None:
        for topic in ("a", "b"):
            await cluster.create(topic, (1, 2))
            assert await cluster.produce(1, topic, b"x") == 0
            await cluster.until_equal(topic, 1, 2)
        cluster.partition(2, "a").log.offline = "the test says so"
        await asyncio.sleep(2)
        assert await cluster.stop_replica("b", 0, 2, epoch=-2, delete=False) == 0
        await asyncio.sleep(2)
        assert await cluster.stop_replica("a", 0, 2, epoch=-2, delete=False) == 0
        assert "is not taken over" not in caplog.text

    with_cluster(tmp_path, work)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR])
def test_a_leader_that_refuses_every_session_is_asked_after_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    asked = 0
    request = Link.request

    async def refusing(self: Link, message: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal asked
        if not isinstance(message, FetchRequest):
            return await request(self, message, *arguments, **named)
        asked += 1
        await asyncio.sleep(0.001)
        return FetchResponse(error_code=code)

    async def work(cluster: Cluster) -> None:
        monkeypatch.setattr(Link, "request", refusing)
        await cluster.create("t", (1, 2))
        await asyncio.sleep(2)
        assert 5 <= asked <= 13, "replica.fetch.backoff.ms is 200, after two shorter pauses"

    with_cluster(tmp_path, work)
