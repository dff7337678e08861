"""OffsetCommit (key 8, versions 0 to 9): store how far a group has read.

Versions 2 to 4 name a retention, 6 the leader epoch of the last record, 7 static members, 8 is flexible, 9
takes the member epoch of the consumer protocol of KIP-848.

Errors of a partition: OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE, UNKNOWN_TOPIC_OR_PARTITION,
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH,
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID,
GROUP_ID_NOT_FOUND, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetCommitResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")


class OffsetCommitResponse(Response, key=8, versions="0-9", flexible="8+"):
    throttle_time_ms: int = int32("3+", ignorable=True)  # how long the request was held back for a quota
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    # of the last record read; -1 where unknown
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)  # -1 for the broker's time
    committed_metadata: str | None = string("0+", nullable="0+")  # free text; OFFSET_METADATA_TOO_LARGE


class OffsetCommitRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")


class OffsetCommitRequest(Request, key=8, versions="0-9", flexible="8+"):
    group_id: str = string("0+")
    # -1 outside of a group; ILLEGAL_GENERATION, STALE_MEMBER_EPOCH
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    # -1 for the broker's offsets.retention.minutes
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")
