"""Replicas from one phase to another; the cases of Kafka's `ReplicaStateMachineTest`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.controller.cluster.machine import replicas
from broker.controller.cluster.model.context import ReplicaKey, ReplicaPhase
from broker.metadata.znodes.topics import Assignment, StateNode
from tests.broker.controller.cluster.world import EPOCH, World
from tests.support.amount import examples

KEY = ("words", 0)
NON_EXISTENT, NEW, ONLINE, OFFLINE, STARTED, SUCCESSFUL, INELIGIBLE = (
    ReplicaPhase.NON_EXISTENT,
    ReplicaPhase.NEW,
    ReplicaPhase.ONLINE,
    ReplicaPhase.OFFLINE,
    ReplicaPhase.DELETION_STARTED,
    ReplicaPhase.DELETION_SUCCESSFUL,
    ReplicaPhase.DELETION_INELIGIBLE,
)
ALLOWED = {
    NEW: {NON_EXISTENT},
    ONLINE: {NEW, ONLINE, OFFLINE, INELIGIBLE},
    OFFLINE: {NEW, ONLINE, OFFLINE, INELIGIBLE},
    STARTED: {OFFLINE},
    SUCCESSFUL: {STARTED},
    INELIGIBLE: {OFFLINE, STARTED},
    NON_EXISTENT: {SUCCESSFUL},
}


def made(assigned: tuple[int, ...] = (1, 2, 3)) -> World:
    world = World()
    world.make_topic("words", [assigned])
    world.take_over()
    world.forget()
    return world


@pytest.mark.parametrize("before", ReplicaPhase)
@pytest.mark.parametrize("after", ReplicaPhase)
def test_only_some_changes_are_allowed(before: ReplicaPhase, after: ReplicaPhase) -> None:
    world, replica = made(), ReplicaKey(*KEY, 3)
    world.context.replica_phases[replica] = before
    world.run(replicas.change(world.context, [replica], after))
    assert world.context.phase_of(replica) is (after if before in ALLOWED[after] else before)
    if before not in ALLOWED[after]:
        assert not world.sent


def test_a_new_replica_is_created_as_a_follower() -> None:
    world = made((1, 2))
    context = world.context
    context.put_assignment(KEY, Assignment((3, 1, 2), (3,)))
    world.run(replicas.change(context, [ReplicaKey(*KEY, 3)], NEW))
    assert world.roles() == {(3, KEY): (1, 0, (1, 2), True)}
    world.forget()
    world.run(replicas.change(context, [ReplicaKey(*KEY, 3)], ONLINE))
    assert not world.sent


def test_a_leader_is_not_new() -> None:
    world, replica = made(), ReplicaKey(*KEY, 1)
    world.context.replica_phases[replica] = NON_EXISTENT
    world.run(replicas.change(world.context, [replica], NEW))
    assert world.context.phase_of(replica) is NON_EXISTENT


def test_a_replica_that_comes_back_is_told_its_role() -> None:
    world, replica = made(), ReplicaKey(*KEY, 3)
    world.context.replica_phases[replica] = OFFLINE
    world.run(replicas.change(world.context, [replica], ONLINE))
    assert world.roles() == {(3, KEY): (1, 0, (1, 2, 3), False)}


def test_a_replica_that_goes_leaves_the_isr() -> None:
    world = made()
    world.run(replicas.change(world.context, [ReplicaKey(*KEY, 3)], OFFLINE))
    assert world.state("words") == StateNode(1, 1, (1, 2), EPOCH, 1)
    assert world.roles() == {(1, KEY): (1, 1, (1, 2), False), (2, KEY): (1, 1, (1, 2), False)}
    # It is stopped with the epoch that it knows.
    assert world.stops() == [(3, KEY, 0, False)]


def test_a_leader_that_goes_leaves_the_partition_without_one() -> None:
    world = made()
    world.run(replicas.change(world.context, [ReplicaKey(*KEY, 1)], OFFLINE))
    assert world.state("words") == StateNode(-1, 1, (2, 3), EPOCH, 1)


def test_the_last_member_of_an_isr_stays() -> None:
    world = made((2,))
    world.run(replicas.change(world.context, [ReplicaKey(*KEY, 2)], OFFLINE))
    assert world.state("words") == StateNode(-1, 1, (2,), EPOCH, 1)


def test_others_are_told_again_when_a_replica_goes_that_was_not_in_sync() -> None:
    world = made()
    world.context.put_state(KEY, replace(world.context.states[KEY], isr=(1, 2)))
    world.run(replicas.change(world.context, [ReplicaKey(*KEY, 3)], OFFLINE))
    assert world.state("words").partition_epoch == 0
    assert world.roles() == {(1, KEY): (1, 0, (1, 2), False), (2, KEY): (1, 0, (1, 2), False)}


def test_brokers_learn_that_a_replica_without_leader_goes() -> None:
    world = World(brokers=(1, 2))
    world.make_topic("words", [(3,)])
    world.take_over()
    world.forget()
    world.context.replica_phases[ReplicaKey(*KEY, 3)] = ONLINE
    world.run(replicas.change(world.context, [ReplicaKey(*KEY, 3)], OFFLINE))
    assert set(world.informed()) == {1, 2}
    assert not world.roles()


def test_a_deleted_replica_leaves_the_assignment() -> None:
    world, replica = made(), ReplicaKey(*KEY, 3)
    for phase in (OFFLINE, STARTED, SUCCESSFUL, NON_EXISTENT):
        world.run(replicas.change(world.context, [replica], phase))
    assert world.context.assignment(KEY) == Assignment((1, 2))
    assert replica not in world.context.replica_phases
    assert world.stops() == [(3, KEY, 0, False), (3, KEY, 1, True)]


@given(st.lists(st.integers(0, 5), min_size=1, unique=True).map(tuple), st.integers(0, 5), st.integers(-1, 5))
@settings(max_examples=examples(200))
def test_an_isr_never_becomes_empty(isr: tuple[int, ...], gone: int, leader: int) -> None:
    before = StateNode(leader, 3, isr, 1, 4)
    after = replicas.shrink(before, gone)
    assert after.isr
    assert set(isr) - {gone} <= set(after.isr) <= set(isr)
    assert after.leader == (-1 if leader == gone else leader)
    assert after.leader_epoch == 4
