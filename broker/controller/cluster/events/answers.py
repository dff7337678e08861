"""Read the responses of brokers into results by partition and replica."""

from __future__ import annotations

from broker.controller.cluster.model.context import ControllerContext, PartitionKey, ReplicaKey
from broker.controller.cluster.model.requests import ControlRequest
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from kafkalog.protocol.messages.stop_replica import StopReplicaResponse


def roles(context: ControllerContext, response: LeaderAndIsrResponse) -> dict[PartitionKey, ErrorCode]:
    """Return the error of each partition of a LeaderAndIsr; topics that are gone are left out."""
    found = {
        (each.topic_name, each.partition_index): ErrorCode.of(each.error_code) for each in response.partition_errors
    }
    for topic in response.topics:
        name = context.topic_names.get(topic.topic_id)
        if name is not None:
            found |= {(name, each.partition_index): ErrorCode.of(each.error_code) for each in topic.partition_errors}
    return found


def deleted_replicas(
    context: ControllerContext, broker_id: int, request: ControlRequest, response: StopReplicaResponse
) -> tuple[list[ReplicaKey], list[ReplicaKey]]:
    """Return the replicas of topics being deleted that a StopReplica has deleted, and those for which it failed.

    Those that the response does not name have failed, too: a broker that refuses the whole request names none.
    """
    errors = {(each.topic_name, each.partition_index): each.error_code for each in response.partition_errors}
    done: list[ReplicaKey] = []
    failed: list[ReplicaKey] = []
    for key in sorted(request.deleted):
        if key[0] not in context.deletion_started:
            continue
        is_done = response.error_code == ErrorCode.NONE and errors.get(key) == ErrorCode.NONE
        (done if is_done else failed).append(ReplicaKey(*key, broker_id))
    return done, failed
