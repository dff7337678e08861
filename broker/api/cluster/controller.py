"""AlterPartition (key 56), ControlledShutdown (key 7) and AllocateProducerIds (key 67), which the controller serves.

A broker that is not the controller answers NOT_CONTROLLER. Quotas of clients are not for them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code
from broker.controller.cluster.controller import ClusterController
from broker.controller.cluster.events.isr import AskedKey, WantedIsr
from broker.metadata.model import LeaderRecoveryState
from broker.metadata.znodes.topics import StateNode
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import ErrorCode, KafkaError, NotControllerError
from kafkalog.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kafkalog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkalog.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

IDS_SINCE = 2
"""From this version on AlterPartition names topics by id, and knows INELIGIBLE_REPLICA."""
EPOCHS_SINCE = 3

TopicData = AlterPartitionResponse.TopicData
PartitionData = AlterPartitionResponse.TopicData.PartitionData


def _controller(request: Request) -> ClusterController:
    controller = request.broker.controller
    # The dispatcher serves these to members only.
    assert controller is not None
    if not controller.is_active:
        raise NotControllerError("This broker is not the controller.")
    return controller


@needs_cluster(AclOperation.CLUSTER_ACTION)
async def handle_alter_partition(request: Request) -> None:
    try:
        response = await _alter_partition(request)
    except Exception as error:
        response = AlterPartitionResponse(error_code=error_code(error))
    request.reply(response, 0)


async def _alter_partition(request: Request) -> AlterPartitionResponse:
    message: AlterPartitionRequest = request.message
    wanted: dict[AskedKey, WantedIsr] = {}
    for topic in message.topics:
        wanted.update(_wanted(topic, request.version))
    results = await _controller(request).alter_partition(message.broker_id, message.broker_epoch, wanted)
    response = AlterPartitionResponse()
    for topic in message.topics:
        answer = TopicData(topic_name=topic.topic_name, topic_id=topic.topic_id)
        for each in topic.partitions:
            index = each.partition_index
            result = results[_asked(topic, request.version), index]
            answer.partitions.append(_answer(index, result, request.version))
        response.topics.append(answer)
    return response


def _asked(topic: AlterPartitionRequest.TopicData, version: int) -> str | uuid.UUID:
    return topic.topic_id if version >= IDS_SINCE else topic.topic_name


def _wanted(topic: AlterPartitionRequest.TopicData, version: int) -> Iterator[tuple[AskedKey, WantedIsr]]:
    for each in topic.partitions:
        isr = (
            tuple(member.broker_id for member in each.new_isr_with_epochs)
            if version >= EPOCHS_SINCE
            else tuple(each.new_isr)
        )
        epochs = {member.broker_id: member.broker_epoch for member in each.new_isr_with_epochs}
        recovering = each.leader_recovery_state == LeaderRecoveryState.RECOVERING
        recovery = LeaderRecoveryState.RECOVERING if recovering else LeaderRecoveryState.RECOVERED
        yield (
            (_asked(topic, version), each.partition_index),
            WantedIsr(each.leader_epoch, isr, each.partition_epoch, recovery, each.reason, epochs),
        )


def _answer(index: int, result: StateNode | KafkaError, version: int) -> PartitionData:
    if isinstance(result, KafkaError):
        code = result.code
        if code is ErrorCode.INELIGIBLE_REPLICA and version < IDS_SINCE:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
        return PartitionData(partition_index=index, error_code=code)
    return PartitionData(
        partition_index=index,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=int(result.recovery),
        partition_epoch=result.partition_epoch,
    )


@needs_cluster(AclOperation.CLUSTER_ACTION)
async def handle_controlled_shutdown(request: Request) -> None:
    message: ControlledShutdownRequest = request.message
    try:
        left = await _controller(request).controlled_shutdown(message.broker_id, message.broker_epoch)
        response = ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(topic_name=topic, partition_index=index) for topic, index in left]
        )
    except Exception as error:
        response = ControlledShutdownResponse(error_code=error_code(error))
    request.reply(response, 0)


@needs_cluster(AclOperation.CLUSTER_ACTION)
async def handle_allocate_producer_ids(request: Request) -> None:
    message: AllocateProducerIdsRequest = request.message
    try:
        block = await _controller(request).allocate_producer_ids(message.broker_id, message.broker_epoch)
        response = AllocateProducerIdsResponse(
            producer_id_start=block.first, producer_id_len=block.last - block.first + 1
        )
    except Exception as error:
        response = AllocateProducerIdsResponse(error_code=error_code(error))
    request.reply(response, 0)


MEMBER_HANDLERS = {
    AlterPartitionRequest: handle_alter_partition,
    ControlledShutdownRequest: handle_controlled_shutdown,
    AllocateProducerIdsRequest: handle_allocate_producer_ids,
}
