"""Partitions move to other brokers; the cases of Kafka's `ControllerIntegrationTest` and KIP-455."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.controller.cluster.events import brokers, elections, isr, topics
from broker.controller.cluster.events.isr import WantedIsr
from broker.controller.cluster.machine import reassignment
from broker.controller.cluster.model.context import PartitionPhase, ReplicaKey, ReplicaPhase
from broker.controller.decisions.elections import ElectionType
from broker.metadata.znodes import configs, notices, paths
from broker.metadata.znodes.topics import Assignment, TopicNode, encode_topic
from kafkalog.protocol.errors import (
    InvalidReplicaAssignmentError,
    NoReassignmentInProgressError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from tests.broker.controller.cluster.world import World

KEY = ("words", 0)


def made(protocol: str = "3.9", brokers: tuple[int, ...] = (1, 2, 3, 4, 5)) -> World:
    world = World(brokers, protocol)
    world.make_topic("words", [(1, 2), (2, 1)])
    world.take_over()
    world.forget()
    return world


def ask(world: World, replicas: tuple[int, ...] | None, key: tuple[str, int] = KEY) -> object:
    return world.run(reassignment.by_api(world.context, {key: replicas}))[key]


def join(world: World, members: tuple[int, ...]) -> None:
    """Let the leader change the ISR."""
    state = world.state("words")
    if world.context.is_alter_partition:
        leader, epoch = state.leader, world.context.brokers[state.leader].epoch
        wanted = {KEY: WantedIsr(state.leader_epoch, members, state.partition_epoch)}
        results = world.run(isr.alter_partition(world.context, leader, epoch, wanted))
        world.run(isr.complete_reassignments(world.context, results))
    else:
        world.put_state("words", 0, replace(state, isr=members))
        assert paths.partition_state(*KEY) in world.watched
        world.run(isr.states_changed(world.context, [KEY]))


@pytest.mark.parametrize("protocol", ["2.6", "2.8", "3.9"])
def test_replicas_are_added_and_then_the_others_removed(protocol: str) -> None:
    world = made(protocol)
    assert ask(world, (3, 4)) is None
    assert world.topic("words").partitions[0] == Assignment((3, 4, 1, 2), (3, 4), (1, 2))
    assert world.roles() == {
        (1, KEY): (1, 1, (1, 2), False),
        (2, KEY): (1, 1, (1, 2), False),
        (3, KEY): (1, 1, (1, 2), True),
        (4, KEY): (1, 1, (1, 2), True),
    }
    assert not world.stops()
    join(world, (1, 2, 3))
    assert world.topic("words").partitions[0].adding == (3, 4)
    world.forget()
    join(world, (1, 2, 3, 4))
    assert world.topic("words").partitions[0] == Assignment((3, 4))
    assert world.context.assignment(KEY) == Assignment((3, 4))
    state = world.state("words")
    assert (state.leader, state.isr) == (3, (3, 4))
    assert world.roles()[3, KEY] == (3, state.leader_epoch, (3, 4), False)
    deleted = {broker: epoch for broker, key, epoch, delete in world.stops() if delete and key == KEY}
    assert set(deleted) == {1, 2}
    # A stop must not be older than the role that the broker has.
    assert all(epoch >= 2 for epoch in deleted.values())
    assert world.informed()[5][KEY] == (3, (3, 4))
    assert not world.context.reassigning
    assert ReplicaKey(*KEY, 1) not in world.context.replica_phases
    assert world.context.phase_of(ReplicaKey(*KEY, 3)) is ReplicaPhase.ONLINE
    assert paths.partition_state(*KEY) not in world.watched
    assert world.topic("words").partitions[1] == Assignment((2, 1))


def test_the_leader_stays_if_it_is_in_the_target() -> None:
    world = made()
    ask(world, (3, 1))
    join(world, (1, 2, 3))
    state = world.state("words")
    assert (state.leader, state.isr) == (1, (1, 3))
    assert world.topic("words").partitions[0] == Assignment((3, 1))


def test_another_order_of_the_same_replicas_is_done_at_once() -> None:
    world = made()
    assert ask(world, (2, 1)) is None
    assert world.topic("words").partitions[0] == Assignment((2, 1))
    assert world.state("words").leader == 1
    assert not world.stops()


def test_a_replica_can_be_taken_away() -> None:
    world = made()
    assert ask(world, (1,)) is None
    assert world.topic("words").partitions[0] == Assignment((1,))
    assert world.state("words").isr == (1,)
    assert (2, KEY, 2, True) in world.stops()


def test_a_reassignment_is_replaced_from_the_same_origin() -> None:
    world = made()
    ask(world, (3, 4))
    world.forget()
    ask(world, (4, 5))
    assert world.topic("words").partitions[0] == Assignment((4, 5, 1, 2), (4, 5), (1, 2))
    assert {broker for broker, _, _, delete in world.stops() if delete} == {3}
    assert world.context.phase_of(ReplicaKey(*KEY, 3)) is ReplicaPhase.NON_EXISTENT
    assert world.roles()[5, KEY][3]


def test_a_reassignment_is_cancelled() -> None:
    world = made()
    ask(world, (3, 4))
    world.forget()
    assert ask(world, None) is None
    assert world.topic("words").partitions[0] == Assignment((1, 2))
    assert {broker for broker, _, _, delete in world.stops() if delete} == {3, 4}
    assert not world.context.reassigning
    assert isinstance(ask(world, None), NoReassignmentInProgressError)


def led_by_a_new_replica(world: World) -> None:
    """Move a partition from [1, 2] to [3, 4]; 3 joins, leads alone, and has records that 1 and 2 lack."""
    ask(world, (3, 4))
    join(world, (1, 2, 3))
    for broker in (1, 2):
        world.deregister(broker)
    world.run(brokers.brokers_changed(world.context))
    for broker in (1, 2):
        world.register(broker)
    world.run(brokers.brokers_changed(world.context))
    assert (world.state("words").leader, world.state("words").isr) == (3, (3,))
    world.forget()


@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
@pytest.mark.parametrize("replicas", [None, (4, 5), (1, 2)])
def test_the_only_replica_in_sync_is_not_deleted(protocol: str, replicas: tuple[int, ...] | None) -> None:
    world = made(protocol)
    led_by_a_new_replica(world)
    order = {KEY: (3, 4)}
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment(order))
    before = world.state("words")
    error = ask(world, replicas)
    assert isinstance(error, InvalidReplicaAssignmentError)
    assert "words-0 would lose all its replicas in sync, [3]" in str(error)
    assert (world.state("words"), world.context.assignment(KEY).adding) == (before, (3, 4))
    assert not world.sent
    left = notices.decode_reassignment(world.tree.read(paths.REASSIGN_PARTITIONS).data)
    assert left == order, "what is refused does not replace it"
    # A target with the replica in sync is possible, and so is the cancellation once another one has caught up.
    assert ask(world, (3, 5)) is None
    join(world, (3, 1))
    assert ask(world, None) is None
    assert (world.state("words").leader, world.state("words").isr) == (1, (1,))


def test_an_isr_that_a_leader_wrote_and_the_controller_has_not_seen_counts() -> None:
    world = made("2.6")
    ask(world, (3, 4))
    join(world, (1, 2, 3))
    world.put_state("words", 0, replace(world.state("words"), leader=3, isr=(3,)))
    assert isinstance(ask(world, None), InvalidReplicaAssignmentError)


def test_a_tool_cannot_order_to_delete_the_only_replica_in_sync() -> None:
    world = made()
    led_by_a_new_replica(world)
    order = {KEY: (4, 5), ("words", 1): (5,)}
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment(order))
    assert world.run(reassignment.by_order(world.context)) == {("words", 1)}
    assert world.context.assignment(KEY).adding == (3, 4)
    assert not world.stops()
    left = notices.decode_reassignment(world.tree.read(paths.REASSIGN_PARTITIONS).data)
    assert left == {("words", 1): (5,)}


@pytest.mark.parametrize("replicas", [None, (4, 5)])
def test_the_only_replica_in_sync_is_given_up_where_elections_may_be_unclean(replicas: tuple[int, ...] | None) -> None:
    world = made()
    led_by_a_new_replica(world)
    world.make(paths.config("topics", "words"), configs.encode({"unclean.leader.election.enable": "true"}))
    assert ask(world, replicas) is None
    assert (3, KEY, True) in [(broker, key, delete) for broker, key, _, delete in world.stops()]
    state = world.state("words")
    assert state.leader in (1, 2, 4)
    assert state.isr == (state.leader,)


def test_another_replica_leads_when_a_replaced_reassignment_had_added_the_leader() -> None:
    world = made()
    ask(world, (3, 4))
    join(world, (1, 2, 3))
    world.run(elections.elect_leaders(world.context, [KEY], ElectionType.PREFERRED))
    assert world.state("words").leader == 3
    world.forget()
    assert ask(world, (4, 5)) is None
    state = world.state("words")
    assert (state.leader, state.isr) == (1, (1, 2))
    assert world.roles()[1, KEY] == (1, state.leader_epoch, (1, 2), False)
    assert world.context.partition_phases[KEY] is PartitionPhase.ONLINE


@pytest.mark.parametrize("replicas", [(), (1, 1), (-1, 2), (1, 9)])
def test_invalid_replicas_are_refused(replicas: tuple[int, ...]) -> None:
    world = made()
    assert isinstance(ask(world, replicas), InvalidReplicaAssignmentError)
    assert not world.context.reassigning


def test_only_new_replicas_have_to_be_alive() -> None:
    world = made()
    world.deregister(2)
    world.run(brokers.brokers_changed(world.context))
    assert ask(world, (2, 1, 3)) is None
    world.context.shutting_down.add(4)
    assert isinstance(ask(world, (4,)), InvalidReplicaAssignmentError)


def test_partitions_that_do_not_exist_are_refused() -> None:
    world = made()
    assert isinstance(ask(world, (3,), ("words", 9)), UnknownTopicOrPartitionError)
    assert isinstance(ask(world, (3,), ("nothing", 0)), UnknownTopicOrPartitionError)
    world.context.deleting.add("words")
    assert isinstance(ask(world, (3,)), UnknownTopicOrPartitionError)


def test_a_new_replica_that_is_down_is_resumed_when_it_comes_back() -> None:
    world = made()
    ask(world, (3, 4))
    world.deregister(3)
    world.run(brokers.brokers_changed(world.context))
    join(world, (1, 2, 4))
    assert world.context.reassigning == {KEY}
    world.forget()
    world.register(3)
    world.run(brokers.brokers_changed(world.context))
    assert (3, KEY) in world.roles()
    assert world.context.reassigning == {KEY}
    join(world, (1, 2, 4, 3))
    assert world.topic("words").partitions[0] == Assignment((3, 4))


def test_an_order_of_a_tool_is_carried_out_and_removed() -> None:
    world = made()
    order = {KEY: (3, 4), ("words", 1): (2, 1), ("nothing", 0): (1,)}
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment(order))
    world.run(reassignment.by_order(world.context))
    left = notices.decode_reassignment(world.tree.read(paths.REASSIGN_PARTITIONS).data)
    assert left == {KEY: (3, 4)}
    epoch = world.state("words").leader_epoch
    # That the controller itself has changed the node begins nothing anew.
    world.run(reassignment.by_order(world.context))
    assert world.state("words").leader_epoch == epoch
    join(world, (1, 2, 3, 4))
    assert not world.tree.exists(paths.REASSIGN_PARTITIONS)
    world.run(reassignment.by_order(world.context))
    assert paths.REASSIGN_PARTITIONS in world.watched


def test_the_api_replaces_the_order_of_a_tool() -> None:
    world = made()
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment({KEY: (3, 4)}))
    world.run(reassignment.by_order(world.context))
    ask(world, (5, 1))
    assert not world.tree.exists(paths.REASSIGN_PARTITIONS)
    assert world.topic("words").partitions[0] == Assignment((5, 1, 2), (5,), (2,))


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"partitions":[]}'])
def test_an_order_that_asks_for_nothing_is_removed(data: bytes) -> None:
    world = made()
    world.make(paths.REASSIGN_PARTITIONS, data)
    assert world.run(reassignment.by_order(world.context)) == set()
    assert not world.tree.exists(paths.REASSIGN_PARTITIONS)
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment({KEY: (3, 4)}))
    assert world.run(reassignment.by_order(world.context)) == {KEY}


def once(world: World, change: Callable[[], None]) -> None:
    """Let somebody change nodes before the next write."""

    def before_write() -> None:
        world.on_write = lambda: None
        change()

    world.on_write = before_write


@pytest.mark.parametrize("stays", [(), (("words", 1),)])
def test_what_a_tool_asks_for_meanwhile_is_not_lost(stays: tuple[tuple[str, int], ...]) -> None:
    world = made()
    order = dict.fromkeys([KEY, *stays], (3, 4))
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment(order))
    more = notices.encode_reassignment({**order, ("other", 7): (5, 4)})
    once(world, lambda: world.make(paths.REASSIGN_PARTITIONS, more))
    assert ask(world, (5, 1)) is None
    left = notices.decode_reassignment(world.tree.read(paths.REASSIGN_PARTITIONS).data)
    assert left == {**dict.fromkeys(stays, (3, 4)), ("other", 7): (5, 4)}


def test_partitions_that_are_added_meanwhile_are_not_lost() -> None:
    world = made()
    more = {2: Assignment((4, 5))}

    def add() -> None:
        node = world.topic("words")
        world.make(paths.topic("words"), encode_topic(TopicNode(node.topic_id, {**node.partitions, **more})))

    once(world, add)
    assert ask(world, (3, 4)) is None
    found = world.topic("words")
    assert found.topic_id == world.context.topic_ids["words"]
    assert found.partitions == {0: Assignment((3, 4, 1, 2), (3, 4), (1, 2)), 1: Assignment((2, 1)), **more}
    world.run(topics.partitions_changed(world.context, ["words"]))
    assert world.state("words", 2).leader == 4
    join(world, (1, 2, 3, 4))
    assert world.topic("words").partitions == {0: Assignment((3, 4)), 1: Assignment((2, 1)), **more}


def test_a_topic_that_is_gone_is_not_reassigned() -> None:
    world = made()
    once(world, lambda: world.remove(paths.topic("words")))
    assert isinstance(ask(world, (3, 4)), UnknownServerError)
    assert not world.context.reassigning
    assert not world.sent


@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
def test_a_controller_that_takes_over_goes_on(protocol: str) -> None:
    world = made(protocol)
    ask(world, (3, 4))
    state = world.state("words")
    next_one = World((2, 1, 3, 4, 5), protocol)
    next_one.tree = world.tree
    next_one.take_over()
    assert next_one.context.reassigning == {KEY}
    assert next_one.roles()[3, KEY][3]
    assert world.state("words").leader_epoch == state.leader_epoch + 1
    join(next_one, (1, 2, 3, 4))
    assert next_one.topic("words").partitions[0] == Assignment((3, 4))


def test_a_controller_that_takes_over_finishes_what_is_in_sync() -> None:
    world = made()
    ask(world, (3, 4))
    # The former controller stops before it looks at the new ISR.
    state = world.state("words")
    world.put_state("words", 0, replace(state, isr=(1, 2, 3, 4)))
    next_one = World((2, 1, 3, 4, 5))
    next_one.tree = world.tree
    next_one.take_over()
    assert next_one.topic("words").partitions[0] == Assignment((3, 4))
    assert {broker for broker, _, _, delete in next_one.stops() if delete} == {1, 2}


def test_partitions_in_progress_are_listed() -> None:
    world = made()
    ask(world, (3, 4))
    expected = {KEY: Assignment((3, 4, 1, 2), (3, 4), (1, 2))}
    assert reassignment.listed(world.context, None) == expected
    assert reassignment.listed(world.context, [KEY, ("words", 1), ("nothing", 0)]) == expected
    assert reassignment.listed(world.context, [("words", 1)]) == {}


def test_a_topic_that_is_deleted_is_reassigned_no_longer() -> None:
    world = made()
    world.make(paths.REASSIGN_PARTITIONS, notices.encode_reassignment({KEY: (3, 4)}))
    world.run(reassignment.by_order(world.context))
    world.make(paths.delete_topic("words"))
    world.forget()
    world.run(topics.deletions_changed(world.context))
    assert not world.context.reassigning
    assert not world.tree.exists(paths.REASSIGN_PARTITIONS)
    deleted = {(broker, key) for broker, key, epoch, delete in world.stops() if delete and epoch == -2}
    assert deleted == {(broker, KEY) for broker in (1, 2, 3, 4)} | {(1, ("words", 1)), (2, ("words", 1))}
    # A broker that comes back does not begin it anew.
    world.forget()
    world.register(3)
    world.run(brokers.brokers_changed(world.context))
    assert not any(leader >= 0 and is_new for leader, _, _, is_new in world.roles().values())


def test_many_partitions_are_moved_together() -> None:
    world = World((1, 2, 3))
    world.make_topic("wide", [(1, 2)] * 50)
    world.take_over()
    writes = 0

    def count() -> None:
        nonlocal writes
        writes += 1

    world.on_write = count
    errors = world.run(reassignment.by_api(world.context, {("wide", index): (3, 2) for index in range(50)}))
    assert set(errors.values()) == {None}
    # One for the topic's node, one for the states of all partitions.
    assert writes == 2
