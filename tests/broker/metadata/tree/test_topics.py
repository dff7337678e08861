"""Test how topics get into the tree, and are asked to be deleted, over a simulated ZooKeeper."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from broker.controller.decisions.planning import Placement, creations
from broker.metadata.model import NO_TOPIC_ID, ClusterState, PartitionState
from broker.metadata.operations import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    Operation,
)
from broker.metadata.znodes import configs, paths
from broker.metadata.znodes.topics import Assignment, TopicNode, decode_topic, encode_topic
from broker.zookeeper.interface import Create, Delete, Node, Result, Watch
from kafkalog.protocol.errors import TopicAlreadyExistsError
from tests.broker.metadata.tree.support import BROKERS, World, content, new_topic, run, until


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


@pytest.mark.parametrize("is_created_again", [True, False])
@pytest.mark.parametrize("with_topic_ids", [True, False])
def test_a_deletion_whose_answer_was_lost_spares_a_topic_of_the_same_name(
    with_topic_ids: bool, is_created_again: bool
) -> None:
    """The order is carried out while the broker is not connected, and the topic is created again."""

    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store(with_topic_ids=with_topic_ids)
        topic = new_topic("words", 1)
        await store.commit(lambda state: [CreateTopic(topic)])
        order = paths.delete_topic("words")
        breaks: list[Sequence[Any]] = []

        def carry_out(operations: Sequence[Any], session_id: int) -> None:
            if breaks or not world.ensemble.exists(order):
                return
            breaks.append(operations)
            world.sessions[1].disconnect()
            world.ensemble.carry_out([Delete(paths.topic("words")), Delete(order)], 0)
            if is_created_again:
                other = encode_topic(TopicNode(uuid.UUID(int=9) if with_topic_ids else None, {0: Assignment((1,))}))
                world.ensemble.carry_out([Create(paths.topic("words"), other)], 0)

        world.ensemble.on_commit = carry_out
        deletion = asyncio.ensure_future(store.commit(lambda state: [DeleteTopic("words", topic.topic_id)]))
        await until(lambda: breaks, "the order to delete the topic")
        world.sessions[1].reconnect()
        await deletion
        assert await zookeeper.children(paths.DELETE_TOPICS) == []
        assert await zookeeper.children(paths.TOPICS) == (["words"] if is_created_again else [])

    run(scenario)


def test_a_deletion_that_did_not_arrive_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        topic = new_topic("words", 1)
        await store.commit(lambda state: [CreateTopic(topic)])
        session = world.sessions[1]
        send = session.multi
        lost: list[Sequence[Any]] = []

        async def lose(operations: Sequence[Any]) -> list[Result]:
            if not lost:
                lost.append(operations)
                session.disconnect()
                world.loop.call_later(1.0, session.reconnect)
            return await send(operations)

        monkeypatch.setattr(session, "multi", lose)
        await store.commit(lambda state: [DeleteTopic("words", topic.topic_id)])
        assert lost
        assert await zookeeper.children(paths.DELETE_TOPICS) == ["words"]

    run(scenario)


def test_a_topic_that_changes_before_the_order_to_delete_it_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        zookeeper = world.session()
        store = await world.store()
        topic = new_topic("words", 1)
        await store.commit(lambda state: [CreateTopic(topic)])
        await zookeeper.set(paths.topic("words"), encode_topic(TopicNode(topic.topic_id, {0: Assignment((1, 2))})))
        other = encode_topic(TopicNode(uuid.UUID(int=9), {0: Assignment((1,))}))
        read = world.sessions[1].get

        async def get(path: str, watch: Watch | None = None) -> Node | None:
            found = await read(path, watch)
            if path == paths.topic("words"):
                monkeypatch.setattr(world.sessions[1], "get", read)
                world.ensemble.carry_out([Delete(path)], 0)
                world.ensemble.carry_out([Create(path, other)], 0)
            return found

        monkeypatch.setattr(world.sessions[1], "get", get)
        seen: list[uuid.UUID] = []

        def decide(state: ClusterState) -> list[DeleteTopic]:
            found = state.topics.get("words")
            seen.append(found.topic_id if found is not None else topic.topic_id)
            return [DeleteTopic("words", topic.topic_id)] if seen[-1] == topic.topic_id else []

        await store.commit(decide)
        assert seen == [topic.topic_id, uuid.UUID(int=9)]
        assert await zookeeper.children(paths.DELETE_TOPICS) == []

    run(scenario)
