"""Controlled shutdown of a broker."""

from __future__ import annotations

import pytest

from broker.controller.cluster.events import brokers, shutdown
from broker.controller.cluster.events.isr import WantedIsr, alter_partition
from kafkalog.protocol.errors import BrokerNotAvailableError, KafkaError, StaleBrokerEpochError
from tests.broker.controller.cluster.world import World

LED, FOLLOWED, LONE = ("led", 0), ("followed", 0), ("lone", 0)


def made() -> World:
    world = World()
    world.make_topic("led", [(2, 1, 3)])
    world.make_topic("followed", [(1, 2, 3)])
    world.make_topic("lone", [(2,)])
    world.take_over()
    world.forget()
    return world


def shut_down(world: World, broker: int = 2, epoch: int = -1) -> list[tuple[str, int]]:
    return world.run(shutdown.controlled_shutdown(world.context, broker, epoch))


def test_a_broker_gives_up_what_others_can_lead() -> None:
    world = made()
    assert shut_down(world) == []
    assert (world.state("led").leader, world.state("led").isr) == (1, (1, 3))
    assert (world.state("followed").leader, world.state("followed").isr) == (1, (1, 3))
    assert world.state("lone").leader == 2
    # It learns that it leads no longer, and stops to fetch what it follows.
    assert world.roles()[2, LED][0] == 1
    assert {(broker, key, delete) for broker, key, _, delete in world.stops()} == {(2, FOLLOWED, False)}
    assert world.live_told(2) == {1, 2, 3}


def test_what_nobody_else_can_lead_remains() -> None:
    world = made()
    world.run(alter_partition(world.context, 2, world.context.brokers[2].epoch, {LED: WantedIsr(0, (2,), 0)}))
    assert shut_down(world) == [LED]
    assert world.state("led").leader == 2


def test_it_may_not_join_an_isr_again_until_it_is_started_anew() -> None:
    world = made()
    shut_down(world)
    state = world.state("followed")
    wanted = {FOLLOWED: WantedIsr(state.leader_epoch, (1, 3, 2), state.partition_epoch)}
    (result,) = world.run(alter_partition(world.context, 1, world.context.brokers[1].epoch, wanted)).values()
    assert isinstance(result, KafkaError)
    world.register(2)
    world.run(brokers.brokers_changed(world.context))
    assert not world.context.shutting_down
    state = world.state("followed")
    wanted = {FOLLOWED: WantedIsr(state.leader_epoch, (1, 3, 2), state.partition_epoch)}
    (result,) = world.run(alter_partition(world.context, 1, world.context.brokers[1].epoch, wanted)).values()
    assert not isinstance(result, KafkaError)


def test_requests_of_brokers_that_are_not_registered_are_refused() -> None:
    world = made()
    with pytest.raises(BrokerNotAvailableError):
        shut_down(world, 9)
    with pytest.raises(StaleBrokerEpochError):
        shut_down(world, 2, world.context.brokers[2].epoch - 1)
    assert not world.context.shutting_down
    assert shut_down(world, 2, world.context.brokers[2].epoch) == []
