"""Topics that others create and change."""

from __future__ import annotations

import uuid

import pytest

from broker.controller.cluster.events import topics
from broker.metadata.znodes import paths
from broker.metadata.znodes.topics import Assignment, TopicNode, encode_topic
from tests.broker.controller.cluster.world import World


def look(world: World) -> None:
    world.run(topics.topics_changed(world.context, world.chance))


def test_a_new_topic_gets_an_id_and_leaders() -> None:
    world = World()
    world.take_over()
    world.make_topic("words", [(1, 2), (2, 3)])
    look(world)
    node = world.topic("words")
    assert node.topic_id is not None
    assert world.context.topic_ids == {"words": node.topic_id}
    assert (world.state("words", 0).leader, world.state("words", 1).leader) == (1, 2)
    assert world.roles().keys() == {(1, ("words", 0)), (2, ("words", 0)), (2, ("words", 1)), (3, ("words", 1))}
    assert all(is_new for *_, is_new in world.roles().values())
    assert paths.topic("words") in world.watched
    world.forget()
    look(world)
    assert not world.sent


@pytest.mark.parametrize("protocol", ["2.7", "2.8"])
def test_ids_that_exist_are_kept_and_others_made_from_2_8_on(protocol: str) -> None:
    world = World(protocol=protocol)
    known = uuid.UUID(int=5)
    world.make(paths.topic("old"), encode_topic(TopicNode(known, {0: Assignment((1,))})))
    world.make_topic("new", [(1,)])
    world.take_over()
    assert world.topic("old").topic_id == known
    assert (world.topic("new").topic_id is not None) == (protocol == "2.8")
    assert world.context.topic_names[known] == "old"


def test_partitions_are_added() -> None:
    world = World()
    world.make_topic("words", [(1, 2)])
    world.take_over()
    node = world.topic("words")
    world.forget()
    more = TopicNode(node.topic_id, {**node.partitions, 1: Assignment((2, 3)), 2: Assignment((9,))})
    world.make(paths.topic("words"), encode_topic(more))
    world.run(topics.partitions_changed(world.context, {"words", "nothing"}))
    assert world.state("words", 1).leader == 2
    assert world.roles().keys() == {(2, ("words", 1)), (3, ("words", 1))}
    # None of its replicas is alive.
    assert not world.tree.exists(paths.partition_state("words", 2))


def test_partitions_that_are_added_before_a_topic_has_its_id_are_not_lost() -> None:
    world = World()
    world.take_over()
    world.make_topic("words", [(1, 2)])

    def add() -> None:
        world.on_write = lambda: None
        world.make_topic("words", [(1, 2), (2, 3)])

    world.on_write = add
    look(world)
    assert world.topic("words") == TopicNode(
        world.context.topic_ids["words"], {0: Assignment((1, 2)), 1: Assignment((2, 3))}
    )
    world.run(topics.partitions_changed(world.context, ["words"]))
    assert world.state("words", 1).leader == 2


def test_a_topic_that_is_gone_is_forgotten() -> None:
    world = World()
    world.make_topic("words", [(1,)])
    world.take_over()
    world.remove(paths.topic("words"))
    look(world)
    assert not world.context.assignments
    assert not world.context.states
    assert paths.topic("words") not in world.watched


def test_a_topic_that_cannot_be_read_harms_no_other() -> None:
    world = World()
    world.make(paths.topic("broken"), b"{")
    world.make_topic("words", [(1,)])
    world.take_over()
    assert set(world.context.assignments) == {"words"}
    assert world.state("words").leader == 1
