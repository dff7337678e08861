"""LeaderAndIsr and StopReplica of each version as values, and back as answers."""

from __future__ import annotations

import uuid

import pytest

from broker.member.control.orders import roles, roles_answered, stops, stops_answered
from broker.metadata.model import NO_TOPIC_ID, LeaderRecoveryState, PartitionState
from broker.replica.hosting.applier import DELETION_EPOCH, NO_LEADER_EPOCH, LeaderAndIsr, StopReplica
from kafkalog.protocol.codec import encode_response
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)

ID = uuid.UUID(int=9)


def state(**fields: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        topic_name="t", partition_index=3, controller_epoch=4, leader=1, leader_epoch=5, isr=[1], partition_epoch=6,
        replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[2], is_new=True, **fields,
    )  # fmt: skip


@pytest.mark.parametrize("version", range(8))
def test_roles_of_every_version(version: int) -> None:
    message = LeaderAndIsrRequest()
    if version < 2:
        message.ungrouped_partition_states = [state()]
    else:
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=ID, partition_states=[state(leader_recovery_state=1)])
        message.topic_states = [topic]
    (role,) = roles(message, version)
    recovery = LeaderRecoveryState(0 if version < 2 else 1)
    wanted = PartitionState((1, 2, 3), (1,), 1, 5, 6, 4, (3,), (2,), recovery)
    assert role == LeaderAndIsr("t", ID if version >= 5 else NO_TOPIC_ID, 3, wanted, is_new=True)
    answer = roles_answered([role], {("t", 3): ErrorCode.KAFKA_STORAGE_ERROR}, version)
    errors = answer.topics[0].partition_errors if version >= 5 else answer.partition_errors
    assert [(each.partition_index, each.error_code) for each in errors] == [(3, 56)]
    assert encode_response(answer, version, 1)


def test_answers_are_grouped_by_topic_ids() -> None:
    wanted = [LeaderAndIsr("t", ID, index, PartitionState((1,), (1,), 1)) for index in range(2)]
    other = LeaderAndIsr("u", uuid.UUID(int=10), 0, PartitionState((1,), (1,), 1))
    results = {each.key: ErrorCode.NONE for each in (*wanted, other)}
    answer = roles_answered([*wanted, other], results, 5)
    assert [(topic.topic_id.int, len(topic.partition_errors)) for topic in answer.topics] == [(9, 2), (10, 1)]


@pytest.mark.parametrize("version", range(5))
def test_stops_of_every_version(version: int) -> None:
    message = StopReplicaRequest(delete_partitions=version < 3)
    epoch = NO_LEADER_EPOCH
    if version == 0:
        message.ungrouped_partitions = [StopReplicaPartitionV0(topic_name="t", partition_index=2)]
    elif version < 3:
        message.topics = [StopReplicaTopicV1(name="t", partition_indexes=[2])]
    else:
        epoch = DELETION_EPOCH
        partition = StopReplicaPartitionState(partition_index=2, leader_epoch=-2, delete_partition=True)
        message.topic_states = [StopReplicaTopicState(topic_name="t", partition_states=[partition])]
    assert stops(message, version) == [StopReplica("t", 2, epoch, delete=True)]
    answer = stops_answered({("t", 2): ErrorCode.FENCED_LEADER_EPOCH})
    assert encode_response(answer, version, 1)
