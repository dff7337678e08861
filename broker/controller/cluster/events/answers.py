"""The decisions that follow from brokers' responses to LeaderAndIsr and StopReplica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.controller.cluster.events import brokers
from broker.controller.cluster.machine import deletion
from broker.controller.cluster.model.context import ControllerContext, PartitionKey, ReplicaKey
from broker.controller.cluster.model.effects import Decide, Steps
from broker.controller.cluster.model.requests import ControlRequest
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from kafkalog.protocol.messages.stop_replica import StopReplicaResponse


def decisions_for(
    context: ControllerContext, broker_id: int, request: ControlRequest, response: Any
) -> Iterator[tuple[str, Decide]]:
    """Yield the decisions that follow from the response of a broker, each with its name.

    They do nothing if the broker was registered anew before their turn comes: its former process is gone, and the
    present one has been told of its roles and deletions since.
    """

    def of_present(decide: Decide) -> Decide:
        def checked(now: ControllerContext) -> Steps[None]:
            broker = now.brokers.get(broker_id)
            if broker is not None and broker.epoch == request.message.broker_epoch:
                yield from decide(now)

        return checked

    if isinstance(response, LeaderAndIsrResponse) and not response.error_code:
        answers = roles(context, response)
        is_usual = ErrorCode.KAFKA_STORAGE_ERROR not in answers.values()
        if not is_usual or context.offline_logs.get(broker_id):
            yield "roles", of_present(lambda now: brokers.roles_answered(now, broker_id, answers))
    elif isinstance(response, StopReplicaResponse) and request.deleted:
        done, failed = deleted_replicas(context, broker_id, request, response)
        if failed:
            reason = f"broker {broker_id} could not delete replicas of them"
            yield "deletion", of_present(lambda now: deletion.failed(now, failed, reason))
        if done:
            yield "deletion", of_present(lambda now: deletion.succeeded(now, done))


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
