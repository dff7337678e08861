"""LeaderAndIsr and StopReplica requests as the values that `ReplicaApplier` takes, and its results as answers. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from broker.metadata.model import NO_TOPIC_ID, LeaderRecoveryState, PartitionState
from broker.replica.hosting.applier import NO_LEADER_EPOCH, LeaderAndIsr, Results, StopReplica
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)

ROLES_GROUPED_SINCE = 2
ROLES_WITH_TOPIC_IDS_SINCE = 5
STOPS_GROUPED_SINCE = 1
STOPS_WITH_EPOCHS_SINCE = 3


def roles(message: LeaderAndIsrRequest, version: int) -> list[LeaderAndIsr]:
    """Return the roles of a LeaderAndIsr request."""
    if version < ROLES_GROUPED_SINCE:
        return [_role(each.topic_name, NO_TOPIC_ID, each) for each in message.ungrouped_partition_states]
    with_ids = version >= ROLES_WITH_TOPIC_IDS_SINCE
    return [
        _role(topic.topic_name, topic.topic_id if with_ids else NO_TOPIC_ID, each)
        for topic in message.topic_states
        for each in topic.partition_states
    ]


def _role(topic: str, topic_id: uuid.UUID, told: LeaderAndIsrPartitionState) -> LeaderAndIsr:
    is_recovering = told.leader_recovery_state == LeaderRecoveryState.RECOVERING
    state = PartitionState(
        replicas=tuple(told.replicas),
        isr=tuple(told.isr),
        leader=told.leader,
        leader_epoch=told.leader_epoch,
        partition_epoch=told.partition_epoch,
        controller_epoch=told.controller_epoch,
        adding=tuple(told.adding_replicas),
        removing=tuple(told.removing_replicas),
        recovery=LeaderRecoveryState.RECOVERING if is_recovering else LeaderRecoveryState.RECOVERED,
    )
    return LeaderAndIsr(topic, topic_id, told.partition_index, state, told.is_new)


def roles_answered(wanted: list[LeaderAndIsr], results: Results, version: int) -> LeaderAndIsrResponse:
    """Return the answer to a LeaderAndIsr request."""
    if version < ROLES_WITH_TOPIC_IDS_SINCE:
        return LeaderAndIsrResponse(
            partition_errors=[
                LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code)
                for (topic, index), code in results.items()
            ]
        )
    topics: dict[uuid.UUID, LeaderAndIsrTopicError] = {}
    for each in wanted:
        topic = topics.get(each.topic_id)
        if topic is None:
            topic = topics[each.topic_id] = LeaderAndIsrTopicError(topic_id=each.topic_id)
        error = LeaderAndIsrPartitionError(partition_index=each.partition, error_code=results[each.key])
        topic.partition_errors.append(error)
    return LeaderAndIsrResponse(topics=list(topics.values()))


def stops(message: StopReplicaRequest, version: int) -> list[StopReplica]:
    """Return the replicas that a StopReplica request names."""
    return list(_stops(message, version))


def _stops(message: StopReplicaRequest, version: int) -> Iterator[StopReplica]:
    delete = message.delete_partitions
    if version < STOPS_GROUPED_SINCE:
        for each in message.ungrouped_partitions:
            yield StopReplica(each.topic_name, each.partition_index, NO_LEADER_EPOCH, delete)
    elif version < STOPS_WITH_EPOCHS_SINCE:
        for topic in message.topics:
            for index in topic.partition_indexes:
                yield StopReplica(topic.name, index, NO_LEADER_EPOCH, delete)
    else:
        for named in message.topic_states:
            for state in named.partition_states:
                yield StopReplica(named.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)


def stops_answered(results: Results) -> StopReplicaResponse:
    """Return the answer to a StopReplica request."""
    return StopReplicaResponse(
        error_code=ErrorCode.NONE,
        partition_errors=[
            StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code)
            for (topic, index), code in results.items()
        ],
    )
