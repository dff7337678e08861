"""Elections that somebody asks for, and the balancing of leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.controller.cluster.events import brokers, elections
from broker.controller.decisions.elections import ElectionType
from broker.metadata.znodes import configs, notices, paths
from kafkalog.protocol.errors import ErrorCode, KafkaError
from tests.broker.controller.cluster.world import World

KEY = ("words", 0)


def made() -> World:
    """Return a world in which broker 2 leads what broker 1 should lead."""
    world = World()
    world.make_topic("words", [(1, 2, 3)])
    world.make_topic("others", [(2, 3)])
    world.take_over()
    world.context.put_state(KEY, replace(world.context.states[KEY], leader=2))
    world.forget()
    return world


def codes(results: dict[tuple[str, int], int | KafkaError]) -> dict[tuple[str, int], int | ErrorCode]:
    return {key: each.code if isinstance(each, KafkaError) else each for key, each in results.items()}


def test_preferred_leaders() -> None:
    world = made()
    world.context.put_assignment(("deleted", 0), world.context.assignment(KEY))
    world.context.deleting.add("deleted")
    wanted = [KEY, ("others", 0), ("nothing", 0), ("deleted", 0)]
    results = world.run(elections.elect_leaders(world.context, wanted, ElectionType.PREFERRED))
    assert codes(results) == {
        KEY: 1,
        ("others", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("deleted", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert world.state("words").leader == 1
    assert world.state("words").leader_epoch == 1


def test_of_all_partitions_only_those_that_need_an_election_are_answered() -> None:
    world = made()
    assert codes(world.run(elections.elect_leaders(world.context, None, ElectionType.PREFERRED))) == {KEY: 1}


def test_a_preferred_leader_that_cannot_lead() -> None:
    world = made()
    world.context.put_state(KEY, replace(world.context.states[KEY], isr=(2, 3)))
    results = world.run(elections.elect_leaders(world.context, [KEY], ElectionType.PREFERRED))
    assert codes(results) == {KEY: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize("alive", [(1, 2), ()])
def test_unclean_elections(alive: tuple[int, ...]) -> None:
    world = made()
    results = world.run(elections.elect_leaders(world.context, [KEY], ElectionType.UNCLEAN))
    assert codes(results) == {KEY: ErrorCode.ELECTION_NOT_NEEDED}
    world.context.put_state(KEY, replace(world.context.states[KEY], isr=(3,), leader=-1))
    for broker in {1, 2, 3} - set(alive):
        world.deregister(broker)
    world.run(brokers.brokers_changed(world.context))
    results = world.run(elections.elect_leaders(world.context, [KEY], ElectionType.UNCLEAN))
    assert codes(results) == {KEY: 1 if alive else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_an_order_of_a_tool_is_carried_out_once_and_deleted() -> None:
    world = made()
    order = [KEY, ("others", 0), ("nothing", 0)]
    world.make(paths.PREFERRED_ELECTION, notices.encode_preferred_election(order))
    world.run(elections.by_order(world.context))
    assert world.state("words").leader == 1
    assert not world.tree.exists(paths.PREFERRED_ELECTION)
    world.make(paths.PREFERRED_ELECTION, b"{")
    world.run(elections.by_order(world.context))
    assert not world.tree.exists(paths.PREFERRED_ELECTION)


@pytest.mark.parametrize(("percentage", "is_balanced"), [(10, True), (50, False), (49, True)])
def test_leaders_are_balanced_above_a_share(percentage: int, is_balanced: bool) -> None:
    world = World(imbalance_percentage=percentage)
    world.make_topic("words", [(1, 2), (1, 3)])
    world.take_over()
    world.context.put_state(KEY, replace(world.context.states[KEY], leader=2))
    world.run(elections.balance(world.context))
    assert (world.context.states[KEY].leader == 1) == is_balanced


def test_balancing_asks_only_for_what_can_be() -> None:
    world = made()
    world.context.put_state(KEY, replace(world.context.states[KEY], isr=(2, 3)))
    world.run(elections.balance(world.context))
    assert not world.sent


def test_elections_are_tried_again_when_unclean_ones_are_allowed() -> None:
    world = World()
    world.make_topic("words", [(1, 2)])
    world.make_topic("others", [(1, 2)])
    world.take_over()
    for name in ("words", "others"):
        world.context.put_state((name, 0), replace(world.context.states[name, 0], isr=(1,)))
    world.deregister(1)
    world.run(brokers.brokers_changed(world.context))
    assert world.context.states[KEY].leader == -1
    for name in ("words", "others"):
        world.make(paths.config("topics", name), configs.encode({"unclean.leader.election.enable": "true"}))
    world.run(elections.unclean_enabled(world.context, ["words"]))
    assert world.context.states[KEY].leader == 2
    assert world.context.states["others", 0].leader == -1
    world.run(elections.unclean_enabled(world.context, None))
    assert world.context.states["others", 0].leader == 2
