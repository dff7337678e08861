"""TxnOffsetCommit (key 28, versions 0 to 4): offsets of a group that hold once a transaction commits.

Version 2 names the leader epoch of the last record, 3 is flexible and names the member (KIP-447), 4 allows
TRANSACTION_ABORTABLE.

Errors of a partition: as OffsetCommit's, and INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
INVALID_PRODUCER_ID_MAPPING, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")


class TxnOffsetCommitResponse(Response, key=28, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    # of the last record read; -1 where unknown
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string("0+", nullable="0+")  # free text; OFFSET_METADATA_TOO_LARGE


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Request, key=28, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")  # INVALID_PRODUCER_EPOCH
    generation_id: int = int32("3+", default=-1)  # -1 outside of a group; ILLEGAL_GENERATION
    member_id: str = string("3+", default="")
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")
