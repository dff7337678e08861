"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments, carried out by a cluster's controller.

Other brokers answer NOT_CONTROLLER. Clients find the controller by Metadata.
"""

from __future__ import annotations

import asyncio

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.controller.cluster.controller import ClusterController
from broker.controller.cluster.model.context import PartitionKey
from broker.controller.decisions.elections import ElectionType
from kafkalog.protocol.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
)
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkalog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

LOOK_S = 0.02
"""The interval at which the handler checks whether this broker knows the new leaders."""


async def elect_leaders(request: Request, controller: ClusterController) -> None:
    message: ElectLeadersRequest = request.message
    end_ms = request.broker.runtime.monotonic_ms() + message.timeout_ms
    keys: list[PartitionKey] | None = None
    if message.topic_partitions is not None:
        keys = [
            (topic.topic, index)
            async for topic in request.each(message.topic_partitions)
            async for index in request.each(topic.partitions)
        ]
    response = ElectLeadersResponse()
    results: dict[PartitionKey, int | KafkaError]
    try:
        # Version 0 supports preferred leaders only.
        kind = ElectionType.parse(message.election_type) if request.version else ElectionType.PREFERRED
        results = await controller.elect_leaders(keys, kind)
    except (InvalidRequestError, NotControllerError) as error:
        response.error_code = error_code(error) if request.version else ErrorCode.NONE
        results = dict.fromkeys(keys or (), error)
    await _until_known(request, results, end_ms)
    topics: dict[str, ReplicaElectionResult] = {}
    async for (name, index), outcome in request.each(results.items()):
        result = PartitionResult(partition_id=index, error_message=None)
        if isinstance(outcome, KafkaError):
            result.error_code, result.error_message = error_code(outcome), error_message(outcome)
        topics.setdefault(name, ReplicaElectionResult(topic=name)).partition_result.append(result)
    response.replica_election_results = list(topics.values())
    await request.answer(response, results)


async def _until_known(request: Request, results: dict[PartitionKey, int | KafkaError], end_ms: int) -> None:
    """Wait until this broker knows the leaders that were elected; those that it does not learn in time timed out."""
    metadata, runtime = request.broker.metadata, request.broker.runtime
    waiting = {key: leader for key, leader in results.items() if not isinstance(leader, KafkaError)}
    while waiting:
        for key, leader in list(waiting.items()):
            if metadata.leader(*key) == leader:
                del waiting[key]
        if not waiting:
            return
        if runtime.monotonic_ms() >= end_ms:
            break
        await asyncio.sleep(LOOK_S)
    results.update(dict.fromkeys(waiting, RequestTimedOutError()))


async def alter_reassignments(request: Request, controller: ClusterController) -> None:
    message: AlterPartitionReassignmentsRequest = request.message
    wanted = {
        (topic.name, row.partition_index): None if row.replicas is None else tuple(row.replicas)
        async for topic in request.each(message.topics)
        async for row in request.each(topic.partitions)
    }
    try:
        errors = await controller.alter_reassignments(wanted)
    except NotControllerError as error:
        request.reply(AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error_message(error)))
        return
    topics: dict[str, ReassignableTopicResponse] = {}
    async for (name, index), refusal in request.each(errors.items()):
        topics.setdefault(name, ReassignableTopicResponse(name=name)).partitions.append(
            ReassignablePartitionResponse(
                partition_index=index,
                error_code=ErrorCode.NONE if refusal is None else error_code(refusal),
                error_message=None if refusal is None else error_message(refusal),
            )
        )
    await request.answer(AlterPartitionReassignmentsResponse(error_message=None, responses=list(topics.values())))


async def list_reassignments(request: Request, controller: ClusterController) -> None:
    message: ListPartitionReassignmentsRequest = request.message
    keys: list[PartitionKey] | None = None
    if message.topics is not None:
        keys = [
            (topic.name, index)
            async for topic in request.each(message.topics)
            async for index in request.each(topic.partition_indexes)
        ]
    try:
        found = await controller.list_reassignments(keys)
    except NotControllerError as error:
        request.reply(ListPartitionReassignmentsResponse(error_code=error.code, error_message=error_message(error)))
        return
    topics: dict[str, OngoingTopicReassignment] = {}
    async for (name, index), assignment in request.each(found.items()):
        topics.setdefault(name, OngoingTopicReassignment(name=name)).partitions.append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    await request.answer(ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values())))
