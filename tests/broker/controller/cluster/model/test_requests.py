"""The requests to brokers; the cases of Kafka's `ControllerChannelManagerTest`."""

from __future__ import annotations

import uuid

import pytest

from broker.config.protocol_version import ProtocolVersion
from broker.controller.cluster.model.requests import ControlBatch, ControlRequest
from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes.topics import Assignment, StateNode
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkalog.protocol.messages.stop_replica import StopReplicaRequest
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.broker.controller.cluster.world import EPOCH, LISTENER, World, as_received

TOPIC_ID = uuid.UUID(int=77)
VERSIONS = ["0.8.2", "0.9.0", "0.10.0", "0.11.0", "1.0", "2.2", "2.4-IV0", "2.4", "2.6", "2.8", "3.2", "3.4", "3.9"]


def made(protocol: str = "3.9") -> World:
    world = World(protocol=protocol)
    world.make_topic("words", [(1, 2), (2, 3)])
    world.take_over()
    world.forget()
    world.context.put_topic_id("words", TOPIC_ID)
    return world


def received(batch: ControlBatch) -> list[ControlRequest]:
    return [as_received(request) for request in batch.requests()]


@pytest.mark.parametrize("protocol", VERSIONS)
def test_versions_follow_the_protocol_between_brokers(protocol: str) -> None:
    world = made(protocol)
    context, key = world.context, ("words", 0)
    batch = ControlBatch(context)
    state = StateNode(2, 4, (2, 1), EPOCH, 6, LeaderRecoveryState.RECOVERING)
    batch.tell_roles([1], key, state, Assignment((1, 2, 3), (3,), (1,)), is_new=True)
    batch.stop(3, ("words", 1), delete=True)
    batch.stop(3, ("gone", 0), delete=False)
    sent = received(batch)
    version = ProtocolVersion.parse(protocol)
    for request in sent:
        assert request.version == version.request_version(ApiKey(request.message.api_key))
        assert request.message.controller_id == 1
        assert request.message.controller_epoch == EPOCH
    (roles,) = [each for each in sent if isinstance(each.message, LeaderAndIsrRequest)]
    message = roles.message
    assert isinstance(message, LeaderAndIsrRequest)
    assert message.broker_epoch == (context.brokers[1].epoch if roles.version >= 2 else -1)
    topics = message.topic_states
    told = message.ungrouped_partition_states[0] if roles.version < 2 else topics[0].partition_states[0]
    assert (told.topic_name if roles.version < 2 else topics[0].topic_name) == "words"
    if roles.version >= 5:
        assert topics[0].topic_id == TOPIC_ID
    assert (told.partition_index, told.controller_epoch, told.leader, told.leader_epoch) == (0, EPOCH, 2, 4)
    assert (told.isr, told.partition_epoch, told.replicas) == ([2, 1], 6, [1, 2, 3])
    assert (told.adding_replicas, told.removing_replicas) == (([3], [1]) if roles.version >= 3 else ([], []))
    assert told.is_new == (roles.version >= 1)
    assert told.leader_recovery_state == (1 if roles.version >= 6 else 0)
    assert [(each.broker_id, each.host_name, each.port) for each in message.live_leaders] == [(2, "host2", 9002)]

    stops = [each for each in sent if isinstance(each.message, StopReplicaRequest)]
    assert {key for each in stops for key in each.deleted} == {("words", 1)}
    assert len(stops) == (1 if stops[0].version >= 3 else 2)

    metadata = [each for each in sent if isinstance(each.message, UpdateMetadataRequest)]
    assert {each.broker_id for each in metadata} == {1, 2, 3}
    for each in metadata:
        assert isinstance(each.message, UpdateMetadataRequest)
        brokers = each.message.live_brokers
        assert {broker.id for broker in brokers} == {1, 2, 3}
        if each.version == 0:
            assert {(broker.v0_host, broker.v0_port) for broker in brokers} == {
                (f"host{n}", 9000 + n) for n in (1, 2, 3)
            }
        else:
            assert [(end.host, end.security_protocol) for end in brokers[0].endpoints] == [("host1", 0), ("host1", 1)]
        if each.version >= 3:
            assert [end.listener for end in brokers[0].endpoints] == [LISTENER, "SSL"]
        if each.version >= 2:
            assert {broker.rack for broker in brokers} == {"rack1", "rack2", "rack3"}
        assert each.message.broker_epoch == (context.brokers[each.broker_id].epoch if each.version >= 5 else -1)


def test_each_broker_gets_roles_then_metadata_then_stops_and_new_leaders_first() -> None:
    world = made()
    batch = ControlBatch(world.context)
    state = StateNode(3, 1, (3, 1), EPOCH)
    batch.stop(1, ("words", 1), delete=False)
    batch.tell_roles([1, 2, 3], ("words", 0), state, Assignment((1, 2, 3)))
    sent = received(batch)
    kinds = [(type(each.message).__name__, each.broker_id) for each in sent]
    assert kinds[0] == ("LeaderAndIsrRequest", 3)
    assert [name for name, broker in kinds if broker == 1] == [
        "LeaderAndIsrRequest",
        "UpdateMetadataRequest",
        "StopReplicaRequest",
    ]


def test_only_registered_brokers_are_told() -> None:
    world = made()
    batch = ControlBatch(world.context)
    batch.tell_roles([-1, 1, 9], ("words", 0), StateNode(1, 1, (1,), EPOCH), Assignment((1, 9)))
    batch.stop(9, ("words", 0), delete=False)
    assert {each.broker_id for each in received(batch)} == {1, 2, 3}


def test_new_and_deleted_stay_so_within_a_batch() -> None:
    world = made()
    batch = ControlBatch(world.context)
    for is_new in (True, False):
        batch.tell_roles([1], ("words", 0), StateNode(1, 1, (1,), EPOCH), Assignment((1,)), is_new=is_new)
        batch.stop(2, ("words", 0), delete=is_new)
    world.sent = received(batch)
    assert world.roles()[1, ("words", 0)][3]
    assert world.stops() == [(2, ("words", 0), 0, True)]


def test_a_topic_that_is_deleted_leaves_the_metadata() -> None:
    world = made()
    world.context.deleting.add("words")
    batch = ControlBatch(world.context)
    batch.inform([1], [("words", 0), ("words", 1), ("unknown", 0)])
    batch.stop(1, ("words", 0), delete=True)
    world.sent = received(batch)
    assert world.informed() == {1: {("words", 0): (-2, (1, 2)), ("words", 1): (-2, (2, 3))}}
    assert world.stops() == [(1, ("words", 0), -2, True)]


def changes_told(batch: ControlBatch) -> list[list[tuple[int, list[int], str, str]]]:
    """Return the changes of each UpdateMetadata: number, partitions, what, and cause."""
    return [
        [(each.number, each.partitions, each.what, each.cause) for each in request.message.changes]
        for request in received(batch)
        if isinstance(request.message, UpdateMetadataRequest)
    ]


def test_all_brokers_are_told_once_why_partitions_changed() -> None:
    world = made()
    number = world.context.told
    world.context.cause = "broker 1 has gone"
    for index in (0, 1):
        world.context.put_state(("words", index), StateNode(3, 1, (3,), EPOCH))
    world.context.causes = {("words", 0): "it asked for it"}
    world.context.put_state(("words", 0), StateNode(2, 2, (2, 3), EPOCH))
    some = ControlBatch(world.context)
    some.inform([1, 2], [("words", 0)])
    assert changes_told(some) == [[], []], "the others would not know"
    everyone = ControlBatch(world.context)
    everyone.inform_all([("words", 0), ("words", 1)])
    told = changes_told(everyone)
    assert len(told) == 3
    assert told[0] == told[1] == told[2]
    assert [(each, partitions, cause) for each, partitions, _, cause in told[0]] == [
        (number + 1, [0], "broker 1 has gone"),
        (number + 2, [1], "broker 1 has gone"),
        (number + 3, [0], "it asked for it"),
    ]
    world.context.put_state(("words", 1), StateNode(2, 2, (2, 3), EPOCH))
    again = ControlBatch(world.context)
    again.inform_all()
    assert [[each for each, *_ in of_one] for of_one in changes_told(again)] == [[number + 4]] * 3


def test_partitions_that_change_alike_are_told_together() -> None:
    world = made()
    for state in (StateNode(2, 1, (2, 3), EPOCH), StateNode(3, 2, (2, 3), EPOCH)):
        for index in (0, 1):
            world.context.put_state(("words", index), state)
    batch = ControlBatch(world.context)
    batch.inform_all()
    assert changes_told(batch)[0][-1][1:3] == ([0, 1], "leader 2 -> 3")


def test_older_versions_tell_no_causes() -> None:
    world = made("2.3")
    world.context.put_state(("words", 0), StateNode(3, 2, (2, 3), EPOCH))
    batch = ControlBatch(world.context)
    batch.inform_all([("words", 0)])
    assert changes_told(batch) == [[]] * 3


def test_replicas_that_are_offline_are_named() -> None:
    world = made()
    world.context.shutting_down.add(2)
    world.context.offline_logs[3] = {("words", 1)}
    batch = ControlBatch(world.context)
    batch.inform([1], [("words", 0), ("words", 1)])
    (request,) = received(batch)
    assert isinstance(request.message, UpdateMetadataRequest)
    told = {each.partition_index: each.offline_replicas for each in request.message.topic_states[0].partition_states}
    assert told == {0: [2], 1: [2, 3]}
