"""A broker takes over."""

from __future__ import annotations

import pytest

from broker.controller.cluster.events import failover
from broker.controller.cluster.model.effects import Children, Steps
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.cluster import FeatureNode, decode_feature, encode_feature
from broker.metadata.znodes.topics import StateNode, encode_state
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.broker.controller.cluster.world import World


def test_brokers_learn_who_is_alive_before_their_roles() -> None:
    world = World()
    world.make_topic("words", [(1, 2)])
    world.take_over()
    for broker in (1, 2, 3):
        mine = [each for each in world.sent if each.broker_id == broker]
        assert isinstance(mine[0].message, UpdateMetadataRequest)
        assert not mine[0].message.topic_states
    assert set(world.connected) == {1, 2, 3}
    assert {
        paths.BROKER_IDS,
        paths.TOPICS,
        paths.DELETE_TOPICS,
        paths.ISR_CHANGES,
        paths.LOG_DIR_EVENTS,
    } <= world.watched
    assert {
        paths.REASSIGN_PARTITIONS,
        paths.PREFERRED_ELECTION,
        paths.topic("words"),
        paths.broker_id(1),
    } <= world.watched


def test_brokers_learn_who_the_controller_is_before_it_reads_topics() -> None:
    """With 10,000 partitions that takes seconds, and clients ask the dead controller meanwhile."""
    world = World()
    world.make_topic("words", [(1, 2)])
    told: list[set[int]] = []

    def spied() -> Steps[None]:
        steps, brought = failover.take_over(world.context, world.chance), None
        while True:
            try:
                effect = steps.send(brought)
            except StopIteration:
                return
            if isinstance(effect, Children) and paths.TOPICS in effect.paths:
                told.append({each.broker_id for each in world.sent})
            brought = yield effect

    world.run(spied())
    assert told == [{1, 2, 3}]
    assert {each.message.controller_id for each in world.sent} == {1}


def test_partitions_without_a_leader_come_first_and_nothing_is_told_twice() -> None:
    world = World()
    world.make_topic("words", [(2, 1, 3), (1, 2, 3), (3, 2, 1), (1, 3, 2)])
    world.take_over()
    world.deregister(1)
    next_one = World((2, 3))
    next_one.tree = world.tree
    written: list[None] = []
    next_one.on_write = lambda: written.append(None)
    next_one.take_over()
    told = [
        (each.broker_id, state.partition_index)
        for each in next_one.sent
        if isinstance(each.message, LeaderAndIsrRequest)
        for topic in each.message.topic_states
        for state in topic.partition_states
    ]
    assert {index for _, index in told[:4]} == {1, 3}
    assert sorted(told) == [(broker, index) for broker in (2, 3) for index in range(4)]
    led = {1: 2, 3: 3, 0: 2, 2: 3}
    for index, leader in led.items():
        assert world.state("words", index) == StateNode(leader, 1, (2, 3) if leader == 2 else (3, 2), 7, 1), index
        for broker in (2, 3):
            found = next_one.roles()[broker, ("words", index)]
            assert found == (leader, 1, world.state("words", index).isr, False)
            assert next_one.informed()[broker]["words", index] == (leader, world.state("words", index).isr)
    # The features, the leaders that were elected, and the ISRs that broker 1 has left.
    assert len(written) <= 3


def test_no_broker_is_ever_told_of_a_part_of_a_topic() -> None:
    """One that was started anew knows no topic yet, and would take the part for the whole."""
    world = World()
    world.make_topic("words", [(2, 1, 3), (1, 2, 3), (3, 2, 1)])
    world.take_over()
    world.deregister(1)
    next_one = World((2, 3))
    next_one.tree = world.tree
    next_one.take_over()
    told = [
        (
            each.broker_id,
            {state.partition_index for topic in each.message.topic_states for state in topic.partition_states},
        )
        for each in next_one.sent
        if isinstance(each.message, UpdateMetadataRequest) and each.message.topic_states
    ]
    assert {broker for broker, _ in told} == {2, 3}
    for broker in (2, 3):
        first = next(indexes for number, indexes in told if number == broker)
        assert first == {0, 1, 2}, "only partition 1 had no leader"


def test_all_roles_are_told_again_with_their_epochs() -> None:
    world = World()
    world.make_topic("words", [(1, 2)])
    world.take_over()
    next_one = World((2, 1, 3))
    next_one.tree = world.tree
    next_one.take_over()
    assert next_one.roles() == {(1, ("words", 0)): (1, 0, (1, 2), False), (2, ("words", 0)): (1, 0, (1, 2), False)}
    assert world.state("words") == StateNode(1, 0, (1, 2), 7)
    assert not next_one.context.changes


def test_replicas_on_brokers_that_died_while_nobody_was_in_office_leave_the_isrs() -> None:
    world = World()
    world.make_topic("words", [(1, 2, 3)])
    world.take_over()
    world.deregister(1)
    next_one = World((2, 3))
    next_one.tree = world.tree
    next_one.take_over()
    assert (world.state("words").leader, world.state("words").isr) == (2, (2, 3))


def test_notices_from_before_are_deleted() -> None:
    world = World()
    world.make(f"{paths.ISR_CHANGES}/isr_change_0000000000", notices.encode_isr_change([]))
    world.make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000000", notices.encode_log_dir_event(1))
    world.take_over()
    assert not world.tree.names(paths.ISR_CHANGES)
    assert not world.tree.names(paths.LOG_DIR_EVENTS)


@pytest.mark.parametrize(
    ("protocol", "before", "after"),
    [
        ("2.6", None, FeatureNode(1, False, {})),
        ("2.8", None, FeatureNode(1, True, {})),
        ("3.9", None, FeatureNode(2, True, {})),
        ("3.9", FeatureNode(1, False, {"a": 1}), FeatureNode(2, True, {})),
        ("3.9", FeatureNode(2, True, {"a": 1}), FeatureNode(2, True, {"a": 1})),
        ("2.6", FeatureNode(2, True, {"a": 1}), FeatureNode(1, False, {})),
    ],
)
def test_the_node_of_features(protocol: str, before: FeatureNode | None, after: FeatureNode) -> None:
    world = World(protocol=protocol)
    if before is not None:
        world.make(paths.FEATURE, encode_feature(before))
    world.take_over()
    assert decode_feature(world.tree.read(paths.FEATURE).data) == after


def test_an_empty_cluster() -> None:
    world = World((1,))
    world.take_over()
    assert world.live_told(1) == {1}


def test_a_leader_that_was_started_anew_while_nobody_was_in_office_does_not_lead_on() -> None:
    """It may have lost records with its power: in its former epoch, its followers would cut theirs off."""
    world = World()
    world.make_topic("words", [(1, 2, 3)])
    world.take_over()
    world.register(1)
    next_one = World((2, 1, 3))
    next_one.tree = world.tree
    next_one.take_over()
    assert world.state("words") == StateNode(2, 1, (2, 3), 7, 1)
    assert {role for _, role in next_one.roles().items()} == {(2, 1, (2, 3), False)}


def test_followers_that_were_started_anew_while_nobody_was_in_office_leave_the_isr() -> None:
    world = World()
    world.make_topic("words", [(1, 2, 3)])
    world.take_over()
    world.register(3)
    next_one = World((2, 1, 3))
    next_one.tree = world.tree
    next_one.take_over()
    assert world.state("words") == StateNode(1, 1, (1, 2), 7, 1)


def test_one_that_is_not_assigned_any_more_does_not_lead() -> None:
    world = World()
    world.make_topic("words", [(1,)])
    world.take_over()
    world.make(paths.partition_state("words", 0), encode_state(StateNode(1, 0, (1, 2), 7, 0)))
    world.register(1)
    next_one = World((2, 1, 3))
    next_one.tree = world.tree
    next_one.take_over()
    found = world.state("words")
    assert found is not None
    assert (found.leader, found.leader_epoch) == (1, 1)


def test_a_leader_leads_in_a_new_epoch_if_all_of_the_isr_were_started_anew() -> None:
    world = World((1, 2))
    world.make_topic("words", [(1, 2)])
    world.take_over()
    world.register(1)
    world.register(2)
    next_one = World((2, 1))
    next_one.tree = world.tree
    next_one.take_over()
    assert world.state("words") == StateNode(1, 1, (1, 2), 7, 1)
