"""Test the store of a cluster over a simulated ZooKeeper: what it writes, what it follows, and what it survives."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from broker.controller.decisions.planning import Placement, creations
from broker.metadata.model import NO_TOPIC_ID, ClusterState, PartitionState, TopicState
from broker.metadata.operations import (
    AddPartitions,
    ConfigResource,
    CreateTopic,
    DeleteTopic,
    ElectController,
    Operation,
    SetClientQuota,
    SetConfig,
    TakeProducerIds,
)
from broker.metadata.tree.entities import NoNodeForError
from broker.metadata.tree.notices import KEPT_MS
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import configs, notices, paths
from broker.metadata.znodes.cluster import ProducerIdBlock, decode_block
from broker.metadata.znodes.topics import Assignment, TopicNode, decode_topic, encode_topic
from broker.quota.entities import QuotaEntity
from broker.zookeeper.interface import ZooKeeper, ensure
from kafkalog.protocol.errors import PolicyViolationError, TopicAlreadyExistsError
from tests.broker.metadata.tree.support import BROKERS, World, new_topic, run
from tests.support.amount import mostly_exhaustive

ALICE = QuotaEntity.of([("user", "alice & co")])
DEFAULT_OF_ALICE = QuotaEntity.of([("user", "alice & co"), ("client-id", None)])
SCRAM = {"SCRAM-SHA-256": "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"}


def topic_config(name: str, **config: str) -> SetConfig:
    return SetConfig(ConfigResource.TOPIC, name, {key.replace("_", "."): value for key, value in config.items()})


def creating(topic: TopicState, state: ClusterState) -> list[CreateTopic]:
    return [] if topic.name in state.topics else [CreateTopic(topic)]


async def content(zookeeper: ZooKeeper, name: str) -> dict[str, str]:
    node = await zookeeper.get(f"/config/{name}")
    assert node is not None
    return configs.decode(name, node.data)


async def until(holds: object, what: str) -> None:
    assert callable(holds)
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"waited in vain: {what}")


def test_a_topic_is_written_with_its_configuration_and_known_once_the_controller_tells() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        topic = new_topic("words", 1, config={"retention.ms": "5"})
        state = await store.commit(lambda state: [CreateTopic(topic)])
        assert "words" not in state.topics, "only the controller says what exists"
        node = await zookeeper.get("/brokers/topics/words")
        assert node is not None
        assert node.data == (
            b'{"version":3,"partitions":{"0":[1,2,3],"1":[1,2,3]},"adding_replicas":{},"removing_replicas":{},'
            b'"topic_id":"AAAAAAAAAAAAAAAAAAAD6Q"}'
        )
        assert await content(zookeeper, "topics/words") == {"retention.ms": "5"}
        assert await zookeeper.children(paths.CONFIG_CHANGES) == []
        await world.tell(store, zookeeper)
        assert store.state.topics["words"].config == {"retention.ms": "5"}

    run(scenario)


def test_an_existing_topic_is_found_although_the_controller_has_not_told_of_it() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store, other = await world.store(1), await world.store(2)
        await other.commit(lambda state: [CreateTopic(new_topic("taken", 1, config={"retention.ms": "1"}))])
        placement = Placement(BROKERS, 1, 1, 1, random.Random(0))
        refused: dict[str, Exception] = {}
        made: list[str] = []

        def decide(state: ClusterState) -> Sequence[Operation]:
            wanted = [new_topic("free", 2), new_topic("taken", 3, config={"retention.ms": "2"}), new_topic("also", 4)]
            operations, errors = creations(state, placement, wanted)
            refused.clear()
            refused.update(errors)
            made[:] = [operation.topic.name for operation in operations]
            return operations

        await store.commit(decide)
        assert made == ["free", "also"]
        assert {name: type(error) for name, error in refused.items()} == {"taken": TopicAlreadyExistsError}
        assert sorted(await zookeeper.children(paths.TOPICS)) == ["also", "free", "taken"]
        assert await content(zookeeper, "topics/taken") == {"retention.ms": "1"}, "the refused one changed nothing"

    run(scenario)


def test_configuration_left_by_a_deleted_topic_is_replaced() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        await zookeeper.create("/config/topics/words", configs.encode({"retention.ms": "1"}))
        store = await world.store()
        await store.commit(lambda state: [CreateTopic(new_topic("words", 1))])
        assert await content(zookeeper, "topics/words") == {}

    run(scenario)


def test_a_topic_without_id_for_old_clusters() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store(with_topic_ids=False)
        await store.commit(lambda state: [CreateTopic(new_topic("words", 1))])
        node = await zookeeper.get("/brokers/topics/words")
        assert node is not None
        assert decode_topic("words", node.data).topic_id is None

    run(scenario)


def test_partitions_are_added_to_what_is_in_the_tree() -> None:
    """A reassignment is going on, of which UpdateMetadata does not tell; another broker adds a partition before us."""

    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        topic = new_topic("words", 1, partitions=1)
        await store.commit(lambda state: [CreateTopic(topic)])
        await world.tell(store, zookeeper)
        moving = {0: Assignment((2, 1, 3), adding=(2,), removing=(3,)), 1: Assignment((3,))}
        await zookeeper.set("/brokers/topics/words", encode_topic(TopicNode(topic.topic_id, moving)))
        seen: list[int] = []

        def decide(state: ClusterState) -> list[AddPartitions]:
            present = state.topics["words"].partitions
            seen.append(len(present))
            one = PartitionState((1, 2), (1, 2), 1)
            return [AddPartitions("words", len(present), (one,) * (4 - len(present)))]

        await store.commit(decide)
        assert seen == [1, 2]
        node = await zookeeper.get("/brokers/topics/words")
        assert node is not None
        assert decode_topic("words", node.data) == TopicNode(
            topic.topic_id, {**moving, 2: Assignment((1, 2)), 3: Assignment((1, 2))}
        )

    run(scenario)


def test_a_deletion_is_asked_for_once_and_only_of_the_topic_that_is_meant() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        topic = new_topic("words", 1)
        await store.commit(lambda state: [CreateTopic(topic)])
        await world.tell(store, zookeeper)
        found: list[object] = []

        def decide(state: ClusterState) -> list[DeleteTopic]:
            present = state.topics.get("words")
            found.append(present and present.topic_id)
            meant = uuid.UUID(int=77)
            return [DeleteTopic("words", meant)] if len(found) == 1 else []

        await store.commit(decide)
        assert found == [topic.topic_id, topic.topic_id]
        assert await zookeeper.children(paths.DELETE_TOPICS) == []
        for _ in range(2):
            await store.commit(lambda state: [DeleteTopic("words", topic.topic_id)])
        assert await zookeeper.children(paths.DELETE_TOPICS) == ["words"]
        await zookeeper.delete("/brokers/topics/words")
        gone: list[ClusterState] = []

        def delete_what_exists(state: ClusterState) -> list[DeleteTopic]:
            gone.append(state)
            return [DeleteTopic("words", topic.topic_id)] if "words" in state.topics else []

        await store.commit(delete_what_exists)
        assert ["words" in state.topics for state in gone] == [True, False]
        assert "words" in store.state.topics, "until the controller tells"

    run(scenario)


def test_configurations_reach_all_brokers_and_other_keys_of_a_user_are_kept() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        await zookeeper.create("/config/users/alice%20%26%20co", configs.encode({**SCRAM, "producer_byte_rate": "7"}))
        one, two = await world.store(1), await world.store(2)
        assert one.state.client_quotas == {ALICE: {"producer_byte_rate": 7.0}}
        await one.commit(lambda state: [CreateTopic(new_topic("words", 1))])
        for store in (one, two):
            await world.tell(store, zookeeper)
        quotas = {"consumer_byte_rate": 1024.0, "request_percentage": 12.5}
        world.told[2].clear()
        await one.commit(
            lambda state: [
                topic_config("words", retention_ms="9"),
                SetConfig(ConfigResource.BROKER, "", {"log.retention.ms": "8"}),
                SetConfig(ConfigResource.BROKER, "2", {"log.retention.ms": "7"}),
                SetClientQuota(ALICE, quotas),
                SetClientQuota(DEFAULT_OF_ALICE, quotas),
                SetClientQuota(QuotaEntity.of([("ip", "10.0.0.1")]), {"connection_creation_rate": 3.0}),
            ]
        )
        assert one.state.topics["words"].config == {"retention.ms": "9"}, "in force for the broker that wrote it"
        await until(lambda: two.state.client_quotas == one.state.client_quotas, "the other broker has the quotas")
        assert two.state.topics["words"].config == {"retention.ms": "9"}
        assert two.state.broker_config == {"": {"log.retention.ms": "8"}, "2": {"log.retention.ms": "7"}}
        assert two.state.client_quotas[DEFAULT_OF_ALICE] == quotas
        assert await content(zookeeper, "users/alice%20%26%20co") == {
            **SCRAM, "consumer_byte_rate": "1024", "request_percentage": "12.5",
        }  # fmt: skip
        assert await content(zookeeper, "users/alice%20%26%20co/clients/<default>") == {
            "consumer_byte_rate": "1024", "request_percentage": "12.5",
        }  # fmt: skip
        assert await content(zookeeper, "ips/10.0.0.1") == {"connection_creation_rate": "3"}
        entities = set()
        for name in await zookeeper.children(paths.CONFIG_CHANGES):
            node = await zookeeper.get(f"{paths.CONFIG_CHANGES}/{name}")
            assert node is not None
            entities.add(notices.decode_config_change(name, node.data))
        assert entities == {
            "topics/words", "brokers/<default>", "brokers/2", "users/alice%20%26%20co",
            "users/alice%20%26%20co/clients/<default>", "ips/10.0.0.1",
        }  # fmt: skip
        told = [each for each in world.told[2] if isinstance(each, SetConfig | SetClientQuota)]
        assert len(told) == 6, "each change is told once"

    run(scenario)


def test_two_brokers_change_one_configuration_and_both_changes_last() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        stores = [await world.store(1), await world.store(2)]
        await stores[0].commit(lambda state: [CreateTopic(new_topic("words", 1))])
        for store in stores:
            await world.tell(store, zookeeper)

        async def add(store: ZooKeeperStore, key: str) -> None:
            await store.commit(
                lambda state: [SetConfig(ConfigResource.TOPIC, "words", {**state.topics["words"].config, key: "1"})]
            )

        keys = [f"key.{number}" for number in range(12)]
        await asyncio.gather(*(add(stores[number % 2], key) for number, key in enumerate(keys)))
        assert set(await content(zookeeper, "topics/words")) == set(keys)

    run(scenario)


def test_a_configuration_waits_for_a_controller() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        await zookeeper.delete(paths.CONTROLLER)
        change = SetConfig(ConfigResource.BROKER, "", {"log.retention.ms": "8"})
        writing = asyncio.ensure_future(store.commit(lambda state: [change]))
        await asyncio.sleep(1)
        assert not writing.done()
        await zookeeper.create(paths.CONTROLLER, b"{}")
        await writing
        assert store.state.broker_config == {"": {"log.retention.ms": "8"}}
        await zookeeper.delete(paths.CONTROLLER)
        with pytest.raises(OSError, match="no controller"):
            await store.commit(lambda state: [replace(change, config={})])

    run(scenario)


def test_notices_of_every_form_are_followed_and_old_ones_removed() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        await store.commit(lambda state: [CreateTopic(new_topic(name, at)) for at, name in enumerate("abc")])
        await world.tell(store, zookeeper)
        forms = {
            "a": b'{"version":2,"entity_path":"topics/a"}',
            "b": b'{"version":1,"entity_type":"topics","entity_name":"b"}',
            "c": b'"c"',
        }
        await zookeeper.create(paths.CONFIG_CHANGE_PREFIX, b"what is this?", is_sequential=True)
        for name, data in forms.items():
            await zookeeper.set(f"/config/topics/{name}", configs.encode({"retention.ms": name}))
            await zookeeper.create(paths.CONFIG_CHANGE_PREFIX, data, is_sequential=True)
        await until(lambda: store.state.topics["c"].config == {"retention.ms": "c"}, "the last form")
        assert [store.state.topics[name].config for name in "ab"] == [{"retention.ms": "a"}, {"retention.ms": "b"}]
        assert len(await zookeeper.children(paths.CONFIG_CHANGES)) == 4
        await asyncio.sleep(KEPT_MS / 1000 + 1)
        await zookeeper.create(paths.CONFIG_CHANGE_PREFIX, forms["a"], is_sequential=True)
        await asyncio.sleep(1)
        assert len(await zookeeper.children(paths.CONFIG_CHANGES)) == 1

    run(scenario)


@pytest.mark.parametrize("away_s", [1, 10, 3600], ids=["a moment", "a new session", "longer than notices are kept"])
def test_changes_during_an_outage_are_read_afterwards(away_s: int) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.store(1), await world.store(2)
        change = SetConfig(ConfigResource.BROKER, "", {"log.retention.ms": "8"})
        world.sessions[1].disconnect()
        await other.commit(lambda state: [change])
        await asyncio.sleep(away_s)
        await other.commit(lambda state: [SetConfig(ConfigResource.BROKER, "2", {"log.retention.ms": "6"})])
        world.sessions[1].reconnect()
        await until(lambda: len(store.state.broker_config) == 2, "what was changed meanwhile")
        await other.commit(lambda state: [replace(change, config={"log.retention.ms": "9"})])
        await until(lambda: store.state.broker_config[""] == {"log.retention.ms": "9"}, "and what is changed later")

    run(scenario)


def test_configuration_of_a_new_topic_is_read_before_its_logs_are_made_or_when_the_controller_tells() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store, other = await world.store(1), await world.store(2)
        for number, name in enumerate(("early", "late"), 1):
            topic = new_topic(name, number, config={"retention.ms": "5"})
            await other.commit(partial(creating, topic))
        await store.read_topic_configs(["early"])
        assert store.topic_config("early") == {"retention.ms": "5"}
        await world.tell(store, zookeeper)
        assert store.state.topics["early"].config == {"retention.ms": "5"}
        await until(lambda: store.state.topics["late"].config == {"retention.ms": "5"}, "the other is read")
        assert topic_config("late", retention_ms="5") in world.told[1]

        # A topic of the same name that is created after a deletion does not get the configuration of the former.
        await zookeeper.delete("/brokers/topics/early")
        await zookeeper.delete("/config/topics/early")
        await world.tell(store, zookeeper)
        await other.commit(lambda state: [CreateTopic(new_topic("early", 9, config={"retention.ms": "6"}))])
        await world.tell(store, zookeeper)
        await until(lambda: store.state.topics["early"].config == {"retention.ms": "6"}, "its own configuration")

        # Nor where one word tells of both.
        await zookeeper.delete("/brokers/topics/early")
        await other.commit(lambda state: [CreateTopic(new_topic("early", 10, config={"retention.ms": "7"}))])
        await world.tell(store, zookeeper)
        assert store.state.topics["early"].config == {}
        await until(lambda: store.state.topics["early"].config == {"retention.ms": "7"}, "its own configuration")

    run(scenario)


def test_blocks_of_producer_ids_follow_each_other_across_brokers() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        stores = [await world.store(1), await world.store(2)]
        taken: list[int] = []

        async def take(store: ZooKeeperStore) -> None:
            state = await store.commit(lambda state: [TakeProducerIds(state.next_producer_id + 1000)])
            taken.append(state.next_producer_id)

        await asyncio.gather(*(take(stores[number % 2]) for number in range(8)))
        assert sorted(taken) == [1000 * number for number in range(1, 9)]
        node = await zookeeper.get(paths.PRODUCER_ID_BLOCK)
        assert node is not None
        last = decode_block(node.data)
        assert (last.first, last.last) == (7000, 7999)
        assert last.broker_id in (1, 2)
        assert last == ProducerIdBlock(last.broker_id, 7000, 7999)

    run(scenario)


def test_what_has_no_node_is_refused_and_nothing_is_written() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        group = SetConfig(ConfigResource.GROUP, "g", {"consumer.session.timeout.ms": "1"})
        with pytest.raises(NoNodeForError, match="none of groups"):
            await store.commit(lambda state: [CreateTopic(new_topic("words", 1)), group])
        with pytest.raises(NoNodeForError, match="ElectController"):
            await store.commit(lambda state: [CreateTopic(new_topic("words", 1)), ElectController(1, 1)])
        assert await zookeeper.children(paths.TOPICS) == []

    run(scenario)


def test_nodes_that_zookeeper_would_not_take_are_refused_by_name() -> None:
    async def scenario(world: World) -> None:
        store = await world.store(max_bytes=10_000)
        with pytest.raises(PolicyViolationError, match=r"/brokers/topics/wide .*jute\.maxbuffer"):
            await store.commit(lambda state: [CreateTopic(new_topic("wide", 1, partitions=1000))])
        wide = {"leader.replication.throttled.replicas": "0:1," * 5000}
        with pytest.raises(PolicyViolationError, match="/config/topics/words"):
            await store.commit(lambda state: [CreateTopic(new_topic("words", 1, config=wide))])
        # Many small ones are written in parts.
        operations = [
            SetConfig(ConfigResource.BROKER, str(number), {"log.retention.ms": "9" * 99}) for number in range(99)
        ]
        await store.commit(lambda state: operations)
        assert len(store.state.broker_config) == 99

    run(scenario)


@pytest.mark.parametrize("seed", mostly_exhaustive(range(60), 4))
def test_every_commit_takes_effect_once_however_often_the_connection_breaks(seed: int) -> None:
    """Stores of two brokers work while their connections break; each counter counts what was committed."""

    async def scenario(world: World) -> None:
        zookeeper = world.session()
        stores = {broker: await world.store(broker) for broker in (1, 2)}
        await stores[1].commit(lambda state: [CreateTopic(new_topic("words", 0, partitions=1))])
        await world.tell(stores[1], zookeeper)
        await world.tell(stores[2], zookeeper)
        chance = random.Random(seed)
        ended = asyncio.Event()

        async def break_connections(broker: int) -> None:
            while not ended.is_set():
                await asyncio.sleep(chance.uniform(0, 0.03))
                world.sessions[broker].disconnect()
                await asyncio.sleep(chance.choice([0.01, 0.1, 8.0]) * chance.random())
                world.sessions[broker].reconnect()

        def count(state: ClusterState) -> list[Operation]:
            number = int(state.broker_config.get("", {}).get("log.retention.ms", "0"))
            return [SetConfig(ConfigResource.BROKER, "", {"log.retention.ms": str(number + 1)})]

        taken: list[int] = []

        async def work(broker: int) -> int:
            store, configured = stores[broker], 0
            for number in range(12):
                try:
                    await store.commit(count)
                    configured += 1
                    state = await store.commit(lambda state: [TakeProducerIds(state.next_producer_id + 1000)])
                    taken.append(state.next_producer_id)
                    await store.commit(partial(creating, new_topic(f"topic-{broker}-{number}", 7)))
                except OSError:
                    continue
            return configured

        breaking = [asyncio.ensure_future(break_connections(broker)) for broker in (1, 2)]
        counts = await asyncio.gather(work(1), work(2))
        ended.set()
        await asyncio.gather(*breaking)
        written = int((await content(zookeeper, "brokers/<default>"))["log.retention.ms"])
        assert written == sum(counts)
        assert len(set(taken)) == len(taken), "no block of ids is given twice"
        assert len(await zookeeper.children(paths.TOPICS)) == 1 + len(taken)
        for store in stores.values():
            await until(
                lambda store=store: store.state.broker_config[""] == {"log.retention.ms": str(written)},
                "all know the last",
            )

    run(scenario, seed)


def test_a_topic_that_lost_its_id_counts_as_the_one_that_is_known() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        topic = new_topic("words", 1)
        await store.commit(lambda state: [CreateTopic(topic)])
        await world.tell(store, zookeeper)
        node = TopicNode(None, {index: Assignment(BROKERS) for index in range(2)})
        await zookeeper.set("/brokers/topics/words", encode_topic(node))
        await store.commit(lambda state: [DeleteTopic("words", topic.topic_id)])
        assert await zookeeper.children(paths.DELETE_TOPICS) == ["words"]
        assert NO_TOPIC_ID not in {each.topic_id for each in store.state.topics.values()}

    run(scenario)


def test_parents_that_are_missing_are_made() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        for path in (
            paths.CONFIG_CHANGES,
            "/config/ips",
            "/config/topics",
            "/config/brokers",
            "/config/users",
            "/config/clients",
        ):
            await zookeeper.delete(path)
        await store.commit(lambda state: [SetClientQuota(DEFAULT_OF_ALICE, {"request_percentage": 5.0})])
        await store.commit(lambda state: [CreateTopic(new_topic("words", 1))])
        assert await content(zookeeper, "topics/words") == {}
        await ensure(zookeeper, paths.CONFIG_CHANGES)
        assert len(await zookeeper.children(paths.CONFIG_CHANGES)) == 1

    run(scenario)
