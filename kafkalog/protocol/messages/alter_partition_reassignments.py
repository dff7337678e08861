"""AlterPartitionReassignments (key 45, version 0): give partitions other replicas, or cancel that (KIP-455).

Flexible.

Errors of a partition: INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS where there is nothing to cancel,
UNKNOWN_TOPIC_OR_PARTITION; of the whole: NOT_CONTROLLER, REQUEST_TIMED_OUT, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, int16, int32, string


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")


class ReassignablePartition(Struct):
    partition_index: int = int32("0+")
    # brokers that shall hold it, the preferred leader first; null cancels a reassignment under way
    replicas: list[int] | None = array(INT32, "0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = string("0+")
    partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+")


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0", flexible="0+"):
    timeout_ms: int = int32("0+", default=60_000)  # REQUEST_TIMED_OUT after that
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+")
