"""Read the responses of brokers into results by partition and replica."""

from __future__ import annotations

from broker.controller.cluster.model.context import ControllerContext, PartitionKey, ReplicaKey
from broker.controller.cluster.model.requests import ControlRequest
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from kafkalog.protocol.messages.stop_replica import StopReplicaResponse


def roles(context: ControllerContext, response: LeaderAndIsrResponse) -> dict[PartitionKey, ErrorCode]:
    """Return the error of each partition of a LeaderAndIsr; topics that are gone are left out."""
    found = {(each.topic_name, each.partition_index): _code(each.error_code) for each in response.partition_errors}
    for topic in response.topics:
        name = context.topic_names.get(topic.topic_id)
        if name is not None:
            found |= {(name, each.partition_index): _code(each.error_code) for each in topic.partition_errors}
    return found


def deleted_replicas(
    context: ControllerContext, broker_id: int, request: ControlRequest, response: StopReplicaResponse
) -> tuple[list[ReplicaKey], list[ReplicaKey]]:
    """Return the replicas of topics being deleted that a StopReplica has deleted, and those for which it failed."""
    done: list[ReplicaKey] = []
    failed: list[ReplicaKey] = []
    for each in response.partition_errors:
        key = each.topic_name, each.partition_index
        if key not in request.deleted or each.topic_name not in context.deletion_started:
            continue
        has_failed = response.error_code != ErrorCode.NONE or each.error_code != ErrorCode.NONE
        (failed if has_failed else done).append(ReplicaKey(*key, broker_id))
    return done, failed


def _code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
