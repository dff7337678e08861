"""Test the store of a cluster over a simulated ZooKeeper: what it writes, what it follows, and what it survives."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from broker.metadata.model import ClusterState
from broker.metadata.operations import (
    ConfigResource,
    CreateTopic,
    ElectController,
    Operation,
    SetClientQuota,
    SetConfig,
    SetScramCredentials,
    TakeProducerIds,
)
from broker.metadata.tree.entities import NoNodeForError
from broker.metadata.tree.notices import KEPT_MS
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import configs, notices, paths
from broker.metadata.znodes.cluster import ProducerIdBlock, decode_block
from broker.metadata.znodes.topics import Assignment, TopicNode, encode_topic
from broker.quota.entities import QuotaEntity
from broker.zookeeper.interface import ensure
from kafkalog.protocol.errors import PolicyViolationError
from kafkalog.protocol.scram import ScramCredential, ScramMechanism
from tests.broker.metadata.tree.support import World, content, creating, new_topic, run, topic_config, until
from tests.support.amount import mostly_exhaustive

ALICE = QuotaEntity.of([("user", "alice & co")])
DEFAULT_OF_ALICE = QuotaEntity.of([("user", "alice & co"), ("client-id", None)])
SCRAM = {"SCRAM-SHA-256": "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"}
TOPIC_NODE = encode_topic(TopicNode(uuid.UUID(int=1001), {0: Assignment((1,))}))


def test_credentials_of_users_reach_all_brokers_and_their_quotas_are_kept() -> None:
    made = ScramCredential.of_password(ScramMechanism.SHA_512, "secret")

    async def scenario(world: World) -> None:
        zookeeper = world.session()
        damaged = {"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "7"}
        await zookeeper.create("/config/users/alice%20%26%20co", configs.encode(damaged))
        one, two = await world.store(1), await world.store(2)
        assert one.state.scram_credentials == {}, "a damaged one lets nobody in"
        await one.commit(lambda state: [SetScramCredentials("alice & co", {ScramMechanism.SHA_512: made})])
        await until(lambda: two.state.scram_credentials == one.state.scram_credentials, "the other broker has them")
        assert two.state.scram_credentials == {"alice & co": {ScramMechanism.SHA_512: made}}
        assert two.state.client_quotas == {ALICE: {"producer_byte_rate": 7.0}}
        name = "users/alice%20%26%20co"
        assert await content(zookeeper, name) == {**damaged, "SCRAM-SHA-512": made.text()}
        await two.commit(lambda state: [SetScramCredentials("alice & co", {})])
        await until(lambda: one.state.scram_credentials == {}, "they are deleted everywhere")
        assert await content(zookeeper, name) == damaged

    run(scenario)


def test_a_listener_that_fails_keeps_no_change_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fail(state: ClusterState, operations: Sequence[Operation]) -> None:
        raise RuntimeError("a mistake")

    async def scenario(world: World) -> None:
        one, two = await world.store(1), await world.store(2)
        told: list[Operation] = []
        two.subscribe(fail)
        two.subscribe(lambda state, operations: told.extend(operations))
        change = SetClientQuota(ALICE, {"producer_byte_rate": 7.0})
        await one.commit(lambda state: [change])
        await until(lambda: told == [change], "the other broker's second listener knows")
        assert "a mistake" in caplog.text

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
        await until(lambda: topic_config("words") in world.told[2], "a new topic's is told, though it has none")
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


def test_what_was_read_before_a_topic_was_known_is_read_again_and_told() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store, other = await world.store(1), await world.store(2)
        node, notice = "/config/topics/words", b'{"version":2,"entity_path":"topics/words"}'

        async def notify(config: dict[str, str]) -> None:
            if config:
                await zookeeper.create(node, configs.encode(config))
            await zookeeper.create(paths.CONFIG_CHANGE_PREFIX, notice, is_sequential=True)

        # The notice comes before the word of the controller: listeners learn of it all the same.
        await notify({"retention.ms": "5"})
        await until(lambda: store.topic_config("words") == {"retention.ms": "5"}, "the notice is read")
        await zookeeper.create(paths.topic("words"), TOPIC_NODE)
        await world.tell(store, zookeeper)
        assert store.state.topics["words"].config == {"retention.ms": "5"}
        await until(lambda: topic_config("words", retention_ms="5") in world.told[1], "it is told once it is certain")

        # The notice comes after the deletion, and the next topic of the name has a configuration of its own.
        await zookeeper.delete(paths.topic("words"))
        await zookeeper.delete(node)
        await world.tell(store, zookeeper)
        world.told[1].clear()
        await notify({})
        await other.commit(lambda state: [SetConfig(ConfigResource.BROKER, "", {"log.retention.ms": "8"})])
        await until(lambda: store.state.broker_config != {}, "the notices are read")
        await zookeeper.create(node, configs.encode({"retention.ms": "6"}))
        await zookeeper.create(paths.topic("words"), TOPIC_NODE)
        await store.read_topic_configs(["words"])
        assert store.topic_config("words") == {"retention.ms": "6"}
        await zookeeper.set(node, configs.encode({"retention.ms": "7"}))
        await world.tell(store, zookeeper)
        await until(lambda: store.state.topics["words"].config == {"retention.ms": "7"}, "it is read again")
        assert topic_config("words", retention_ms="7") in world.told[1]

    run(scenario)


def test_configurations_that_could_not_be_read_are_read_after_the_next_word() -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store, other = await world.store(1), await world.store(2)
        await other.commit(lambda state: [CreateTopic(new_topic("words", 1, config={"retention.ms": "5"}))])
        world.sessions[1].disconnect()
        await world.tell(store, zookeeper)
        await asyncio.sleep(60)
        world.sessions[1].reconnect()
        assert store.state.topics["words"].config == {}
        store.publish(lambda state: (state, []))
        await until(lambda: store.state.topics["words"].config == {"retention.ms": "5"}, "it is read")

    run(scenario)


def test_commits_that_wait_for_each_other_fail_together_without_a_connection() -> None:
    async def scenario(world: World) -> None:
        store = await world.store(1)
        world.sessions[1].disconnect()
        lost_at = world.loop.time()
        commits = [store.commit(lambda state, n=n: [CreateTopic(new_topic(f"t{n}", 1))]) for n in range(5)]  # type: ignore[misc]
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(each) for each in outcomes] == [OSError] * 5
        assert 20 <= world.loop.time() - lost_at < 21
        with pytest.raises(OSError, match="there is no connection to ZooKeeper"):
            await store.commit(lambda state: [CreateTopic(new_topic("late", 1))])
        assert world.loop.time() - lost_at < 21

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
