"""Leaders change ISRs; the cases of AlterPartition in Kafka's `ControllerIntegrationTest`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.controller.cluster.events import isr
from broker.controller.cluster.events.isr import WantedIsr
from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.topics import StateNode
from kafkalog.protocol.errors import (
    ErrorCode,
    KafkaError,
    StaleBrokerEpochError,
)
from tests.broker.controller.cluster.world import EPOCH, World
from tests.support.amount import examples

KEY = ("words", 0)
RECOVERING = LeaderRecoveryState.RECOVERING


def made(protocol: str = "3.9") -> World:
    world = World(protocol=protocol)
    world.make_topic("words", [(1, 2, 3)])
    world.take_over()
    world.forget()
    return world


def alter(world: World, wanted: WantedIsr, leader: int = 1) -> StateNode | KafkaError:
    epoch = world.context.brokers[leader].epoch
    return world.run(isr.alter_partition(world.context, leader, epoch, {KEY: wanted}))[KEY]


def test_an_isr_shrinks_and_grows() -> None:
    world = made()
    assert alter(world, WantedIsr(0, (1, 2), 0)) == StateNode(1, 0, (1, 2), EPOCH, 1)
    assert world.state("words") == StateNode(1, 0, (1, 2), EPOCH, 1)
    # All brokers learn it, and nobody gets a new role.
    assert {broker: told[KEY] for broker, told in world.informed().items()} == dict.fromkeys((1, 2, 3), (1, (1, 2)))
    assert not world.roles()
    assert alter(world, WantedIsr(0, (1, 2, 3), 1)) == StateNode(1, 0, (1, 2, 3), EPOCH, 2)
    assert [change.what for change in world.context.changes] == ["isr [1, 2, 3] -> [1, 2]", "isr [1, 2] -> [1, 2, 3]"]


def test_what_is_asked_for_twice_is_done_once() -> None:
    world = made()
    alter(world, WantedIsr(0, (1, 2), 0))
    again = alter(world, WantedIsr(0, (1, 2), 0))
    assert again == StateNode(1, 0, (1, 2), EPOCH, 1)
    assert world.state("words").partition_epoch == 1


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (WantedIsr(0, (1,), 5), ErrorCode.NOT_CONTROLLER),
        (WantedIsr(3, (1,), 2), ErrorCode.NOT_CONTROLLER),
        (WantedIsr(1, (1,), 2), ErrorCode.FENCED_LEADER_EPOCH),
        (WantedIsr(1, (1, 2, 3), 9), ErrorCode.NOT_CONTROLLER),
        (WantedIsr(2, (1,), 1), ErrorCode.INVALID_UPDATE_VERSION),
        (WantedIsr(2, (1, 2), 2, RECOVERING), ErrorCode.INVALID_REQUEST),
        (WantedIsr(2, (1,), 2, RECOVERING), ErrorCode.INVALID_REQUEST),
        (WantedIsr(2, (1, 9), 2), ErrorCode.INELIGIBLE_REPLICA),
        (WantedIsr(2, (1, 2), 2), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals(wanted: WantedIsr, error: ErrorCode) -> None:
    world = made()
    world.context.put_state(KEY, StateNode(1, 2, (1, 2, 3), EPOCH, 2))
    # One that shuts down may not join.
    world.context.shutting_down.add(2)
    result = alter(world, wanted)
    assert isinstance(result, KafkaError)
    assert result.code is error
    assert world.state("words").partition_epoch == 0


def test_a_member_that_was_started_anew_since_its_fetch_is_refused() -> None:
    """As the controller of KRaft (KIP-903): -1 says that the leader does not know the member's epoch."""
    world = made()
    epochs = {number: broker.epoch for number, broker in world.context.brokers.items()}
    for other in (epochs[2] - 1, epochs[2] + 1):
        result = alter(world, WantedIsr(0, (1, 2), 0, epochs={1: epochs[1], 2: other}))
        assert isinstance(result, KafkaError)
        assert result.code is ErrorCode.INELIGIBLE_REPLICA
        assert world.state("words").isr == (1, 2, 3)
    assert isinstance(alter(world, WantedIsr(0, (1, 2), 0, epochs={1: epochs[1], 2: -1})), StateNode)
    assert isinstance(alter(world, WantedIsr(0, (1, 2, 3), 1, epochs=epochs)), StateNode)


def test_unknown_partitions_are_refused() -> None:
    world = made()
    results = world.run(
        isr.alter_partition(world.context, 1, world.context.brokers[1].epoch, {("nothing", 0): WantedIsr(0, (1,), 0)})
    )
    (result,) = results.values()
    assert isinstance(result, KafkaError)
    assert result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_that_recovers_becomes_recovered() -> None:
    world = made()
    world.put_state("words", 0, StateNode(1, 1, (1,), EPOCH, 0, RECOVERING))
    world.context.put_state(KEY, world.state("words"))
    assert alter(world, WantedIsr(1, (1,), 1)) == StateNode(1, 1, (1,), EPOCH, 2)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_broker_that_was_registered_anew_is_refused(change: int) -> None:
    world = made()
    epoch = world.context.brokers[1].epoch + change
    with pytest.raises(StaleBrokerEpochError):
        world.run(isr.alter_partition(world.context, 1, epoch, {KEY: WantedIsr(0, (1,), 0)}))
    with pytest.raises(StaleBrokerEpochError):
        world.run(isr.alter_partition(world.context, 9, 1, {KEY: WantedIsr(0, (1,), 0)}))


def test_a_state_that_was_changed_in_zookeeper_is_not_overwritten() -> None:
    world = made()
    present = world.state("words")
    world.on_write = lambda: world.put_state("words", 0, replace(present, isr=(1,)))
    result = alter(world, WantedIsr(0, (1, 2), 0))
    assert isinstance(result, KafkaError)
    assert result.code is ErrorCode.INVALID_UPDATE_VERSION
    assert world.state("words").isr == (1,)
    # The leader has read it meanwhile, and proposes anew.
    world.on_write = lambda: None
    assert alter(world, WantedIsr(0, (1, 2), 1)) == StateNode(1, 0, (1, 2), EPOCH, 2)


def test_notices_of_leaders_before_2_7_are_read_and_deleted() -> None:
    world = made("2.6")
    world.put_state("words", 0, replace(world.state("words"), isr=(1, 2)))
    world.make(f"{paths.ISR_CHANGES}/isr_change_0000000001", notices.encode_isr_change([KEY, ("nothing", 0)]))
    world.make(f"{paths.ISR_CHANGES}/isr_change_0000000002", b"{")
    world.run(isr.isr_noticed(world.context))
    assert world.context.states[KEY].isr == (1, 2)
    assert world.informed()[3] == {KEY: (1, (1, 2))}
    assert not world.tree.names(paths.ISR_CHANGES)


@given(st.data())
@settings(max_examples=examples(300))
def test_a_refused_change_changes_nothing_and_a_granted_one_is_what_was_asked_for(data: st.DataObject) -> None:
    world = made()
    numbers = st.integers(0, 3)
    present = StateNode(1, data.draw(numbers), (1, 2), EPOCH, data.draw(numbers))
    world.context.put_state(KEY, present)
    members = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True)))
    wanted = WantedIsr(data.draw(numbers), members, data.draw(numbers))
    result = isr.judge(world.context, KEY, 1, wanted)
    if isinstance(result, KafkaError):
        assert world.context.states[KEY] == present
        return
    assert result.isr == wanted.isr
    assert result.leader_epoch == present.leader_epoch == wanted.leader_epoch
    assert result.partition_epoch == present.partition_epoch
    if result != present:
        assert wanted.partition_epoch == present.partition_epoch
        assert set(members) <= {1, 2, 3}
