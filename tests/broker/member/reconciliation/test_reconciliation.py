"""A member that has lost a request of the controller, or that has replicas which the cluster does not know."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.controller.decisions.elections import ElectionType
from broker.log.log import Log
from broker.member.reconciliation.role_check import compare
from broker.metadata.znodes import paths, topics
from broker.metadata.znodes.topics import Assignment, TopicNode
from broker.replica.hosting.applier import LeaderAndIsr, ReplicaApplier
from broker.zookeeper.interface import ConnectionLossError, Delete, Node, SetData
from kafkalog.protocol.errors import ErrorCode
from kafkalog.storage import names
from tests.broker.controller.cluster.support import IDS, Cluster, play
from tests.simulation.zookeeper import SimulatedSession

LOOKS = {"kafkalog.role.check.interval.ms": "20000"}
NOBODY = 0
FOREVER_S = 200.0
"""Longer than a broker needs to look some times."""


def log_of(cluster: Cluster, number: int, topic: str) -> Log | None:
    return cluster.hosts[number].server.logs.get(topic, 0)


def epoch_at(cluster: Cluster, number: int, topic: str) -> int | None:
    found = cluster.hosts[number].server.replicas.get(topic, 0)
    return None if found is None or found.role is None else found.role.epoch


def differences(cluster: Cluster, number: int) -> int:
    member = cluster.hosts[number].server.broker.member
    assert member is not None
    return member.roles.differences


def strays(cluster: Cluster, number: int) -> list[Path]:
    return sorted(cluster.hosts[number].server.config.log_dirs[0].glob(f"*{names.STRAY_DIR}"))


@contextmanager
def refusing(cluster: Cluster, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a broker fail to take any role, as one in which something goes wrong that nobody has foreseen."""
    whole = ReplicaApplier._apply
    replicas = cluster.hosts[number].server.replicas

    def fail(self: ReplicaApplier, wanted: LeaderAndIsr, configs: Mapping[str, object]) -> ErrorCode:
        if self._replicas is replicas:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return whole(self, wanted, configs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(ReplicaApplier, "_apply", fail)
        yield


def write_topic(cluster: Cluster, topic: str, change: Callable[[TopicNode], TopicNode]) -> None:
    path = paths.topic(topic)
    node = topics.decode_topic(topic, cluster.ensemble.read(path).data)
    cluster.ensemble.carry_out([SetData(path, topics.encode_topic(change(node)))], NOBODY)


@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
def test_a_role_that_was_not_taken_is_taken_after_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    async def scenario(cluster: Cluster) -> None:
        with refusing(cluster, 3, monkeypatch):
            await cluster.create("words")
            await cluster.until(lambda: epoch_at(cluster, 1, "words") is not None)
            await asyncio.sleep(1)
        assert epoch_at(cluster, 3, "words") is None
        await cluster.until(lambda: epoch_at(cluster, 3, "words") == epoch_at(cluster, 1, "words"))
        await cluster.until_in_sync("words", set(IDS))
        assert differences(cluster, 3) == 1

    play(tmp_path, scenario, protocol, settings=LOOKS)


def test_an_old_leader_learns_of_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its epoch is old. It learns of the new one although the controller has no reason to tell it again."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        state = cluster.partition("words")
        assert state is not None
        boss = cluster.boss()
        assert boss is not None
        follower = next(number for number in IDS if number not in (state.leader, boss))
        with refusing(cluster, follower, monkeypatch):
            other = next(number for number in IDS if number not in (state.leader, follower))
            order = (other, *(each for each in state.replicas if each != other))
            write_topic(cluster, "words", lambda node: TopicNode(node.topic_id, {0: Assignment(order)}))
            controller = cluster.hosts[boss].server.mode.controller
            assert controller is not None
            assert controller.context is not None
            controller.context.put_assignment(("words", 0), Assignment(order))
            await controller.elect_leaders([("words", 0)], ElectionType.PREFERRED)
            await cluster.until(lambda: epoch_at(cluster, other, "words") == state.leader_epoch + 1)
            await asyncio.sleep(1)
        assert epoch_at(cluster, follower, "words") == state.leader_epoch
        await cluster.until(lambda: epoch_at(cluster, follower, "words") == state.leader_epoch + 1)

    play(tmp_path, scenario, settings=LOOKS)


def test_nothing_is_asked_while_all_is_well(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        await asyncio.sleep(FOREVER_S)
        assert [differences(cluster, number) for number in IDS] == [0, 0, 0]

    play(tmp_path, scenario, settings=LOOKS)


def test_a_replica_that_is_not_assigned_any_more_is_given_up_set_aside_and_removed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.create("kept")
        await cluster.until_in_sync("words", set(IDS))
        await cluster.produce("words", b"one")
        # As a reassignment whose StopReplica was lost.
        write_topic(
            cluster,
            "words",
            lambda node: TopicNode(
                node.topic_id, {0: Assignment(tuple(each for each in node.partitions[0].replicas if each != 3))}
            ),
        )
        await cluster.until(lambda: log_of(cluster, 3, "words") is None)
        assert epoch_at(cluster, 3, "words") is None
        (stray,) = strays(cluster, 3)
        assert "not assigned to this broker any more" in (stray / names.STRAY).read_text()
        assert log_of(cluster, 3, "kept") is not None
        assert log_of(cluster, 1, "words") is not None
        await cluster.until(lambda: not strays(cluster, 3))
        assert [strays(cluster, number) for number in (1, 2)] == [[], []]

    play(tmp_path, scenario, settings={**LOOKS, "kafkalog.log.stray.retention.ms": "60000"})


def test_a_replica_that_was_moved_while_its_broker_was_not_registered_is_served_no_more(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        boss = cluster.boss()
        assert boss is not None
        moved = next(number for number in IDS if number != boss)
        others = Assignment(tuple(number for number in IDS if number != moved))
        write_topic(cluster, "words", lambda node: TopicNode(node.topic_id, {0: others}))
        controller = cluster.hosts[boss].server.mode.controller
        assert controller is not None
        assert controller.context is not None
        controller.context.put_assignment(("words", 0), others)
        # It gives up its role. The controller has none for it when it is registered again.
        cluster.ensemble.carry_out([Delete(paths.broker_id(moved))], NOBODY)
        await cluster.until(lambda: len(strays(cluster, moved)) == 1)
        assert log_of(cluster, moved, "words") is None
        assert cluster.hosts[moved].server.replicas.get("words", 0) is None

    play(tmp_path, scenario, settings=LOOKS)


def test_a_replica_of_a_topic_that_was_made_again_while_the_broker_was_down_is_replaced(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        await cluster.produce("words", b"of the first topic")
        log = log_of(cluster, 3, "words")
        assert log is not None
        former, file = log.topic_id, log.dir / names.PARTITION_METADATA
        # Simulated clocks are not those of files.
        os.utime(file, (1, 1))
        for host in cluster.hosts.values():
            await host.stop()
        cluster.running.clear()
        delete_below(cluster, paths.topic("words"))
        for number in (1, 2):
            directory = cluster.hosts[number].server.config.log_dirs[0]
            (directory / "words-0").rename(directory / f"words-0.{'0' * 32}-delete")
        for number in IDS:
            await cluster.hosts[number].start()
            cluster.running.add(number)
        await cluster.until(lambda: cluster.boss() is not None)
        await cluster.create("words")

        def is_replaced() -> bool:
            made = log_of(cluster, 3, "words")
            return made is not None and made.topic_id != former

        await cluster.until(is_replaced)
        await cluster.until_in_sync("words", set(IDS))
        assert epoch_at(cluster, 3, "words") == epoch_at(cluster, 1, "words")
        (stray,) = strays(cluster, 3)
        assert "created again" in (stray / names.STRAY).read_text()

    play(tmp_path, scenario, settings=LOOKS)


def test_a_replica_of_the_last_topic_is_set_aside_although_the_controller_has_nothing_to_tell(tmp_path: Path) -> None:
    """The topic was deleted while its broker was down, and no other topic is left."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        for number in IDS:
            # Simulated clocks are not those of files.
            log = log_of(cluster, number, "words")
            assert log is not None
            os.utime(log.dir / names.PARTITION_METADATA, (1, 1))
        for host in cluster.hosts.values():
            await host.stop()
        cluster.running.clear()
        delete_below(cluster, paths.topic("words"))
        for number in IDS:
            await cluster.hosts[number].start()
            cluster.running.add(number)
        await cluster.until(lambda: all(len(strays(cluster, number)) == 1 for number in IDS))

    play(tmp_path, scenario, settings=LOOKS)


def test_nothing_is_set_aside_while_zookeeper_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        get = SimulatedSession.get
        session = cluster.hosts[3].session

        async def lost(self: SimulatedSession, path: str, watch: object = None) -> Node | None:
            if self is session and path.startswith(paths.TOPICS):
                raise ConnectionLossError(path)
            return await get(self, path, watch)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(SimulatedSession, "get", lost)
            delete_below(cluster, paths.topic("words"))
            await asyncio.sleep(FOREVER_S)
            assert log_of(cluster, 3, "words") is not None
            assert log_of(cluster, 1, "words") is None
        await cluster.until(lambda: log_of(cluster, 3, "words") is None)

    play(tmp_path, scenario, settings=LOOKS)


def test_a_replica_is_not_given_up_that_is_unassigned_for_a_moment_only(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))
        whole: list[TopicNode] = []

        def without(node: TopicNode) -> TopicNode:
            whole.append(node)
            return TopicNode(node.topic_id, {0: Assignment(node.partitions[0].replicas[:1])})

        # What a server of ZooKeeper may answer that is behind the others, for one look.
        write_topic(cluster, "words", without)
        found: list[str] = []

        def seen(*args: object) -> object:
            result = compare(*args)  # type: ignore[arg-type]
            if result is not None and not found:
                found.append(result.what)
                write_topic(cluster, "words", lambda node: whole[0])
            return result

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("broker.member.reconciliation.role_survey.compare", seen)
            await cluster.until(lambda: bool(found))
            await asyncio.sleep(FOREVER_S)
        assert [epoch_at(cluster, number, "words") is None for number in IDS] == [False] * 3
        assert [differences(cluster, number) for number in IDS] == [0, 0, 0]

    play(tmp_path, scenario, settings=LOOKS)


def delete_below(cluster: Cluster, path: str) -> None:
    """Delete a node and all below it, as somebody does who knows of no better way."""
    for name in cluster.ensemble.names(path):
        delete_below(cluster, f"{path}/{name}")
    cluster.ensemble.carry_out([Delete(path)], NOBODY)
