"""Brokers come, go and start anew, and lose log directories; the cases of Kafka's `ControllerIntegrationTest`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.controller.cluster.events import brokers, elections, isr
from broker.controller.cluster.machine import reassignment
from broker.controller.cluster.model.context import PartitionPhase, ReplicaKey, ReplicaPhase
from broker.controller.decisions.elections import ElectionType
from broker.metadata.znodes import notices, paths
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.broker.controller.cluster.world import World

WORDS, LONE = ("words", 0), ("lone", 0)


def made(protocol: str = "3.9") -> World:
    world = World(protocol=protocol)
    world.make_topic("words", [(1, 2, 3)])
    world.make_topic("lone", [(3,)])
    world.take_over()
    world.forget()
    return world


def look(world: World) -> None:
    world.run(brokers.brokers_changed(world.context))


def test_a_broker_that_dies_loses_its_leaderships_and_leaves_the_isrs() -> None:
    world = made()
    world.deregister(3)
    look(world)
    assert world.state("words").isr == (1, 2)
    assert (world.state("lone").leader, world.state("lone").isr) == (-1, (3,))
    assert world.context.partition_phases[LONE] is PartitionPhase.OFFLINE
    assert world.context.phase_of(ReplicaKey(*WORDS, 3)) is ReplicaPhase.OFFLINE
    assert world.live_told(1) == {1, 2}
    assert set(world.connected) == {1, 2}
    assert paths.broker_id(3) not in world.watched
    causes = {change.cause for change in world.context.changes}
    assert len(causes) == 1
    assert "brokers [3] are not registered any more" in causes.pop()


def test_the_death_of_a_leader_is_followed_by_an_election() -> None:
    world = made()
    world.deregister(1)
    look(world)
    assert (world.state("words").leader, world.state("words").isr) == (2, (2, 3))
    assert world.roles()[3, WORDS][:1] == (2,)
    # Brokers that have no role in it learn it, too.
    assert world.informed()[2][WORDS] == (2, (2, 3))


def test_brokers_learn_of_the_death_of_a_broker_without_replicas() -> None:
    world = World((1, 2, 3))
    world.make_topic("words", [(1,)])
    world.take_over()
    world.forget()
    world.deregister(3)
    look(world)
    assert world.live_told(1) == {1, 2}


def test_a_broker_that_comes_back_gets_everything() -> None:
    world = made()
    world.deregister(3)
    look(world)
    world.forget()
    world.register(3)
    look(world)
    assert world.live_told(1) == {1, 2, 3}
    assert world.informed()[3].keys() == {WORDS, LONE}
    assert world.roles()[3, WORDS][0] == 1
    # What had no leader without it has one again.
    assert (world.state("lone").leader, world.state("lone").isr) == (3, (3,))
    kinds = [type(each.message).__name__ for each in world.sent if each.broker_id == 3]
    assert kinds[:2] == ["UpdateMetadataRequest", "LeaderAndIsrRequest"]
    assert paths.broker_id(3) in world.watched


def test_a_new_partition_waits_for_the_first_replica() -> None:
    world = World((1, 2))
    world.make_topic("lone", [(3,)])
    world.take_over()
    world.register(3)
    look(world)
    assert world.state("lone").leader == 3
    assert world.roles()[3, LONE][3]


def test_a_broker_that_was_started_anew_between_two_looks_is_told_anew() -> None:
    world = made()
    before = world.context.brokers[2].epoch
    world.register(2)
    look(world)
    after = world.context.brokers[2].epoch
    assert after > before
    assert world.connected[2] == after
    (_, role), *_ = [(key, role) for key, role in world.roles().items() if key == (2, WORDS)]
    assert role[2] == (1, 3)
    told = [
        each.message for each in world.sent if each.broker_id == 2 and isinstance(each.message, LeaderAndIsrRequest)
    ]
    assert {message.broker_epoch for message in told} == {after}


def test_a_look_without_change_does_nothing() -> None:
    world = made()
    look(world)
    assert not world.sent


def test_a_broker_that_changes_its_addresses_is_told_to_all() -> None:
    world = made()
    path = paths.broker_id(2)
    data = world.tree.read(path).data.replace(b"host2", b"elsewhere")
    world.make(path, data)
    world.run(brokers.registration_changed(world.context, {2}))
    assert world.live_told(3) == {1, 2, 3}
    assert world.context.brokers[2].endpoints[0].host == "elsewhere"
    world.forget()
    world.run(brokers.registration_changed(world.context, {2, 9}))
    assert not world.sent


def test_a_broker_that_cannot_be_read_is_left_out() -> None:
    world = made()
    world.deregister(2)
    world.make(paths.broker_id(2), b"{")
    world.make(f"{paths.BROKER_IDS}/none", b"")
    look(world)
    assert set(world.context.brokers) == {1, 3}


def test_a_failed_log_directory_is_found_by_the_answers() -> None:
    world = made()
    world.make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000001", notices.encode_log_dir_event(3))
    world.make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000002", b"[]")
    world.run(brokers.log_dirs_failed(world.context))
    assert not world.tree.names(paths.LOG_DIR_EVENTS)
    assert {key for broker, key in world.roles() if broker == 3} == {WORDS, LONE}
    world.forget()
    errors = {WORDS: ErrorCode.STALE_CONTROLLER_EPOCH, LONE: ErrorCode.KAFKA_STORAGE_ERROR}
    world.run(brokers.roles_answered(world.context, 3, errors))
    assert world.state("lone").leader == -1
    assert world.state("words").isr == (1, 2, 3)
    assert not world.context.is_online(3, LONE)
    # The broker is started anew with a working directory.
    world.register(3)
    look(world)
    assert world.state("lone").leader == 3


def test_a_new_replica_that_leads_and_loses_its_log_directory_is_followed_by_another() -> None:
    world = World((1, 2, 3, 4))
    world.make_topic("words", [(1, 2)])
    world.take_over()
    world.run(reassignment.by_api(world.context, {WORDS: (3, 4)}))
    # 3 is in sync, and leads as the preferred replica; 4 is not in sync yet.
    world.put_state("words", 0, replace(world.state("words"), isr=(1, 2, 3)))
    world.run(isr.take_states(world.context, [WORDS]))
    world.run(elections.elect_leaders(world.context, [WORDS], ElectionType.PREFERRED))
    assert world.state("words").leader == 3
    world.forget()
    world.make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000001", notices.encode_log_dir_event(3))
    world.run(brokers.log_dirs_failed(world.context))
    # It is not told as new, so that it does not make another log in a directory that works.
    assert world.roles()[3, WORDS] == (3, world.state("words").leader_epoch, (1, 2, 3), False)
    world.run(brokers.roles_answered(world.context, 3, {WORDS: ErrorCode.KAFKA_STORAGE_ERROR}))
    assert (world.state("words").leader, world.state("words").isr) == (1, (1, 2))
    assert world.context.reassigning == {WORDS}


def test_a_leader_that_asks_for_its_role_gets_the_isr_that_it_wrote_before() -> None:
    """Before 2.7 leaders write the ISR, and the controller learns of it later."""
    world = made(protocol="2.4")
    world.deregister(3)
    look(world)
    world.register(3)
    look(world)
    written = world.state("words")
    assert written.isr == (1, 2)
    world.put_state("words", 0, replace(written, isr=(1, 2, 3)))
    world.make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000001", notices.encode_log_dir_event(1, "it lost its role"))
    world.forget()
    world.run(brokers.log_dirs_failed(world.context))
    assert world.roles()[1, WORDS] == (1, written.leader_epoch, (1, 2, 3), False)
    assert world.context.states[WORDS].partition_epoch == written.partition_epoch + 1


def test_a_replica_that_can_be_used_again_is_online() -> None:
    world = made()
    world.run(brokers.roles_answered(world.context, 3, {WORDS: ErrorCode.KAFKA_STORAGE_ERROR}))
    assert world.state("words").isr == (1, 2)
    before = world.state("words")
    world.forget()
    world.run(brokers.roles_answered(world.context, 3, {WORDS: ErrorCode.NONE}))
    assert world.context.is_online(3, WORDS)
    assert world.state("words") == before, "its leader stays"
    assert not world.sent


@pytest.mark.parametrize("answer", [ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH])
def test_a_partition_without_a_leader_gets_one_when_its_only_replica_can_be_used_again(answer: ErrorCode) -> None:
    world = made()
    world.run(brokers.roles_answered(world.context, 3, {LONE: ErrorCode.KAFKA_STORAGE_ERROR}))
    lost = world.state("lone")
    assert (lost.leader, lost.isr) == (-1, (3,))
    assert [(broker, key) for broker, key, *_ in world.stops()] == [(3, LONE)]
    # The broker has forgotten the partition then, and asks for its roles.
    world.make(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000001", notices.encode_log_dir_event(3, "it has no role"))
    world.forget()
    world.run(brokers.log_dirs_failed(world.context))
    assert world.roles()[3, LONE] == (-1, lost.leader_epoch, (3,), False)
    world.forget()
    world.run(brokers.roles_answered(world.context, 3, {LONE: answer}))
    assert world.roles()[3, LONE] == (3, lost.leader_epoch + 1, (3,), False)
    assert (world.state("lone").leader, world.state("lone").isr) == (3, (3,))
    assert world.informed()[1][LONE] == (3, (3,)), "clients of all brokers find it"
    assert world.context.partition_phases[LONE] is PartitionPhase.ONLINE
    assert world.context.changes[-1].cause == "broker 3 answered that 1 replicas can be used again"


def test_replicas_that_fail_while_others_can_be_used_again() -> None:
    world = made()
    world.run(brokers.roles_answered(world.context, 3, {LONE: ErrorCode.KAFKA_STORAGE_ERROR}))
    answers = {LONE: ErrorCode.NONE, WORDS: ErrorCode.KAFKA_STORAGE_ERROR}
    world.run(brokers.roles_answered(world.context, 3, answers))
    assert world.state("lone").leader == 3
    assert world.state("words").isr == (1, 2)


@pytest.mark.parametrize("is_newer", [False, True])
def test_a_process_that_died_loses_its_registration(is_newer: bool) -> None:
    world = made()
    known = world.context.brokers[2]
    if is_newer:
        # It was started again meanwhile.
        world.register(2)
    world.run(brokers.process_died(world.context, known))
    assert world.tree.exists(paths.broker_id(2)) == is_newer
    if not is_newer:
        assert world.state("words").isr == (1, 3)
        assert "nothing listened at INSIDE://host2:9002" in world.context.changes[-1].cause


def test_the_mark_of_brokers_that_watch_themselves_is_read() -> None:
    world = World((1,))
    world.register(2, watches_itself=True)
    world.take_over()
    assert {each: broker.watches_itself for each, broker in world.context.brokers.items()} == {1: False, 2: True}
