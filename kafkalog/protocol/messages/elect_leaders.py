"""ElectLeaders (key 43, versions 0 to 2): have the controller elect leaders of partitions (KIP-183, KIP-460).

Version 1 has kinds of elections (before it they were preferred ones) and an error for all, 2 is flexible.

Errors of a partition: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION while the topic is being deleted, REQUEST_TIMED_OUT,
NOT_CONTROLLER.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, int8, int16, int32, string


class PartitionResult(Struct):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string("0+")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+")


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("1+")
    # of all partitions: those that needed no election are left out
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")


class TopicPartitions(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")  # 0: the preferred leader; 1: unclean, any live replica
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")  # null for all
    timeout_ms: int = int32("0+", default=60_000)  # REQUEST_TIMED_OUT after that
