"""A member that was not told of the deletion of a topic, because it was not registered then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.member.reconciliation.gone_topics import GoneTopics
from broker.metadata.model import ClusterState
from broker.metadata.operations import CreateTopic, DeleteTopic, Operation
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import paths
from broker.zookeeper.interface import Delete
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.controller.cluster.support import IDS, Cluster, play
from tests.broker.metadata.tree.support import World, new_topic, run

LOOKS = {"kafkalog.role.check.interval.ms": "20000"}
NOBODY = 0


def knows(cluster: Cluster, number: int, topic: str) -> bool:
    return topic in cluster.hosts[number].server.store.state.topics


def leave_office(cluster: Cluster) -> None:
    if cluster.ensemble.exists(paths.CONTROLLER):
        cluster.ensemble.carry_out([Delete(paths.CONTROLLER)], NOBODY)


async def delete_without_a_word(cluster: Cluster, topic: str) -> int:
    """Delete a topic while a broker without a replica of it is not registered; return that broker.

    It is not the controller, and knows of the topic.
    """
    boss, state = cluster.boss(), cluster.partition(topic)
    assert boss is not None
    assert state is not None
    absent = next(number for number in IDS if number not in (boss, *state.replicas))
    await cluster.until(lambda: knows(cluster, absent, topic))
    cluster.hosts[absent].session.disconnect()
    await cluster.until(lambda: not cluster.ensemble.exists(paths.broker_id(absent)))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=60_000)
    assert (await cluster.hosts[boss].ask(request, 6)).responses[0].error_code == 0
    await cluster.until(lambda: not cluster.ensemble.exists(paths.topic(topic)))
    cluster.hosts[absent].session.reconnect()
    await cluster.until(lambda: cluster.ensemble.exists(paths.broker_id(absent)))
    await cluster.until(lambda: len(cluster.hosts[boss].server.store.state.brokers) == len(IDS))
    return absent


def test_a_broker_forgets_a_topic_that_was_deleted_while_it_was_not_registered(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("kept")
        await cluster.create("words", 1)
        absent = await delete_without_a_word(cluster, "words")
        gone: list[frozenset[str]] = []
        cluster.hosts[absent].server.broker.topics.on_deleted.append(gone.append)
        await cluster.until(lambda: not knows(cluster, absent, "words"))
        assert gone == [frozenset({"words"})]
        assert all(knows(cluster, number, "kept") for number in IDS)

    play(tmp_path, scenario, settings=LOOKS)


def test_a_broker_that_missed_a_deletion_creates_the_topic_as_the_controller(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words", 1)
        absent = await delete_without_a_word(cluster, "words")
        assert knows(cluster, absent, "words"), "it does not look by itself in this test"

        def is_boss() -> bool:
            boss = cluster.boss()
            if boss is not None and boss != absent:
                leave_office(cluster)
            return boss == absent

        await cluster.until(is_boss)
        await cluster.create("words")
        await cluster.until_in_sync("words", set(IDS))

    play(tmp_path, scenario)


def test_a_topic_is_forgotten_that_two_looks_in_a_row_do_not_find() -> None:
    """A server of ZooKeeper may be behind the others for one look."""

    async def main(world: World) -> None:
        store, session = await world.store(), world.session()
        topics = [new_topic("kept", 1), new_topic("words", 2)]
        await store.commit(lambda state: [CreateTopic(topic) for topic in topics])
        await world.tell(store, session)
        told = world.told[1]
        told.clear()
        found = ["kept", "words"]

        async def children(path: str) -> list[str]:
            assert path == paths.TOPICS
            return found

        zookeeper: Any = SimpleNamespace(children=children)
        gone = GoneTopics(zookeeper, store)
        assert not await gone.look()
        for _ in range(2):
            found = ["kept"]
            assert await gone.look()
            found = ["kept", "words"]
            assert not await gone.look()
        assert told == []
        found = ["kept"]
        assert await gone.look()
        tell_anew(store, "words")
        assert await gone.look(), "the controller has told of it since the last look"
        assert told == []
        assert not await gone.look()
        assert told == [DeleteTopic("words", topics[1].topic_id)]
        assert list(store.state.topics) == ["kept"]

    run(main)


def tell_anew(store: ZooKeeperStore, name: str) -> None:
    """Tell of a topic with another leader."""

    def merge(state: ClusterState) -> tuple[ClusterState, list[Operation]]:
        topic = state.topics[name]
        partitions = tuple(replace(each, leader=2) for each in topic.partitions)
        return replace(state, topics={**state.topics, name: replace(topic, partitions=partitions)}), []

    store.publish(merge)
