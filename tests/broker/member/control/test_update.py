"""Changes that UpdateMetadata makes in the state of the cluster."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from broker.config.listeners import Endpoint
from broker.member.control.update import DELETED, UNKNOWN_EPOCH, merged
from broker.metadata.cache import MetadataCache
from broker.metadata.model import NO_LEADER, BrokerRegistration, ClusterState, PartitionState, TopicState
from broker.metadata.operations import ChangePartitions, CreateTopic, DeleteTopic
from kafkalog.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ID, OTHER_ID = uuid.UUID(int=5), uuid.UUID(int=6)
STATE = ClusterState("id")


def told(index: int = 0, leader: int = 1, epoch: int = 3, topic: str = "t") -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name=topic, partition_index=index, controller_epoch=2, leader=leader, leader_epoch=epoch, isr=[1, 2],
        zk_version=8, replicas=[1, 2],
    )  # fmt: skip


def request(*partitions: UpdateMetadataPartitionState, topic_id: uuid.UUID = ID) -> UpdateMetadataRequest:
    topics = [UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=list(partitions))]
    return UpdateMetadataRequest(controller_id=4, controller_epoch=2, topic_states=topics if partitions else [])


def known(*partitions: PartitionState, topic_id: uuid.UUID = ID) -> ClusterState:
    return replace(STATE, topics={"t": TopicState("t", topic_id, partitions, {"a": "b"})})


ONE = PartitionState((1, 2), (1, 2), 1, 3, 8, 2)


def test_topics_and_partitions_are_added_and_changed() -> None:
    state, operations = merged(STATE, request(told()), 7)
    assert state.topics["t"] == TopicState("t", ID, (ONE,), {})
    assert operations == [CreateTopic(state.topics["t"])]
    assert (state.controller_id, state.controller_epoch) == (4, 2)
    again, nothing = merged(state, request(told()), 7)
    assert (again.topics, nothing) == (state.topics, [])
    grown, operations = merged(known(ONE), request(told(2, 2, 0)), 7)
    two = PartitionState((1, 2), (1, 2), 2, 0, 8, 2)
    missing = PartitionState((), (), NO_LEADER, -1)
    assert grown.topics["t"] == TopicState("t", ID, (ONE, missing, two), {"a": "b"})
    assert operations == [ChangePartitions("t", {1: missing, 2: two})]


def test_a_deleted_topic_is_gone_when_all_of_its_partitions_are() -> None:
    left, _ = merged(known(ONE, ONE), request(told(1, DELETED)), 7)
    assert left.topics["t"].partitions == (ONE,)
    gone, operations = merged(left, request(told(0, DELETED)), 7)
    assert gone.topics == {}
    assert operations == [DeleteTopic("t", ID)]
    assert merged(gone, request(told(0, DELETED)), 7) == (gone, [])


def test_a_topic_of_the_same_name_with_another_id_is_another_topic() -> None:
    state, operations = merged(known(ONE, ONE), request(told(), topic_id=OTHER_ID), 7)
    assert state.topics["t"] == TopicState("t", OTHER_ID, (ONE,), {})
    assert operations == [DeleteTopic("t", ID), CreateTopic(state.topics["t"])]
    # The deletion of the one of before is over.
    assert merged(state, request(told(0, DELETED)), 7)[1] == []


def test_replicas_in_failed_directories_are_offline_until_the_controller_tells_otherwise() -> None:
    one = told()
    one.offline_replicas = [1, 2]
    message = request(one)
    message.live_brokers = [UpdateMetadataBroker(id=2), UpdateMetadataBroker(id=3)]
    state, _ = merged(STATE, message, 7)
    cache = MetadataCache(state)
    partition = state.topics["t"].partitions[0]
    assert partition.offline == (2,), "of broker 1, which is not alive, nothing needs to be remembered"
    assert cache.offline_replicas("t", 0, partition) == [1, 2]
    message = request(told())
    message.live_brokers = [UpdateMetadataBroker(id=1), UpdateMetadataBroker(id=2)]
    back, operations = merged(state, message, 7)
    assert [type(each) for each in operations] == [ChangePartitions]
    assert MetadataCache(back).offline_replicas("t", 0, back.topics["t"].partitions[0]) == []


def test_reassignments_that_are_known_stay_while_the_replicas_do() -> None:
    moving = replace(ONE, adding=(2,), leader_epoch=1)
    state, _ = merged(known(moving), request(told()), 7)
    assert state.topics["t"].partitions[0].adding == (2,)


@pytest.mark.parametrize("version", [0, 4])
def test_old_versions_name_the_topic_in_each_partition(version: int) -> None:
    message = UpdateMetadataRequest(
        controller_id=4, controller_epoch=2, ungrouped_partition_states=[told(1), told(0), told(0, topic="u")]
    )
    state, _ = merged(STATE, message, version)
    assert {name: len(topic.partitions) for name, topic in state.topics.items()} == {"t": 2, "u": 1}
    assert state.topics["t"].topic_id.int == 0


@pytest.mark.parametrize(
    ("version", "broker", "endpoints"),
    [
        (0, UpdateMetadataBroker(id=1, v0_host="h", v0_port=9), [Endpoint("PLAINTEXT", "h", 9, "PLAINTEXT")]),
        (
            1,
            UpdateMetadataBroker(id=1, endpoints=[UpdateMetadataEndpoint(port=9, host="h", security_protocol=1)]),
            [Endpoint("SSL", "h", 9, "SSL")],
        ),
        (
            8,
            UpdateMetadataBroker(
                id=1,
                endpoints=[UpdateMetadataEndpoint(port=9, host="h", listener="IN", security_protocol=3)],
                rack="r",
            ),
            [Endpoint("IN", "h", 9, "SASL_SSL")],
        ),
    ],
)
def test_the_live_brokers_replace_those_of_before(
    version: int, broker: UpdateMetadataBroker, endpoints: list[Endpoint]
) -> None:
    before = replace(STATE, brokers={7: BrokerRegistration(7, ())})
    message = UpdateMetadataRequest(controller_id=4, controller_epoch=2, live_brokers=[broker])
    state, operations = merged(before, message, version)
    assert state.brokers == {1: BrokerRegistration(1, tuple(endpoints), broker.rack, UNKNOWN_EPOCH)}
    assert operations == []
    assert merged(state, message, version)[0].brokers is state.brokers
