"""Test that changes of topics in a cluster wait for the controller, over a simulated ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.listeners import Endpoint
from broker.config.server import BrokerConfig
from broker.controller.cluster_topics import ClusterExecution
from broker.controller.decisions.planning import NewTopic
from broker.controller.topic_execution import DeletionListeners
from broker.controller.topics import TopicController
from broker.coordinator.state_log import StateLog
from broker.coordinator.state_topic import consumer_offsets_topic
from broker.log.log_manager import LogManager
from broker.metadata.cache import MetadataCache
from broker.metadata.model import NO_LEADER, NO_TOPIC_ID, BrokerRegistration, ClusterState, TopicState
from broker.metadata.operations import CreateTopic, Operation
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.tree.topics import TopicOperation, TopicWriter, View
from broker.metadata.znodes import paths
from broker.metadata.znodes.topics import Assignment, TopicNode, decode_topic, encode_topic
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from broker.zookeeper.interface import ZooKeeper
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaStorageError,
    PolicyViolationError,
    ReassignmentInProgressError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.broker.metadata.tree.support import World, new_topic, run, until
from tests.simulation.network import SimulatedNetwork
from tests.simulation.workers import SimulatedWorkers

RACKS = {1: "a", 2: "a", 3: "b"}


class Member:
    """A broker's topics over a store; `zookeeper` is the controller's session."""

    def __init__(self, world: World, store: ZooKeeperStore, zookeeper: ZooKeeper, directory: Path) -> None:
        chance = random.Random(5)
        runtime = Runtime(
            world.loop,
            SimulatedWorkers(world.loop, chance),
            SimulatedNetwork(world.loop, chance).host("one"),
            random=chance,
        )
        directory.mkdir()
        config = BrokerConfig({"log.dirs": str(directory)})
        logs = LogManager([directory], config.log_config({}), clock=lambda: 0)
        self.store, self.zookeeper, self.world = store, zookeeper, world
        self.cache = MetadataCache(store.state)
        store.subscribe(self.cache.update)
        listeners = DeletionListeners()
        execution = ClusterExecution(store, self.cache, listeners, store)
        self.replicas = ReplicaManager(runtime, 1, config, logs)
        self.topics = TopicController(store, self.cache, self.replicas, execution, listeners)
        self.gone: list[frozenset[str]] = []
        self.topics.on_deleted.append(self.gone.append)

    async def tell(self) -> None:
        await self.world.tell(self.store, self.zookeeper)

    def tell_brokers(self, alive: Iterable[int] = tuple(RACKS)) -> None:
        endpoints = (Endpoint("PLAINTEXT", "h", 1),)
        brokers = {broker: BrokerRegistration(broker, endpoints, RACKS[broker]) for broker in alive}

        def merge(state: ClusterState) -> tuple[ClusterState, list[Operation]]:
            return replace(state, brokers=brokers), []

        self.store.publish(merge)

    def change(self, name: str, **fields: Any) -> None:
        """Tell of a topic with other values."""

        def merge(state: ClusterState) -> tuple[ClusterState, list[Operation]]:
            topics = {**state.topics, name: replace(state.topics[name], **fields)}
            return replace(state, topics=topics), []

        self.store.publish(merge)

    async def delete(self, name: str) -> None:
        """Do what a controller does to delete a topic."""
        for path in (paths.topic(name), paths.config("topics", name), paths.delete_topic(name)):
            await self.zookeeper.delete(path)
        await self.tell()


def in_cluster(tmp_path: Path, scenario: Callable[[Member], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main(world: World) -> None:
        member = Member(world, await world.store(1, **options), world.session(), tmp_path / "log")
        member.tell_brokers()
        await scenario(member)

    run(main)


def test_a_creation_returns_when_all_partitions_have_leaders(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        creating = asyncio.ensure_future(member.topics.create([NewTopic("words", 4, 2)], wait_ms=60_000))
        await asyncio.sleep(1)
        assert not creating.done()
        await member.tell()
        made = (await creating)["words"]
        assert isinstance(made, TopicState)
        for partition in made.partitions:
            assert {RACKS[replica] for replica in partition.replicas} == {"a", "b"}, "a replica in each rack"
        assert member.world.loop.time() < 10

    in_cluster(tmp_path, scenario)


def test_the_time_of_a_request_is_over_before_the_controller_has_acted(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        wanted = [NewTopic("words", 1, 1), NewTopic("many", 1, 9), NewTopic("no good", 1, 1)]
        made = await member.topics.create(wanted, wait_ms=500)
        assert {name: type(result) for name, result in made.items()} == {
            "words": RequestTimedOutError, "many": InvalidReplicationFactorError, "no good": InvalidTopicError,
        }  # fmt: skip
        assert await member.zookeeper.children(paths.TOPICS) == ["words"], "the topic is made all the same"
        # The controller has not told yet; another request for it finds the node.
        again = await member.topics.create([NewTopic("words", 1, 1)], wait_ms=0)
        assert isinstance(again["words"], TopicAlreadyExistsError)

    in_cluster(tmp_path, scenario)


def test_a_deletion_returns_when_the_topic_is_gone_and_everybody_is_told(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("words", 1, 1), NewTopic("kept", 1, 1)], wait_ms=0)
        await member.tell()
        late = await member.topics.delete(["words", "unknown"], wait_ms=100)
        assert {name: type(result) for name, result in late.items()} == {
            "words": RequestTimedOutError, "unknown": UnknownTopicOrPartitionError,
        }  # fmt: skip
        deleting = asyncio.ensure_future(member.topics.delete(["words"], wait_ms=60_000))
        await asyncio.sleep(1)
        assert not deleting.done()
        assert member.gone == []
        await member.delete("words")
        assert await deleting == {"words": None}
        assert member.gone == [frozenset({"words"})]

        # Another broker deletes a topic, and creates it anew before this one is told.
        await member.zookeeper.delete(paths.topic("kept"))
        node = encode_topic(TopicNode(new_topic("kept", 3).topic_id, {0: Assignment((1,))}))
        await member.zookeeper.create(paths.topic("kept"), node)
        await member.tell()
        assert member.gone[1:] == [frozenset({"kept"})]

    in_cluster(tmp_path, scenario)


def test_partitions_are_added_but_not_while_a_reassignment_is_going_on(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("words", 1, 2)], wait_ms=0)
        await member.tell()
        growing = asyncio.ensure_future(member.topics.grow("words", 3, None, wait_ms=60_000))
        await asyncio.sleep(1)
        await member.tell()
        await growing
        node = await member.zookeeper.get(paths.topic("words"))
        assert node is not None
        found = decode_topic("words", node.data)
        assert [len(found.partitions[index].replicas) for index in range(3)] == [2, 2, 2]
        moving = {**found.partitions, 0: Assignment((1, 2, 3), adding=(3,))}
        await member.zookeeper.set(paths.topic("words"), encode_topic(TopicNode(found.topic_id, moving)))
        for count, error in ((4, ReassignmentInProgressError), (5, ReassignmentInProgressError)):
            try:
                await member.topics.grow("words", count, None, wait_ms=0)
            except error:
                continue
            raise AssertionError("it was refused")

    in_cluster(tmp_path, scenario)


def test_only_partitions_that_are_added_must_have_leaders(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("words", 1, 1)], wait_ms=0)
        await member.tell()
        topic = member.cache.topic("words")
        assert topic is not None
        led = topic.partitions[0]
        offline = replace(led, leader=NO_LEADER)
        member.change("words", partitions=(offline,))
        growing = asyncio.ensure_future(member.topics.grow("words", 3, None, wait_ms=60_000))
        await asyncio.sleep(1)
        member.change("words", partitions=(offline, led, offline))
        await asyncio.sleep(1)
        assert not growing.done()
        member.change("words", partitions=(offline, led, led))
        await growing
        assert member.world.loop.time() < 10

    in_cluster(tmp_path, scenario)


def test_an_id_that_becomes_known_is_no_deletion(tmp_path: Path) -> None:
    """Controllers before 2.8 tell of no ids; in an upgrade their successor does."""

    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("words", 1, 1)], wait_ms=0)
        await member.tell()
        member.change("words", topic_id=NO_TOPIC_ID)
        deleting = asyncio.ensure_future(member.topics.delete(["words"], wait_ms=60_000))
        await asyncio.sleep(1)
        await member.tell()
        await asyncio.sleep(1)
        assert not deleting.done()
        assert member.gone == []
        await member.delete("words")
        assert await deleting == {"words": None}
        assert member.gone == [frozenset({"words"})]

    in_cluster(tmp_path, scenario)


def test_a_topic_that_zookeeper_would_not_take_is_refused_alone(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        made = await member.topics.create([NewTopic("wide", 900, 3), NewTopic("small", 1, 1)], wait_ms=0)
        assert isinstance(made["wide"], PolicyViolationError)
        assert await member.zookeeper.children(paths.TOPICS) == ["small"]

    in_cluster(tmp_path, scenario, max_bytes=8_000)


def test_a_topic_whose_node_is_damaged_keeps_no_other_from_being_created(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.zookeeper.create(paths.topic("damaged"), b"{")
        wanted = [NewTopic("damaged", 1, 1), NewTopic("words", 1, 1)]
        made = await member.topics.create(wanted, wait_ms=0)
        assert isinstance(made["damaged"], TopicAlreadyExistsError)
        assert isinstance(made["words"], RequestTimedOutError), "the controller has not acted yet"
        node = await member.zookeeper.get(paths.topic("words"))
        assert node is not None

    in_cluster(tmp_path, scenario)


def test_a_topic_whose_node_is_damaged_is_not_changed(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("words", 1, 1)], wait_ms=0)
        await member.tell()
        await member.zookeeper.set(paths.topic("words"), b"{")
        with pytest.raises(KafkaStorageError, match="/brokers/topics/words"):
            await member.topics.grow("words", 2, None, wait_ms=0)
        found = await member.topics.delete(["words"], wait_ms=0)
        assert isinstance(found["words"], KafkaStorageError)

    in_cluster(tmp_path, scenario)


def test_the_topic_of_a_coordinator_waits_for_as_many_brokers_as_it_has_replicas(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka since KIP-115: the configured factor is not lowered, and clients are told to ask again."""

    async def scenario(member: Member) -> None:
        log = StateLog(
            lambda: consumer_offsets_topic(member.replicas.config, member.topics.replica_limit),
            replicas=member.replicas,
            topics=member.topics,
            now_ms=lambda: 0,
        )
        member.tell_brokers([1, 2])
        for _ in range(3):
            with pytest.raises(CoordinatorNotAvailableError):
                await log.ensure()
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(told) == 1, "said once, however often clients ask"
        assert told[0].endswith("Replication factor: 3 larger than available brokers: 2.")
        member.tell_brokers()
        with pytest.raises(CoordinatorNotAvailableError):
            # It is made, but the controller has not told of it.
            await log.ensure()
        await member.tell()
        assert await log.ensure() == 50
        state = member.cache.topic("__consumer_offsets")
        assert state is not None
        assert {len(partition.replicas) for partition in state.partitions} == {3}

    in_cluster(tmp_path, scenario)


async def forgotten_elsewhere(member: Member, name: str) -> None:
    """Delete a topic of which this broker knows, as while it is not registered: nobody tells it."""
    for path in (paths.topic(name), paths.config("topics", name)):
        await member.zookeeper.delete(path)
    assert member.cache.topic(name) is not None


def test_a_topic_can_be_created_anew_that_was_deleted_without_a_word_to_this_broker(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("words", 4, 1)], wait_ms=0)
        await member.tell()
        await forgotten_elsewhere(member, "words")
        wanted = [NewTopic("words", 1, 1)]
        assert isinstance((await member.topics.create(wanted, validate_only=True))["words"], TopicState)
        assert member.gone == []
        creating = asyncio.ensure_future(member.topics.create(wanted, wait_ms=60_000))
        await until(lambda: member.world.ensemble.exists(paths.topic("words")), "it is created")
        await until(lambda: member.gone == [frozenset({"words"})], "the former one is known to be gone")
        assert not creating.done(), "the former topic has leaders, and the new one has none"
        await member.tell()
        assert isinstance((await creating)["words"], TopicState)
        found = member.cache.topic("words")
        assert found is not None
        assert len(found.partitions) == 1
        assert member.gone == [frozenset({"words"})]

    in_cluster(tmp_path, scenario)


def test_a_name_is_free_that_collided_with_a_topic_which_is_gone(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("many.words", 1, 1)], wait_ms=0)
        await member.tell()
        wanted = [NewTopic("many_words", 1, 1)]
        assert isinstance((await member.topics.create(wanted, wait_ms=0))["many_words"], InvalidTopicError)
        await forgotten_elsewhere(member, "many.words")
        assert isinstance((await member.topics.create(wanted, wait_ms=0))["many_words"], RequestTimedOutError)
        assert await member.zookeeper.children(paths.TOPICS) == ["many_words"]

    in_cluster(tmp_path, scenario)


def test_a_topic_is_not_taken_for_gone_while_zookeeper_does_not_answer_or_has_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(member: Member) -> None:
        wanted = [NewTopic("words", 1, 1)]
        await member.topics.create(wanted, wait_ms=0)
        await member.tell()
        assert isinstance((await member.topics.create(wanted, wait_ms=0))["words"], TopicAlreadyExistsError)
        member.world.sessions[1].disconnect()
        began = member.world.loop.time()
        assert isinstance((await member.topics.create(wanted, wait_ms=0))["words"], TopicAlreadyExistsError)
        assert member.world.loop.time() == began
        member.world.sessions[1].reconnect()

        async def all_missing(names: Iterable[str]) -> set[str]:
            return set(names)

        # Another broker creates it between the look and the commit.
        monkeypatch.setattr(member.store, "missing_topics", all_missing)
        assert isinstance((await member.topics.create(wanted, wait_ms=0))["words"], TopicAlreadyExistsError)
        assert member.cache.topic("words") is not None
        assert member.gone == []

    in_cluster(tmp_path, scenario)


def act_at_once(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have the controller act on each change of a topic before the commit, which others disturb, decides again."""
    write = TopicWriter.write

    async def then_act(topics: TopicWriter, view: View, state: ClusterState, operation: TopicOperation) -> bool:
        is_written = await write(topics, view, state, operation)
        if is_written:
            await act()
        return is_written

    monkeypatch.setattr(TopicWriter, "write", then_act)


def test_what_a_request_creates_is_not_refused_because_another_name_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(member: Member) -> None:
        other = await member.world.store(2)
        await other.commit(lambda state: [CreateTopic(new_topic("taken", 1))])
        act_at_once(monkeypatch, member.tell)
        made = await member.topics.create([NewTopic("free", 1, 1), NewTopic("taken", 1, 1)], wait_ms=0)
        assert [type(made[name]) for name in ("free", "taken")] == [TopicState, TopicAlreadyExistsError]

    in_cluster(tmp_path, scenario)


def test_what_a_request_deletes_is_not_unknown_because_another_topic_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(member: Member) -> None:
        await member.topics.create([NewTopic("present", 1, 1), NewTopic("gone", 1, 1)], wait_ms=0)
        await member.tell()
        await member.zookeeper.delete(paths.topic("gone"))
        act_at_once(monkeypatch, lambda: member.delete("present"))
        results = await member.topics.delete(["present", "gone"], wait_ms=0)
        assert results["present"] is None
        assert isinstance(results["gone"], UnknownTopicOrPartitionError)

    in_cluster(tmp_path, scenario)
