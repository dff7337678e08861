"""Partitions from one phase to another; the cases of Kafka's `PartitionStateMachineTest`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.controller.cluster.machine import partitions
from broker.controller.cluster.model.context import PartitionPhase
from broker.controller.cluster.model.leaders import Strategy
from broker.controller.cluster.model.states import StateChangeError
from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes import configs, paths
from broker.metadata.znodes.topics import StateNode
from tests.broker.controller.cluster.world import EPOCH, World

KEY = ("words", 0)
NON_EXISTENT, NEW, ONLINE, OFFLINE = (
    PartitionPhase.NON_EXISTENT,
    PartitionPhase.NEW,
    PartitionPhase.ONLINE,
    PartitionPhase.OFFLINE,
)
ALLOWED = {
    (NON_EXISTENT, NEW),
    (NEW, ONLINE),
    (NEW, OFFLINE),
    (ONLINE, ONLINE),
    (ONLINE, OFFLINE),
    (OFFLINE, ONLINE),
    (OFFLINE, OFFLINE),
    (OFFLINE, NON_EXISTENT),
}


def made(protocol: str = "3.9", replicas: tuple[int, ...] = (1, 2, 3)) -> World:
    """Return a world with one partition that the controller knows."""
    world = World(protocol=protocol)
    world.make_topic("words", [replicas])
    world.take_over()
    world.forget()
    return world


@pytest.mark.parametrize("before", PartitionPhase)
@pytest.mark.parametrize("after", PartitionPhase)
def test_only_some_changes_are_allowed(before: PartitionPhase, after: PartitionPhase) -> None:
    world = made()
    if before is NEW:
        world.remove(paths.partitions("words"))
        del world.context.states[KEY]
    world.context.partition_phases[KEY] = before
    world.run(partitions.change(world.context, [KEY], after, Strategy.PREFERRED))
    expected = after if (before, after) in ALLOWED else before
    assert world.context.partition_phases[KEY] is expected


def test_a_new_partition_is_led_by_its_first_live_replica() -> None:
    world = World(brokers=(2, 3))
    world.make_topic("words", [(1, 3, 2)])
    world.take_over()
    assert world.state("words") == StateNode(3, 0, (3, 2), EPOCH)
    assert world.roles() == {(2, KEY): (3, 0, (3, 2), True), (3, KEY): (3, 0, (3, 2), True)}
    assert world.informed()[2] == {KEY: (3, (3, 2))}


def test_a_new_partition_without_live_replica_waits() -> None:
    world = World(brokers=(2, 3))
    world.make_topic("words", [(1,)])
    world.take_over()
    assert world.context.partition_phases[KEY] is NEW
    assert not world.tree.exists(paths.partition_state(*KEY))
    assert not world.roles()


def test_a_state_that_exists_is_taken_over() -> None:
    world = made()
    world.context.partition_phases[KEY] = NEW
    del world.context.states[KEY]
    results = world.run(partitions.change(world.context, [KEY], ONLINE))
    assert isinstance(results[KEY], StateNode)
    assert world.state("words") == replace(StateNode(1, 1, (1, 2, 3), EPOCH), partition_epoch=1)


def test_an_election_that_changes_nothing_is_an_election() -> None:
    world = made()
    results = world.run(partitions.change(world.context, [KEY], ONLINE, Strategy.PREFERRED))
    assert results[KEY] == StateNode(1, 1, (1, 2, 3), EPOCH, 1)
    assert world.state("words") == results[KEY]
    assert world.roles()[2, KEY] == (1, 1, (1, 2, 3), False)


def test_an_election_is_repeated_when_the_leader_has_changed_the_isr_meanwhile() -> None:
    world = made("2.6")

    def interfere() -> None:
        world.on_write = lambda: None
        world.put_state("words", 0, replace(world.state("words"), isr=(1, 3)))

    world.on_write = interfere
    world.context.brokers.pop(1)
    results = world.run(partitions.change(world.context, [KEY], ONLINE, Strategy.OFFLINE))
    assert results[KEY] == StateNode(3, 1, (3,), EPOCH, 2)


def test_the_state_of_a_later_controller_stays() -> None:
    world = made("2.6")
    later = replace(world.state("words"), controller_epoch=EPOCH + 1)
    world.put_state("words", 0, later)
    results = world.run(partitions.change(world.context, [KEY], ONLINE, Strategy.PREFERRED))
    assert isinstance(results[KEY], StateChangeError)
    assert world.state("words").controller_epoch == EPOCH + 1
    assert not world.sent


def test_a_state_that_is_gone_or_unreadable_allows_no_election() -> None:
    for data in (None, b"", b"{", b'{"version":1}'):
        world = made("2.6")
        if data is None:
            world.remove(paths.partition_state(*KEY))
        else:
            world.make(paths.partition_state(*KEY), data)
        results = world.run(partitions.change(world.context, [KEY], ONLINE, Strategy.PREFERRED))
        assert isinstance(results[KEY], StateChangeError)
        assert world.context.partition_phases[KEY] is ONLINE


@pytest.mark.parametrize(
    ("topic", "broker", "allowed"),
    [(None, False, False), (None, True, True), ("true", False, True), ("false", True, False)],
)
def test_unclean_elections_need_leave(topic: str | None, broker: bool, allowed: bool) -> None:
    world = World(unclean_election=broker)
    world.make_topic("words", [(1, 2)], {} if topic is None else {partitions.UNCLEAN_KEY: topic})
    world.take_over()
    world.put_state("words", 0, StateNode(1, 4, (1,), EPOCH))
    world.context.put_state(KEY, world.state("words"))
    del world.context.brokers[1]
    world.run(partitions.change(world.context, [KEY], OFFLINE))
    results = world.run(partitions.bring_online(world.context))
    if allowed:
        assert world.state("words") == StateNode(
            2, 5, (2,), EPOCH, world.state("words").partition_epoch, LeaderRecoveryState.RECOVERING
        )
        assert world.context.partition_phases[KEY] is ONLINE
    else:
        assert isinstance(results[KEY], StateChangeError)
        assert world.context.partition_phases[KEY] is OFFLINE


def test_an_administrator_may_ask_for_an_unclean_election_whatever_the_topic_says() -> None:
    world = made(replicas=(1, 2))
    world.make(paths.config("topics", "words"), configs.encode({partitions.UNCLEAN_KEY: "false"}))
    world.context.put_state(KEY, replace(world.context.states[KEY], isr=(1,)))
    del world.context.brokers[1]
    world.run(partitions.change(world.context, [KEY], ONLINE, Strategy.UNCLEAN))
    assert (world.state("words").leader, world.state("words").isr) == (2, (2,))


def test_topics_that_are_deleted_get_no_elections() -> None:
    world = made()
    world.context.partition_phases[KEY] = OFFLINE
    world.context.deleting.add("words")
    assert world.run(partitions.bring_online(world.context)) == {}


def test_the_changes_and_their_causes_are_noted() -> None:
    world = made()
    world.context.changes.clear()
    world.context.cause = "a test"
    del world.context.brokers[1]
    world.run(partitions.change(world.context, [KEY], ONLINE, Strategy.OFFLINE))
    (change,) = world.context.changes
    assert (change.topic, change.partition, change.cause) == (*KEY, "a test")
    assert change.what == "leader 1 -> 2, isr [1, 2, 3] -> [2, 3]"
