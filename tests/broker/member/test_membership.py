"""Registration of a member, its refusals, and its end if the cluster takes it for dead; on simulated time."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.metadata.model import PartitionState
from broker.metadata.znodes import brokers, paths
from broker.metadata.znodes.notices import decode_log_dir_event
from broker.replica.hosting.log_dirs import alter_log_dir
from broker.zookeeper.interface import Create, Delete, Operation, Result
from kafkalog.protocol.errors import ErrorCode, NotLeaderOrFollowerError
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.stop_replica import StopReplicaRequest
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkalog.storage.names import CLEAN_SHUTDOWN
from kafkalog.storage.properties import format_partition_metadata
from tests.broker.log.support import FaultyOps
from tests.broker.member.simulated import SETTINGS, TOPIC_ID, Cluster, with_cluster
from tests.simulation.host import SimulatedHost
from tests.support.wire import batch


def test_members_share_a_cluster(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        alive = await cluster.alive()
        assert sorted(alive) == [1, 2, 3]
        assert len({host.server.store.state.cluster_id for host in cluster.hosts.values()}) == 1
        for number, host in cluster.hosts.items():
            assert host.server.registration.epoch == alive[number].epoch
            metadata = await host.ask(MetadataRequest(topics=[]), 9)
            assert [each.node_id for each in metadata.brokers] == [1, 2, 3]
            assert metadata.controller_id == 1
            assert metadata.cluster_id == host.server.store.state.cluster_id
            meta = (tmp_path / str(number) / "meta.properties").read_text()
            assert "version=0" in meta
            assert f"broker.id={number}" in meta
            assert f"cluster.id={metadata.cluster_id}" in meta

    with_cluster(tmp_path, work)


def test_a_broker_without_an_id_gets_a_new_one_and_keeps_it(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        host = SimulatedHost(cluster.network, "four", tmp_path / "four", SETTINGS, random.Random(4), cluster.ensemble)
        await host.start()
        assert host.server.broker_id == 1001
        await host.stop()
        await host.start()
        assert host.server.broker_id == 1001
        await host.stop()
        other = SimulatedHost(cluster.network, "five", tmp_path / "five", SETTINGS, random.Random(4), cluster.ensemble)
        await other.start()
        assert other.server.broker_id == 1002
        await other.stop()
        await host.link.close()
        await other.link.close()

    with_cluster(tmp_path, work)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"broker.id": "2"}, "Another broker is registered as 2"),
        ({"broker.id": "1001"}, "reserved.broker.max.id"),
        ({"broker.id.generation.enable": "false"}, "broker.id must be set"),
        ({"broker.id": "4", "advertised.listeners": "PLAINTEXT://host2:9092"}, "broker 2 of this cluster"),
    ],
)
def test_a_start_that_would_disturb_others_is_refused(tmp_path: Path, settings: dict[str, str], message: str) -> None:
    async def work(cluster: Cluster) -> None:
        both = {**SETTINGS, **settings}
        host = SimulatedHost(cluster.network, "four", tmp_path / "four", both, random.Random(4), cluster.ensemble)
        with pytest.raises(ConfigError, match=message):
            await host.start()
        assert sorted(await cluster.alive()) == [1, 2, 3]
        assert host.server.logs.is_loaded is (tmp_path / "four" / CLEAN_SHUTDOWN).exists()
        await host.link.close()

    with_cluster(tmp_path, work)


def test_a_start_that_fails_after_the_registration_ends_it(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            settings = {**SETTINGS, "broker.id": "4", "kafkalog.metrics.listener": f"127.0.0.1:{port}"}
            host = SimulatedHost(
                cluster.network, "four", tmp_path / "four", settings, random.Random(4), cluster.ensemble
            )
            with pytest.raises(ConfigError, match="cannot serve metrics"):
                await host.start()
        assert sorted(await cluster.alive()) == [1, 2, 3]
        assert (tmp_path / "four" / CLEAN_SHUTDOWN).exists()
        await host.link.close()

    with_cluster(tmp_path, work)


def test_directories_of_another_cluster_are_refused(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.hosts[3].stop()
        meta = tmp_path / "3" / "meta.properties"
        cluster_id = cluster.hosts[1].server.store.state.cluster_id
        meta.write_text(meta.read_text().replace(cluster_id, "a-cluster-of-before---"))
        with pytest.raises(Exception, match=r"says cluster.id=a-cluster-of-before---"):
            await cluster.hosts[3].start()
        meta.write_text(meta.read_text().replace("a-cluster-of-before---", cluster_id))
        await cluster.hosts[3].start()

    with_cluster(tmp_path, work)


def test_a_member_whose_node_is_gone_stops_leading_and_registers_again(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        epoch = (await cluster.alive())[1].epoch
        await cluster.zookeeper.delete(paths.broker_id(1))
        await cluster.until(lambda: not leader.is_leader, "it stops leading")
        await cluster.until(lambda: cluster.hosts[1].server.registration.epoch > epoch, "it registers again")
        assert await cluster.produce(1, "t", b"a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # A controller that has not noticed sends the state of before.
        assert await cluster.tell_roles(("t", 0), to=[1]) == {1: [0]}
        assert leader.is_leader
        assert await cluster.produce(1, "t", b"a") == 0

    with_cluster(tmp_path, work)


def test_a_member_whose_session_expires_stops_leading_before_it_registers_again(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        session, epoch = cluster.hosts[1].session, (await cluster.alive())[1].epoch
        session.disconnect()
        await asyncio.sleep(5)
        session.reconnect()
        await asyncio.sleep(1)
        assert leader.is_leader, "the session goes on"
        assert (await cluster.alive())[1].epoch == epoch
        session.disconnect()
        await asyncio.sleep(7)
        assert 1 not in await cluster.alive()
        session.reconnect()
        await cluster.until(lambda: not leader.is_leader, "it stops leading")
        await cluster.until(lambda: cluster.hosts[1].server.registration.epoch > epoch, "it registers again")
        # Its watch is set again.
        await cluster.zookeeper.delete(paths.broker_id(1))
        newer = cluster.hosts[1].server.registration.epoch
        await cluster.until(lambda: cluster.hosts[1].server.registration.epoch > newer, "it registers once more")

    with_cluster(tmp_path, work)


def test_roles_may_arrive_before_the_broker_knows_that_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        session, epoch = cluster.hosts[1].session, (await cluster.alive())[1].epoch
        registering, is_told = session.multi, asyncio.Event()

        async def answered_late(operations: Sequence[Operation]) -> list[Result]:
            results = await registering(operations)
            await is_told.wait()
            return results

        monkeypatch.setattr(session, "multi", answered_late)
        session.disconnect()
        await asyncio.sleep(7)
        session.reconnect()
        while (found := (await cluster.alive()).get(1)) is None or found.epoch == epoch:
            await asyncio.sleep(0.01)
        await cluster.elect("t", 2, (2,), to=[2])
        telling = asyncio.ensure_future(cluster.tell_metadata(("t", 0), to=[1]))
        following = asyncio.ensure_future(cluster.tell_roles(("t", 0), to=[1]))
        await asyncio.sleep(1)
        assert cluster.hosts[1].server.registration.epoch < 0
        assert not telling.done()
        assert not following.done()
        is_told.set()
        await telling
        assert await following == {1: [0]}
        await cluster.until_isr("t", {1, 2})

    with_cluster(tmp_path, work)


def test_a_leader_that_is_cut_off_stops_before_another_may_be_elected(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        session, epoch = cluster.hosts[1].session, (await cluster.alive())[1].epoch
        before, cut_off_at = session.session_id, cluster.loop.time()
        session.disconnect()
        while leader.is_leader:
            assert 1 in await cluster.alive(), "nobody else may be elected yet"
            await asyncio.sleep(0.01)
        assert cluster.loop.time() - cut_off_at > 5, "a shorter loss of the connection changes nothing"
        assert await cluster.produce(1, "t", b"lost", acks=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert cluster.hosts[1].server.registration.epoch == -1
        session.reconnect()
        await cluster.until(lambda: cluster.hosts[1].server.registration.epoch > epoch, "it begins a new life")
        assert session.session_id == before, "in the session of before"
        assert (await cluster.alive())[1].epoch == cluster.hosts[1].server.registration.epoch
        assert await cluster.tell_roles(("t", 0), to=[1]) == {1: [0]}
        assert await cluster.produce(1, "t", b"kept", acks=1) == 0

    with_cluster(tmp_path, work)


def test_a_broker_without_zookeeper_stops_when_it_leads_nothing_any_more(tmp_path: Path) -> None:
    settings = {"controlled.shutdown.enable": "true", "controlled.shutdown.retry.backoff.ms": "60000"}

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        cluster.hosts[1].session.disconnect()
        began = cluster.loop.time()
        # Its controller has no office and refuses. Three questions would take two minutes.
        await cluster.hosts[1].stop()
        assert cluster.loop.time() - began < 10
        await cluster.hosts[1].start()

    with_cluster(tmp_path, work, settings=settings)


def test_a_leader_that_was_frozen_appends_nothing_before_it_notices(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        assert await cluster.produce(1, "t", b"kept", acks=1) == 0
        cluster.loop.freeze(7)
        # Requests that wait in sockets are served before the timers.
        with pytest.raises(NotLeaderOrFollowerError):
            leader.append(memoryview(batch([b"lost"])), 1, 0)
        assert leader.is_leader, "the timer has not run yet"
        await cluster.until(lambda: not leader.is_leader, "it stops leading")
        assert leader.log.log_end_offset == 1

    with_cluster(tmp_path, work)


def test_without_a_lease_a_leader_that_is_cut_off_goes_on(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2))
        cluster.hosts[1].session.disconnect()
        await asyncio.sleep(60)
        assert leader.is_leader
        assert await cluster.produce(1, "t", b"x", acks=1) == 0
        cluster.hosts[1].session.reconnect()
        await cluster.until(lambda: not leader.is_leader, "it learns of the end of its session")

    with_cluster(tmp_path, work, settings={"kafkalog.leader.lease.enable": "false"})


def test_a_role_is_not_taken_in_a_life_that_ends_meanwhile(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        host, session = cluster.hosts[1], cluster.hosts[1].session
        cluster.assigned["t", 0] = PartitionState((1, 2), (1, 2), 1, 0, 0, 1)
        # The session expires before the patience with the lost connection is over.
        session.silence()
        await asyncio.sleep(4)
        session.disconnect()
        # It waits for the topic's configuration.
        asked = asyncio.ensure_future(cluster.tell_roles(("t", 0), to=[1], is_new=True))
        await asyncio.sleep(4)
        assert not asked.done()
        session.reconnect()
        assert await asked == {}, "STALE_BROKER_EPOCH"
        assert host.server.replicas.get("t", 0) is None
        await cluster.until(lambda: host.server.registration.epoch >= 0, "it registers again")
        assert await cluster.tell_roles(("t", 0), to=[1], is_new=True) == {1: [0]}

    with_cluster(tmp_path, work)


def test_a_broker_that_was_killed_is_registered_at_once_when_it_starts_again(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        host = cluster.hosts[3]
        before = (await cluster.alive())[3]
        await host.stop()
        # What a process leaves that ends without a word: its session has not expired.
        data = brokers.encode(before, 0)
        left = cluster.zookeeper
        await left.create(paths.broker_id(3), data, is_ephemeral=True)
        await host.start()
        after = (await cluster.alive())[3]
        assert after.epoch > before.epoch
        assert host.server.registration == after

    with_cluster(tmp_path, work)


def test_a_broker_that_was_replaced_does_not_fight_for_its_registration(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        host, before = cluster.hosts[3], (await cluster.alive())[3]
        # Another process with the same addresses, such as the next container of the same service, was faster.
        path = paths.broker_id(3)
        await cluster.zookeeper.multi([Delete(path), Create(path, brokers.encode(before, 0), is_ephemeral=True)])
        other = (await cluster.alive())[3]
        await asyncio.sleep(5)
        assert (await cluster.alive())[3] == other
        assert host.server.registration.epoch == -1
        late = UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=before.epoch)
        assert (await host.ask(late, 7)).error_code == ErrorCode.STALE_BROKER_EPOCH
        await cluster.zookeeper.delete(paths.broker_id(3))
        await cluster.until(lambda: host.server.registration.epoch > other.epoch, "it registers when it may")

    with_cluster(tmp_path, work)


def test_requests_of_the_past_are_refused_as_a_whole(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        host, epoch = cluster.hosts[1], (await cluster.alive())[1].epoch
        for kind, version in ((LeaderAndIsrRequest, 5), (StopReplicaRequest, 3), (UpdateMetadataRequest, 7)):
            for broker_epoch, controller_epoch, code in (
                (epoch - 1, 1, ErrorCode.STALE_BROKER_EPOCH),
                (epoch, 0, ErrorCode.STALE_CONTROLLER_EPOCH),
            ):
                answer = await host.ask(
                    kind(controller_id=1, controller_epoch=controller_epoch, broker_epoch=broker_epoch), version
                )
                assert answer.error_code == code, kind
            # The controller may know of a registration before the broker does.
            later = kind(controller_id=1, controller_epoch=1, broker_epoch=epoch + 1)
            assert (await host.ask(later, version)).error_code == 0

    with_cluster(tmp_path, work)


def test_roles_that_are_not_newer_are_refused_one_by_one(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        assert await cluster.tell_roles(("t", 0)) == {1: [ErrorCode.STALE_CONTROLLER_EPOCH]} | {
            2: [ErrorCode.STALE_CONTROLLER_EPOCH]
        }
        assert await cluster.stop_replica("t", 0, 2, epoch=-2, delete=True) == 0
        assert cluster.hosts[2].server.replicas.get("t", 0) is None
        assert not list((tmp_path / "2").glob("t-0"))
        await cluster.elect("t", 1, (1, 2))
        await cluster.until_equal("t", 1, 2)
        assert await cluster.stop_replica("t", 0, 2, epoch=0, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
        assert await cluster.stop_replica("t", 0, 2, epoch=1, delete=False) == 0
        assert cluster.hosts[2].server.logs.get("t", 0) is not None

    with_cluster(tmp_path, work)


def test_the_controller_is_told_of_a_failed_log_directory(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        settings = {**SETTINGS, "broker.id": "4", "log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
        host = SimulatedHost(cluster.network, "four", tmp_path, settings, random.Random(4), cluster.ensemble)
        await host.start()
        cluster.hosts[4] = host
        await cluster.create("t", (4, 1))
        failed = cluster.partition(4, "t").log.log_dir
        host.server.logs.fail_directory(failed, "the test says so")
        await cluster.until(lambda: len(cluster.ensemble.names(paths.LOG_DIR_EVENTS)) == 1, "the notice is written")
        (name,) = await cluster.zookeeper.children(paths.LOG_DIR_EVENTS)
        node = await cluster.zookeeper.get(f"{paths.LOG_DIR_EVENTS}/{name}")
        assert node is not None
        assert decode_log_dir_event(name, node.data) == 4
        # What the controller asks then.
        assert (await cluster.tell_roles(("t", 0), to=[4])) == {4: [ErrorCode.KAFKA_STORAGE_ERROR]}

    with_cluster(tmp_path, work)


def test_a_leader_whose_disk_is_full_gives_its_partitions_up_if_others_can_lead(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        ops = FaultyOps(errno.ENOSPC)
        settings = {**SETTINGS, "broker.id": "4", "log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
        host = SimulatedHost(cluster.network, "four", tmp_path, settings, random.Random(4), cluster.ensemble, ops)
        await host.start()
        cluster.hosts[4] = host
        await cluster.create("alone", (4,))
        await cluster.create("shared", (4, 1))
        alone, shared = cluster.partition(4, "alone").log, cluster.partition(4, "shared").log
        assert alone.log_dir != shared.log_dir

        def fill() -> None:
            ops.fail = {"pwrite": 1}

        fill()
        assert await cluster.produce(4, "alone", b"x") == ErrorCode.KAFKA_STORAGE_ERROR
        ops.heal()
        assert await cluster.produce(4, "alone", b"x") == 0, "there is room again"
        assert not cluster.ensemble.names(paths.LOG_DIR_EVENTS)
        fill()
        assert await cluster.produce(4, "shared", b"x") == ErrorCode.KAFKA_STORAGE_ERROR
        ops.heal()
        await cluster.until(lambda: len(cluster.ensemble.names(paths.LOG_DIR_EVENTS)) == 1, "the notice is written")
        assert shared.offline is not None
        assert "other brokers can lead" in shared.offline
        assert alone.offline is None

    with_cluster(tmp_path, work)


def test_metadata_does_not_wait_for_zookeeper_to_take_a_topic_that_the_client_lacks(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        wanted = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")]

        async def ask() -> list[int]:
            answer = await cluster.hosts[1].ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=True), 9)
            return [each.error_code for each in answer.topics]

        cluster.hosts[1].session.disconnect()
        began = cluster.loop.time()
        assert await ask() == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert cluster.loop.time() - began < 3
        cluster.hosts[1].session.reconnect()
        # What was begun goes on, though no request waits for it.
        await cluster.until(lambda: "new" in cluster.ensemble.names(paths.TOPICS), "the topic is created")
        assert await ask() == [ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE]

    with_cluster(tmp_path, work)


def test_a_new_topic_has_its_configuration_from_the_first_role_on(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2, 3), {"min.insync.replicas": "2", "segment.bytes": "1000"})
        assert leader.min_insync == 2
        assert leader.log.config.segment_bytes == 1000
        assert cluster.partition(2, "t").log.topic_id == TOPIC_ID

    with_cluster(tmp_path, work)


@pytest.mark.parametrize("is_same_topic", [True, False], ids=["the same topic", "a topic of that name"])
def test_a_move_between_log_directories_goes_on_after_a_restart(tmp_path: Path, is_same_topic: bool) -> None:
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"

    async def work(cluster: Cluster) -> None:
        dirs = {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}
        settings = {**SETTINGS, "broker.id": "4", rate: "1", **dirs}
        host = SimulatedHost(cluster.network, "four", tmp_path / "four", settings, random.Random(4), cluster.ensemble)
        cluster.hosts[4] = host
        await host.start()
        log = (await cluster.create("t", (4, 1))).log
        assert await cluster.produce(4, "t", b"x" * 10_000) == 0
        before = cluster.log(4, "t")
        target = next(each.path for each in host.server.logs.log_dirs if each.path != log.log_dir)
        alter_log_dir(host.server.replicas, "t", 0, str(target))
        await host.stop()
        (copy,) = target.glob("t-0*-future")
        if not is_same_topic:
            (copy / "partition.metadata").write_bytes(format_partition_metadata(uuid.UUID(int=78)))
        await host.start()
        await cluster.tell_roles(("t", 0), to=[4])
        assert log.log_dir == cluster.partition(4, "t").log.log_dir
        assert [each.dir for each in host.server.logs.futures] == ([copy] if is_same_topic else [])
        host.server.replicas.config = BrokerConfig({**settings, rate: "1000000"})
        if is_same_topic:
            await cluster.until(lambda: cluster.partition(4, "t").log.log_dir == target, "it is moved")
        assert cluster.log(4, "t") == before
        assert not list(target.glob("*-future"))
        await host.link.close()
        await host.stop()
        del cluster.hosts[4]

    with_cluster(tmp_path, work)


def test_what_brokers_ask_of_each_other_is_served_on_their_listener_alone(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        settings = {
            **SETTINGS,
            "broker.id": "4",
            "listeners": "BETWEEN://four:9092,CLIENTS://four:9093",
            "listener.security.protocol.map": "BETWEEN:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
        }
        host = SimulatedHost(cluster.network, "four", tmp_path / "four", settings, random.Random(4), cluster.ensemble)
        await host.start()
        between = {each.api_key for each in (await host.ask(ApiVersionsRequest(), 0)).api_keys}
        assert {4, 5, 6} <= between
        client = host.link_to(9093)
        told = {each.api_key for each in (await asyncio.wait_for(client.request(ApiVersionsRequest()), 60)).api_keys}
        assert between - told >= {4, 5, 6}
        await client.close()
        await host.link.close()
        await host.stop()

    with_cluster(tmp_path, work)
