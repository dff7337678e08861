"""OffsetForLeaderEpoch (key 23, versions 0 to 4): where a leader epoch ends in the log (KIP-101, KIP-279).

Followers and consumers truncate by it. Version 1 tells the epoch, 2 checks the reader's, 3 names the
replica, 4 is flexible.

Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class EpochEndOffset(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+")
    # the greatest epoch not above the one asked for
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)  # first offset after that epoch; -1 where unknown


class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Response, key=23, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("2+", ignorable=True)  # how long the request was held back for a quota
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+")


class OffsetForLeaderPartition(Struct):
    partition: int = int32("0+")
    # what the client believes; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32("0+")  # whose end is asked for


class OffsetForLeaderTopic(Struct):
    topic: str = string("0+")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Request, key=23, versions="0-4", flexible="4+"):
    replica_id: int = int32("3+", default=-2, ignorable=True)  # -1 for a consumer, -2 for a debugging one
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")
