"""Unclean elections: the replica with the longest log leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from broker.controller.cluster.events import brokers
from broker.controller.cluster.machine import log_ends
from broker.controller.cluster.model.effects import LogEnd
from broker.controller.cluster.model.history import Change
from broker.metadata.znodes.topics import StateNode
from tests.broker.controller.cluster.world import World

KEY = ("words", 0)
ALLOWED = {"unclean.leader.election.enable": "true"}


def test_the_epoch_of_the_last_record_counts_first_then_the_end_then_the_order() -> None:
    ends = {1: LogEnd(3, 100), 2: LogEnd(4, 50), 3: LogEnd(4, 60), 4: LogEnd(4, 60)}
    assert log_ends.choose((1, 2, 4, 3), ends) == 4
    assert log_ends.choose((3, 4), ends) == 3
    assert log_ends.choose((1, 2), ends) == 2
    assert log_ends.choose((5, 1), ends) == 1
    assert log_ends.choose((1, 6), {1: LogEnd(-1, 0)}) == 1


def elected(
    ends: Mapping[int, LogEnd], *, ours: tuple[int, ...] = (1, 2, 3), config: Mapping[str, str] = ALLOWED, **more: Any
) -> tuple[World, StateNode, str]:
    """Have the only in-sync replica, 4, end; return the state that follows, and why."""
    world = World(brokers=(4, 1, 2, 3), **more)
    for number in ours:
        world.register(number, watches_itself=True)
    world.make_topic("words", [(4, 1, 2, 3)], config)
    world.take_over()
    state = world.state("words")
    world.put_state("words", 0, StateNode(4, state.leader_epoch, (4,), state.controller_epoch))
    world.context.put_state(KEY, world.state("words"))
    world.ends = {number: {KEY: end} for number, end in ends.items()}
    world.forget()
    world.deregister(4)
    world.run(brokers.brokers_changed(world.context))
    changes: list[Change] = [each for each in world.context.changes if "leader" in each.what]
    return world, world.state("words"), changes[0].cause if changes else ""


def test_the_longest_log_leads() -> None:
    world, state, cause = elected({1: LogEnd(0, 5), 2: LogEnd(1, 7), 3: LogEnd(1, 6)})
    assert (state.leader, state.isr) == (2, (2,))
    assert world.asked == [{1: [KEY], 2: [KEY], 3: [KEY]}]
    assert world.roles()[2, KEY][:2] == (2, state.leader_epoch)
    assert "replica 2 has the longest log of those alive" in cause
    assert "1: offset 5, last record of epoch 0, 2: offset 7, last record of epoch 1, 3: offset 6" in cause
    assert "brokers [4] are not registered any more" in cause


def test_who_does_not_answer_does_not_lead_unless_nobody_does() -> None:
    _, state, cause = elected({3: LogEnd(0, 1)})
    assert state.leader == 3
    assert "1: no answer, 2: no answer, 3: offset 1" in cause
    _, state, cause = elected({})
    assert state.leader == 1
    assert "replica 1 is the first one in order that is alive" in cause


@pytest.mark.parametrize("ours", [(2, 3), ()])
def test_the_order_decides_where_a_broker_is_of_apache_kafka(ours: tuple[int, ...]) -> None:
    world, state, cause = elected({2: LogEnd(1, 7), 3: LogEnd(1, 9)}, ours=ours)
    assert state.leader == 1
    assert world.asked == []
    assert "Logs are not compared: the software of brokers" in cause


def test_logs_are_not_compared_where_that_is_turned_off() -> None:
    world, state, cause = elected({1: LogEnd(0, 5), 2: LogEnd(1, 7), 3: LogEnd(1, 6)}, log_ends_timeout_s=0)
    assert state.leader == 1
    assert world.asked == []
    assert "kafkalog.unclean.recovery.timeout.ms=0" in cause


def test_nobody_is_asked_where_unclean_elections_are_not_allowed() -> None:
    world, state, _ = elected({1: LogEnd(0, 5)}, config={})
    assert (state.leader, state.isr) == (-1, (4,))
    assert world.asked == []
