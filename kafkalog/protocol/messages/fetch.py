"""Fetch (key 1, versions 0 to 17): read record batches from offsets on, for consumers and followers.

Version 3 limits the whole response, 4 brings read_committed and record batch version 2, 5 the log start
offset, 7 fetch sessions (KIP-227), 9 leader epochs, 11 reading from a follower, 12 is flexible and tells of
divergence, 13 names topics by id, 15 moves the replica id into a tagged structure, 16 names the new leader
(KIP-951), 17 the follower's directory.

Errors of a partition: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
INCONSISTENT_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
OFFSET_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR,
OFFSET_MOVED_TO_TIERED_STORAGE, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import (
    INT32,
    Records,
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    records_,
    string,
    struct,
    uuid,
)


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)  # first offset after that epoch; -1 where unknown


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)  # -1 where unknown


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")  # the producer's records from here to its next marker are aborted


class PartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)  # all before it is committed or aborted
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    # last common epoch and its end: truncate there, fetch again
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0)
    # with NOT_LEADER_OR_FOLLOWER: where to go (KIP-951)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)  # of KRaft metadata alone
    # null for read_uncommitted
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)  # -1 for the leader itself
    records: Records = records_("0+", nullable="0+")  # whole batches, and perhaps the beginning of one more


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)  # zero where the topic goes by its name
    partitions: list[PartitionData] = array(PartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)  # null where the broker has none


class FetchResponse(Response, key=1, versions="0-17", flexible="12+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    # addresses of the leaders named above
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)  # a follower, or -1 for a consumer
    replica_epoch: int = int64("15+", default=-1)  # the broker epoch of the follower


class FetchPartition(Struct):
    partition: int = int32("0+")
    # what the client believes; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    # lets the leader tell a follower where they diverge; -1 for none
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)  # the follower's own
    partition_max_bytes: int = int32("0+")  # the first batch may exceed it
    replica_directory_id: UUID = uuid("17+", tag=0, ignorable=True)


class FetchTopic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)  # zero where the topic goes by its name
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    topic: str = string("7-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)  # zero where the topic goes by its name
    partitions: list[int] = array(INT32, "7+")


class FetchRequest(Request, key=1, versions="0-17", flexible="12+"):
    # INCONSISTENT_CLUSTER_ID
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("0-14", default=-1)  # a follower, or -1 for a consumer
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")  # what to wait for, at most max_wait_ms
    # of the whole response; the first batch may exceed it
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    # 0 read_uncommitted, 1 read_committed: up to the last stable offset
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)  # 0 for none, or to ask for one
    session_epoch: int = int32("7+", default=-1, ignorable=True)  # -1 no session, 0 a new one, then 1, 2, …
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    # what the session shall no longer fetch
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)  # to read from a replica nearby (KIP-392)
