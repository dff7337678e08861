"""ListPartitionReassignments (key 46, version 0): partitions that are being given other replicas (KIP-455).

Flexible. Errors of the whole: NOT_CONTROLLER, REQUEST_TIMED_OUT, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, int16, int32, string


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32("0+")
    replicas: list[int] = array(INT32, "0+")  # brokers that hold it now, those to come included
    adding_replicas: list[int] = array(INT32, "0+")
    removing_replicas: list[int] = array(INT32, "0+")


class OngoingTopicReassignment(Struct):
    name: str = string("0+")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")


class ListPartitionReassignmentsTopics(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array(INT32, "0+")


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    timeout_ms: int = int32("0+", default=60_000)  # REQUEST_TIMED_OUT after that
    # null for all
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )
