"""CreatePartitions (key 37, versions 0 to 3): add partitions to topics; the controller does it.

Version 2 is flexible, 3 allows THROTTLING_QUOTA_EXCEEDED.

Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
REASSIGNMENT_IN_PROGRESS, INVALID_REQUEST, NOT_CONTROLLER, REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED,
TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int16, int32, string


class CreatePartitionsTopicResult(Struct):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(INT32, "0+")


class CreatePartitionsTopic(Struct):
    name: str = string("0+")
    count: int = int32("0+")  # of all partitions, old ones included
    # one for each new partition; null to let the controller place replicas
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")  # REQUEST_TIMED_OUT after that
    validate_only: bool = boolean("0+")  # check, and change nothing
