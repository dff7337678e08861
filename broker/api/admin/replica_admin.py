"""ElectLeaders (key 43), AlterPartitionReassignments (key 45) and ListPartitionReassignments (key 46)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.api.authorization import needs_cluster
from broker.api.cluster import replica_admin as cluster
from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.controller.decisions.elections import ElectionType, TopicPartition, elect, judge
from broker.controller.decisions.reassignments import judge_reassignment
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import ErrorCode, InvalidRequestError, KafkaError
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
)


async def handle_elect_leaders(request: Request) -> None:
    if not request.allows_cluster(AclOperation.ALTER):
        await _refuse_elections(request)
        return
    if request.broker.controller is not None:
        await cluster.elect_leaders(request, request.broker.controller)
        return
    message: ElectLeadersRequest = request.message
    broker = request.broker
    response = ElectLeadersResponse()
    refusal: KafkaError | None = None
    kind = ElectionType.PREFERRED
    try:
        # Version 0 supports preferred leaders only.
        kind = ElectionType.parse(message.election_type) if request.version else ElectionType.PREFERRED
    except InvalidRequestError as error:
        response.error_code = error_code(error) if request.version else ErrorCode.NONE
        refusal = error
    errors: dict[TopicPartition, KafkaError] = {}
    if message.topic_partitions is None:
        if refusal is None:
            errors = elect(broker.metadata.image, kind, broker.replicas.is_online)
    else:
        async for topic in request.each(message.topic_partitions):
            async for index in request.each(topic.partitions):
                errors[topic.topic, index] = refusal or judge(
                    broker.metadata.image, (topic.topic, index), kind, broker.replicas.is_online
                )
    topics: dict[str, ReplicaElectionResult] = {}
    async for (name, index), outcome in request.each(errors.items()):
        if name not in topics:
            topics[name] = ReplicaElectionResult(topic=name)
        topics[name].partition_result.append(
            PartitionResult(partition_id=index, error_code=error_code(outcome), error_message=error_message(outcome))
        )
    response.replica_election_results = list(topics.values())
    await request.answer(response, errors)


async def _refuse_elections(request: Request) -> None:
    """Answer CLUSTER_AUTHORIZATION_FAILED for each partition that is named, which clients look at."""
    message: ElectLeadersRequest = request.message
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = []
    async for topic in request.each(message.topic_partitions or ()):
        rows = [
            PartitionResult(partition_id=index, error_code=code, error_message=code.message)
            async for index in request.each(topic.partitions)
        ]
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=rows))
    # Version 0 has errors of partitions only.
    of_all = code if request.version else ErrorCode.NONE
    await request.answer(ElectLeadersResponse(error_code=of_all, replica_election_results=results))


@needs_cluster(AclOperation.ALTER)
async def handle_alter_partition_reassignments(request: Request) -> None:
    if request.broker.controller is not None:
        await cluster.alter_reassignments(request, request.broker.controller)
        return
    message: AlterPartitionReassignmentsRequest = request.message
    broker = request.broker
    wanted: dict[TopicPartition, Sequence[int] | None] = {}
    async for topic in request.each(message.topics):
        async for row in request.each(topic.partitions):
            wanted[topic.name, row.partition_index] = row.replicas
    topics: dict[str, ReassignableTopicResponse] = {}
    async for (name, index), replicas in request.each(wanted.items()):
        refusal = judge_reassignment(broker.metadata.image, (name, index), replicas, broker.metadata.alive_ids())
        if name not in topics:
            topics[name] = ReassignableTopicResponse(name=name)
        topics[name].partitions.append(
            ReassignablePartitionResponse(
                partition_index=index,
                error_code=ErrorCode.NONE if refusal is None else error_code(refusal),
                error_message=None if refusal is None else error_message(refusal),
            )
        )
    response = AlterPartitionReassignmentsResponse(error_message=None, responses=list(topics.values()))
    await request.answer(response, wanted)


@needs_cluster(AclOperation.DESCRIBE)
async def handle_list_partition_reassignments(request: Request) -> None:
    if request.broker.controller is not None:
        await cluster.list_reassignments(request, request.broker.controller)
        return
    # A reassignment that a lone broker accepts is complete before the response is sent.
    request.reply(ListPartitionReassignmentsResponse(error_message=None, topics=[]))


HANDLERS = {
    ElectLeadersRequest: handle_elect_leaders,
    AlterPartitionReassignmentsRequest: handle_alter_partition_reassignments,
    ListPartitionReassignmentsRequest: handle_list_partition_reassignments,
}
