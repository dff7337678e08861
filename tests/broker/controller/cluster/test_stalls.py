"""Reassignments that wait are told of, once, with the reason and the time."""

from __future__ import annotations

from broker.controller.cluster.events import brokers
from broker.controller.cluster.machine import reassignment
from broker.controller.cluster.stalls import HOPELESS_MS, SLOW_MS, Stalls
from broker.metadata.model import NO_LEADER
from tests.broker.controller.cluster.world import World

KEY = ("words", 0)
START_MS = 3_600_000
SINCE = "reassignment waits since 1970-01-01T01:00:00+00:00"


def moving(to: tuple[int, ...] = (3, 4)) -> World:
    """A partition that moves from the brokers 1 and 2 to others, none of which has fetched."""
    world = World((1, 2, 3, 4))
    world.make_topic("words", [(1, 2)])
    world.take_over()
    world.run(reassignment.by_api(world.context, {KEY: to}))
    return world


def told(stalls: Stalls, world: World, at_ms: int) -> list[tuple[str, str]]:
    return [(each.what, each.cause) for each in stalls.look(world.context, at_ms)]


def test_a_broker_that_is_gone_is_told_of_once() -> None:
    world, stalls = moving(), Stalls()
    world.deregister(4)
    world.run(brokers.brokers_changed(world.context))
    assert told(stalls, world, START_MS) == []
    assert told(stalls, world, START_MS + HOPELESS_MS - 1) == []
    (change,) = stalls.look(world.context, START_MS + HOPELESS_MS)
    assert (change.topic, change.partition, change.what) == (*KEY, SINCE)
    assert change.cause == "broker 4 is not registered; broker 3 is not in sync"
    assert told(stalls, world, START_MS + 10 * HOPELESS_MS) == []


def test_a_replica_that_may_be_copying_gets_more_time() -> None:
    world, stalls = moving(), Stalls()
    assert told(stalls, world, START_MS) == []
    assert told(stalls, world, START_MS + SLOW_MS - 1) == []
    assert told(stalls, world, START_MS + SLOW_MS) == [(SINCE, "broker 3 is not in sync; broker 4 is not in sync")]


def test_another_reason_begins_the_time_anew() -> None:
    world, stalls = moving(), Stalls()
    assert told(stalls, world, 0) == []
    world.deregister(3)
    world.run(brokers.brokers_changed(world.context))
    assert told(stalls, world, START_MS) == []
    assert [what for what, _ in told(stalls, world, START_MS + HOPELESS_MS)] == [SINCE]


def test_a_partition_that_nobody_leads_waits_for_that() -> None:
    world, stalls = moving(), Stalls()
    for broker_id in (1, 2):
        world.deregister(broker_id)
    world.run(brokers.brokers_changed(world.context))
    assert world.context.states[KEY].leader == NO_LEADER
    assert told(stalls, world, START_MS) == []
    ((_, cause),) = told(stalls, world, START_MS + HOPELESS_MS)
    assert cause.startswith("nobody leads the partition; ")


def test_what_is_cancelled_is_forgotten() -> None:
    world, stalls = moving(), Stalls()
    world.deregister(4)
    world.run(brokers.brokers_changed(world.context))
    assert told(stalls, world, START_MS) == []
    world.run(reassignment.by_api(world.context, {KEY: None}))
    assert told(stalls, world, START_MS + HOPELESS_MS) == []
