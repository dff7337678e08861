"""ListOffsets (key 2, versions 0 to 9): the offset that belongs to a timestamp, or the earliest or latest.

Version 0 answers with several offsets of segments, 1 with the one offset and its timestamp, 2 knows
isolation levels, 4 leader epochs, 6 is flexible, 7 finds the greatest timestamp (-3), 8 the earliest local
offset (-4), 9 the latest tiered one (-5).

Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, UNSUPPORTED_FOR_MESSAGE_FORMAT, INVALID_REQUEST for a partition
named twice, KAFKA_STORAGE_ERROR, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT64, Request, Response, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    old_style_offsets: list[int] = array(INT64, "0")  # segments' base offsets, latest first
    timestamp: int = int64("1+", default=-1)  # of the record found; -1 where none
    offset: int = int64("1+", default=-1)  # -1 where no record is that late
    leader_epoch: int = int32("4+", default=-1)  # -1 where unknown


class ListOffsetsTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Response, key=2, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)  # how long the request was held back for a quota
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")


class ListOffsetsPartition(Struct):
    partition_index: int = int32("0+")
    # what the client believes; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    # ms, or -1 latest, -2 earliest, -3 of the greatest timestamp, -4 earliest local, -5 latest tiered
    timestamp: int = int64("0+")
    max_num_offsets: int = int32("0", default=1)  # how many old_style_offsets


class ListOffsetsTopic(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Request, key=2, versions="0-9", flexible="6+"):
    replica_id: int = int32("0+")  # a follower, or -1 for a consumer
    isolation_level: int = int8("2+")  # 0 read_uncommitted, 1 read_committed: up to the last stable offset
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
