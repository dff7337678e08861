"""A registry becomes nodes and a registry again: whole, refused, or killed at every step, over a simulated tree."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.server import BrokerConfig
from broker.log.directories import checkpoints
from broker.log.directories.log_dir import LogDirLockedError
from broker.log.files.file_ops import FileOps
from broker.metadata.json_form import to_json
from broker.metadata.local import FILE_NAME, JOINED_NAME
from broker.metadata.model import ClusterState, PartitionState, TopicState
from broker.metadata.tree.session import Session
from broker.metadata.znodes import acls, brokers, configs, paths
from broker.metadata.znodes.topics import StateNode, decode_state, decode_topic, encode_state, encode_topic
from broker.migration.join import Join
from broker.migration.leave import Leave
from broker.migration.stopped import RefusedError, StoppedBroker
from broker.quota.entities import QuotaEntity
from broker.security.authorizer.model import AclEntry, ResourcePattern
from broker.system.workers import ThreadWorkers
from broker.zookeeper.interface import Operation, Result, Stat, ZooKeeper, ensure
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.simulation import virtual_time
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

BROKER = 3
WORDS, OFFSETS = uuid.UUID(int=7 << 64), uuid.UUID(int=8 << 64)
ALICE = "users/alice"
SECRET = {"SCRAM-SHA-256": "salt=…"}


def partition(epoch: int) -> PartitionState:
    return PartitionState((BROKER,), (BROKER,), BROKER, epoch, 4, 2)


READS = AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
DENIED = AclEntry("User:*", "10.0.0.1", AclOperation.ALL, AclPermission.DENY)
LONE = ClusterState(
    "id-of-the-cluster",
    controller_epoch=5,
    topics={
        "words": TopicState("words", WORDS, (partition(0), partition(6)), {"retention.ms": "5000"}),
        "__consumer_offsets": TopicState("__consumer_offsets", OFFSETS, tuple(map(partition, range(5)))),
    },
    broker_config={"": {"log.cleaner.threads": "2"}, str(BROKER): {"background.threads": "4"}},
    client_quotas={
        QuotaEntity.of([("user", "alice")]): {"producer_byte_rate": 1000.0},
        QuotaEntity.of([("user", "bob"), ("client-id", None)]): {"request_percentage": 12.5},
        QuotaEntity.of([("ip", "10.0.0.1")]): {"connection_creation_rate": 3.0},
    },
    acls={
        ResourcePattern(AclResourceType.TOPIC, AclPatternType.LITERAL, "words"): frozenset({READS, DENIED}),
        ResourcePattern(AclResourceType.GROUP, AclPatternType.PREFIXED, "wor"): frozenset({READS}),
    },
    next_producer_id=3500,
    revision=9,
)


class KilledError(Exception):
    """The process is killed here."""


class Countdown:
    """Kills the command at its nth change."""

    def __init__(self, left: int | None = None) -> None:
        self.left = left

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KilledError


class KilledOps(FileOps):
    """Changes files until the countdown ends."""

    def __init__(self, countdown: Countdown) -> None:
        self._countdown = countdown

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._countdown.step()
        return super().open(path, flags, mode)

    def rename(self, source: str, target: str) -> None:
        self._countdown.step()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._countdown.step()
        super().unlink(path)


class KilledSession(SimulatedSession):
    """Changes nodes until the countdown ends."""

    def __init__(self, ensemble: SimulatedEnsemble, countdown: Countdown) -> None:
        super().__init__(ensemble, 6.0)
        self._countdown = countdown

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        self._countdown.step()
        return await super().multi(operations)


class World:
    """The directories of broker 3, and a tree of nodes."""

    def __init__(self, directory: Path, loop: virtual_time.VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directories = [directory / "one", directory / "two"]
        for each in self.directories:
            each.mkdir()
        self._loop = loop
        self.ensemble = SimulatedEnsemble(loop, random.Random(1))
        # Many requests, between which the command may be killed.
        monkeypatch.setattr("broker.controller.cluster.session.MOST_OPERATIONS", 3)

    def session(self, countdown: Countdown | None = None) -> KilledSession:
        return KilledSession(self.ensemble, countdown or Countdown())

    def make_lone(self, state: ClusterState = LONE) -> None:
        for each in self.directories:
            identity = {"version": "0", "broker.id": str(BROKER), "cluster.id": state.cluster_id}
            checkpoints.write_meta_properties(str(each), identity)
            (each / FILE_NAME).write_text(to_json(state))
        for topic in state.topics.values():
            for index in range(len(topic.partitions)):
                (self.directories[index % 2] / f"{topic.name}-{index}").mkdir(exist_ok=True)

    async def run(self, action: str, countdown: Countdown | None = None, *, files_only: bool = False) -> list[str]:
        """Carry out `join` or `leave`; return what it tells. The countdown may count changes of files only."""
        countdown = countdown or Countdown()
        workers = ThreadWorkers(1)
        config = BrokerConfig({"log.dirs": ",".join(map(str, self.directories)), "zookeeper.connect": "x:1"})
        broker = StoppedBroker(config, workers, KilledOps(countdown))
        zookeeper = self.session(None if files_only else countdown)
        try:
            session = Session(zookeeper, self._loop, patience_s=6.0)
            move: Join | Leave
            if action == "join":
                move = await Join.prepare(broker, session)
            else:
                move = await Leave.prepare(broker, session, random.Random(1))
            told = move.lines()
            await move.carry_out()
            return told
        finally:
            broker.close()
            workers.close(wait=True)
            await zookeeper.close()

    async def refused(self, action: str) -> str:
        before = self.nodes()
        with pytest.raises(RefusedError) as caught:
            await self.run(action)
        assert self.nodes() == before, "a refusal changes nothing"
        return str(caught.value)

    def nodes(self) -> dict[str, bytes]:
        """Return all nodes with data."""
        return {path: data for path in self.ensemble.paths() if (data := self.ensemble.read(path).data)}

    def registry(self) -> ClusterState:
        workers = ThreadWorkers(1)
        config = BrokerConfig({"log.dirs": ",".join(map(str, self.directories))})
        broker = StoppedBroker(config, workers)
        try:
            assert broker.has_registry
            return broker.registry()
        finally:
            broker.close()
            workers.close(wait=True)

    def copies(self) -> list[str]:
        return sorted(
            f"{each.name}/{path.name}"
            for each in self.directories
            for path in each.glob(f"{FILE_NAME}*")
            if path.suffix != ".tmp"
        )


Scenario = Callable[[World], Coroutine[Any, Any, None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    number = 0

    def run(scenario: Scenario) -> None:
        nonlocal number
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        virtual_time.run(lambda loop: scenario(World(directory, loop, monkeypatch)))

    return run


def after_a_round_trip(state: ClusterState) -> ClusterState:
    """Return the registry without what a move changes: epochs of this registry, and the count of its changes."""
    topics = {
        name: replace(
            topic,
            partitions=tuple(replace(each, partition_epoch=0, leader_epoch=0) for each in topic.partitions),
        )
        for name, topic in sorted(state.topics.items())
    }
    return replace(state, topics=topics, revision=0)


def test_what_a_lone_broker_has_is_in_the_tree_and_comes_back(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.make_lone()
        told = await world.run("join")
        assert told[:3] == [
            "  topics: 2 with 7 partitions",
            "  configurations: 1 of topics, 2 of brokers",
            "  quotas: 3",
        ]
        nodes = world.nodes()
        topic = decode_topic("words", nodes[paths.topic("words")])
        assert topic.topic_id == WORDS
        assert {index: each.replicas for index, each in topic.partitions.items()} == {0: (BROKER,), 1: (BROKER,)}
        state = decode_state("words", 1, nodes[paths.partition_state("words", 1)], 0)
        assert state == StateNode(leader=-1, leader_epoch=6, isr=(BROKER,), controller_epoch=2)
        assert nodes[paths.CONTROLLER_EPOCH] == b"5"
        assert b'"block_end":"3499"' in nodes[paths.PRODUCER_ID_BLOCK]
        assert configs.decode("", nodes["/config/users/bob/clients/<default>"]) == {"request_percentage": "12.5"}
        assert configs.decode("", nodes[f"/config/{ALICE}"]) == {"producer_byte_rate": "1000"}
        assert paths.MOVE not in nodes
        assert world.copies() == [f"one/{JOINED_NAME}", f"two/{JOINED_NAME}"]
        assert (world.directories[0] / "words-0").is_dir()
        await world.run("leave")
        assert after_a_round_trip(world.registry()) == after_a_round_trip(replace(LONE, controller_epoch=5))
        back = world.registry().topics["words"].partitions
        assert [each.leader_epoch for each in back] == [1, 7], "each partition has a new leader epoch"
        assert world.nodes() == {}, "nothing of the cluster is left"
        assert world.copies() == [f"one/{FILE_NAME}", f"two/{FILE_NAME}"]

    play(scenario)


@pytest.mark.parametrize("action", ["join", "leave"])
@pytest.mark.parametrize("then", ["join", "leave"])
def test_a_command_that_is_killed_at_any_step_is_run_again_or_taken_back(play: Play, action: str, then: str) -> None:
    kills = 0
    while True:

        async def scenario(world: World) -> None:
            nonlocal kills
            world.make_lone()
            if action == "leave":
                await world.run("join")
            countdown = Countdown(kills)
            try:
                await world.run(action, countdown)
            except KilledError:
                kills += 1
            else:
                kills = -1
                return
            if paths.MOVE not in world.nodes() and then != action:
                # It was killed before its first change, so that there is nothing to take back.
                assert "already" in await world.refused(then)
                await world.run(action)
                return
            await world.run(then)
            assert paths.MOVE not in world.nodes()
            if then == "join":
                assert world.copies() == [f"one/{JOINED_NAME}", f"two/{JOINED_NAME}"]
                await world.run("leave")
            assert after_a_round_trip(world.registry()) == after_a_round_trip(LONE)
            assert world.nodes() == {}

        play(scenario)
        if kills < 0:
            break
    # The command has come to its end without a kill.


def test_what_was_changed_between_two_attempts_counts(play: Play) -> None:
    """The lone broker may run after an attempt to join that was cut short."""

    async def scenario(world: World) -> None:
        world.make_lone()
        with pytest.raises(KilledError):
            await world.run("join", Countdown(0), files_only=True)
        assert paths.topic("__consumer_offsets") in world.nodes()
        words = replace(LONE.topics["words"], config={"retention.ms": "1"}, topic_id=OFFSETS)
        changed = replace(LONE, topics={"words": words}, client_quotas={}, broker_config={}, revision=10)
        world.make_lone(changed)
        await world.run("join")
        await world.run("leave")
        assert after_a_round_trip(world.registry()) == after_a_round_trip(changed)

    play(scenario)


def test_credentials_of_users_stay_where_they_are(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.make_lone()
        session = world.session()
        for name in (ALICE, "users/carol"):
            await ensure(session, f"/config/{name}")
            await session.set(f"/config/{name}", configs.encode(SECRET))
        await world.run("join")
        found = configs.decode("", world.nodes()[f"/config/{ALICE}"])
        assert found == {**SECRET, "producer_byte_rate": "1000"}
        told = await world.run("leave")
        assert any("credentials in /config/users/alice, which stay there" in line for line in told)
        left = {name: configs.encode(SECRET) for name in (f"/config/{ALICE}", "/config/users/carol")}
        assert world.nodes() == left
        assert after_a_round_trip(world.registry()) == after_a_round_trip(LONE)

    play(scenario)


async def _set(session: ZooKeeper, path: str, data: bytes) -> Stat:
    await ensure(session, path)
    return await session.set(path, data)


def test_a_tree_that_belongs_to_others_is_refused(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.make_lone()
        session = world.session()
        await _set(session, paths.topic("words"), b"{}")
        assert "ZooKeeper has topics already (words, among them words," in await world.refused("join")
        await session.delete(paths.topic("words"))
        await _set(session, "/config/brokers/1", configs.encode({"a": "b"}))
        assert "has configurations already (/config/brokers/1)" in await world.refused("join")
        await session.delete("/config/brokers/1")
        node = acls.path(ResourcePattern(AclResourceType.TOPIC, AclPatternType.LITERAL, "words"))
        await _set(session, node, acls.encode(frozenset({READS})))
        assert "ZooKeeper has ACLs already" in await world.refused("join")
        await session.delete(node)
        await _set(session, paths.broker_id(BROKER), b"{}")
        assert "a broker is registered as 3: each" in await world.refused("join")
        await session.delete(paths.broker_id(BROKER))
        await _set(session, paths.broker_id(1), b"{}")
        assert "the brokers 1 are registered there: stop them" in await world.refused("join")
        await session.delete(paths.broker_id(1))
        await _set(session, paths.CLUSTER_ID, b'{"version":"1","id":"another"}')
        assert "ZooKeeper has the cluster another, and the broker is" in await world.refused("join")
        await session.delete(paths.CLUSTER_ID)
        await _set(session, paths.MOVE, b'{"version":1,"broker":1,"cluster_id":"another"}')
        assert "broker 1 of the cluster another is being moved there" in await world.refused("join")
        await session.delete(paths.MOVE)
        await world.run("join")
        assert "broker 3 is a member of the cluster id-of-the-cluster already" in await world.refused("join")

    play(scenario)


def test_a_registry_that_a_cluster_cannot_keep_is_refused(play: Play) -> None:
    async def scenario(world: World) -> None:
        foreign = replace(LONE.topics["words"], partitions=(replace(partition(0), replicas=(0,)),))
        world.make_lone(
            replace(
                LONE,
                group_config={"g": {"consumer.session.timeout.ms": "1"}},
                deleting=frozenset({WORDS}),
                topics={"words": foreign},
                acls={ResourcePattern(AclResourceType.GROUP, AclPatternType.LITERAL, "a/b"): frozenset({READS})},
            )
        )
        told = await world.refused("join")
        assert "the groups g have configurations" in told
        assert "topics are still being deleted" in told
        assert "the topics words have other replicas than broker 3" in told
        assert "no nodes of the names of the ACLs Group:LITERAL:a/b" in told
        for each in world.directories:
            (each / FILE_NAME).unlink()
        assert "is in none of the log directories" in await world.refused("join")

    play(scenario)


def test_a_broker_that_does_not_have_everything_cannot_leave(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.make_lone()
        assert "broker 3 is a cluster of its own already" in await world.refused("leave")
        await world.run("join")
        session = world.session()
        node = await session.get(paths.topic("words"))
        assert node is not None
        topic = decode_topic("words", node.data)
        away = replace(topic, partitions={**topic.partitions, 0: replace(topic.partitions[0], replicas=(1, 2))})
        await session.set(paths.topic("words"), encode_topic(away))
        assert "broker 3 is no replica of words-0: start" in await world.refused("leave")
        both = replace(topic, partitions={**topic.partitions, 0: replace(topic.partitions[0], replicas=(1, 3))})
        await session.set(paths.topic("words"), encode_topic(both))
        behind = StateNode(leader=-1, leader_epoch=7, isr=(1,), controller_epoch=6)
        await session.set(paths.partition_state("words", 0), encode_state(behind))
        assert "the replicas on broker 3 of words-0 are not in sync" in await world.refused("leave")
        in_sync = StateNode(leader=-1, leader_epoch=7, isr=(1, 3), controller_epoch=6)
        await session.set(paths.partition_state("words", 0), encode_state(in_sync))
        there = world.directories[1] / "words-1"
        for aside in ("aside", f"words-1.{'0' * 32}-stray", f"words-1.{'0' * 32}-delete"):
            there.rename(world.directories[1] / aside)
            assert "have no log of words-1" in await world.refused("leave")
            (world.directories[1] / aside).rename(there)
        await ensure(session, paths.delete_topic("words"))
        assert "the topics words are being deleted" in await world.refused("leave")
        await session.delete(paths.delete_topic("words"))
        await _set(session, paths.broker_id(1), brokers.encode(_registered(1), 0))
        assert "the brokers 1 are registered in ZooKeeper: stop all" in await world.refused("leave")
        await session.delete(paths.broker_id(1))
        await _set(session, "/config/brokers/1", configs.encode({"background.threads": "7"}))
        told = await world.run("leave")
        assert "  not taken along: the configuration of broker 1" in told
        assert world.registry().topics["words"].partitions[0] == PartitionState((3,), (3,), 3, 8, 3, 6)
        assert "1" not in world.registry().broker_config

    play(scenario)


def _registered(broker_id: int) -> Any:
    from broker.config.listeners import Endpoint
    from broker.metadata.model import BrokerRegistration

    return BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),))


def test_directories_that_are_in_use_or_missing_are_refused(play: Play) -> None:
    async def scenario(world: World) -> None:
        world.make_lone()
        workers = ThreadWorkers(1)
        config = BrokerConfig({"log.dirs": ",".join(map(str, world.directories))})
        running = StoppedBroker(config, workers)
        with pytest.raises(LogDirLockedError, match="another broker is using this directory"):
            await world.run("join")
        running.close()
        other = {"version": "0", "broker.id": "4", "cluster.id": LONE.cluster_id}
        checkpoints.write_meta_properties(str(world.directories[1]), other)
        with pytest.raises(RefusedError, match=r"belong together no more: meta\.properties says broker\.id=3, 4"):
            await world.run("join")
        workers.close(wait=True)
        world.directories.append(world.directories[0] / "none")
        with pytest.raises(RefusedError, match="there is no directory"):
            await world.run("join")

    play(scenario)
