"""DeleteRecords (key 21, versions 0 to 2): move the log start offset of partitions up; their leaders do it.

Version 2 is flexible.

Errors of a partition: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
POLICY_VIOLATION where the topic is not deleted by retention, REQUEST_TIMED_OUT, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")  # least log start offset of the replicas; -1 with an error
    error_code: int = int16("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")


class DeleteRecordsPartition(Struct):
    partition_index: int = int32("0+")
    offset: int = int64("0+")  # the new log start offset; -1 for the high watermark


class DeleteRecordsTopic(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")  # REQUEST_TIMED_OUT after that
