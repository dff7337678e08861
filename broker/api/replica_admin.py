"""ElectLeaders (key 43), AlterPartitionReassignments (key 45) and ListPartitionReassignments (key 46)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.controller.elections import ElectionType, elect
from broker.controller.reassignments import reassign
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

Value = TypeVar("Value")


def handle_elect_leaders(request: Request) -> None:
    message: ElectLeadersRequest = request.message
    broker = request.broker
    wanted = None
    if message.topic_partitions is not None:
        wanted = [(topic.topic, index) for topic in message.topic_partitions for index in topic.partitions]
    response = ElectLeadersResponse()
    errors: Mapping[tuple[str, int], KafkaError]
    try:
        # Version 0 knows preferred leaders alone.
        kind = ElectionType.parse(message.election_type) if request.version else ElectionType.PREFERRED
    except InvalidRequestError as error:
        response.error_code = error_code(error) if request.version else ErrorCode.NONE
        errors = dict.fromkeys(wanted or (), error)
    else:
        errors = elect(broker.store.state, wanted, kind, broker.replicas.is_online)
    response.replica_election_results = [
        ReplicaElectionResult(
            topic=name,
            partition_result=[
                PartitionResult(partition_id=index, error_code=error_code(error), error_message=error_message(error))
                for index, error in rows
            ],
        )
        for name, rows in _by_topic(errors)
    ]
    request.reply(response)


def handle_alter_partition_reassignments(request: Request) -> None:
    message: AlterPartitionReassignmentsRequest = request.message
    broker = request.broker
    wanted = {(topic.name, row.partition_index): row.replicas for topic in message.topics for row in topic.partitions}
    outcomes = reassign(broker.store.state, wanted, broker.topics.brokers)
    request.reply(
        AlterPartitionReassignmentsResponse(
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    name=name,
                    partitions=[
                        ReassignablePartitionResponse(
                            partition_index=index,
                            error_code=ErrorCode.NONE if error is None else error_code(error),
                            error_message=None if error is None else error_message(error),
                        )
                        for index, error in rows
                    ],
                )
                for name, rows in _by_topic(outcomes)
            ],
        )
    )


def handle_list_partition_reassignments(request: Request) -> None:
    # A reassignment that this broker accepts is complete before it is answered.
    request.reply(ListPartitionReassignmentsResponse(error_message=None, topics=[]))


def _by_topic(rows: Mapping[tuple[str, int], Value]) -> Iterable[tuple[str, list[tuple[int, Value]]]]:
    """``(topic, [(partition, value)])``, in order."""
    for name, group in groupby(sorted(rows, key=itemgetter(0, 1)), key=itemgetter(0)):
        yield name, [(key[1], rows[key]) for key in group]


HANDLERS = {
    ElectLeadersRequest: handle_elect_leaders,
    AlterPartitionReassignmentsRequest: handle_alter_partition_reassignments,
    ListPartitionReassignmentsRequest: handle_list_partition_reassignments,
}
