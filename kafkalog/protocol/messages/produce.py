"""Produce (key 0, versions 0 to 11): append record batches, one a partition.

No response follows acks=0. Version 3 brings transactions and record batch version 2, 7 allows zstd, 8 tells
which records a batch fell by, 9 is flexible, 10 names the new leader (KIP-951), 11 allows
TRANSACTION_ABORTABLE.

Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, CORRUPT_MESSAGE, INVALID_RECORD,
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE,
INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, OUT_OF_ORDER_SEQUENCE_NUMBER,
DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID, INVALID_TXN_STATE,
KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT, TOPIC_AUTHORIZATION_FAILED.

A mirror that keeps offsets sets `expected_end_offset`, in a topic with `kafkalog.mirror.source`, if ApiVersions names
the feature `kafkalog.stated.offsets`. Then records are one or more batches, which state their offsets.
OFFSET_OUT_OF_RANGE: the log ends elsewhere, and nothing was appended.
POLICY_VIOLATION: the topic is not such a mirror; or it is one, and the records come from a producer.
"""

from __future__ import annotations

from kafkalog.protocol.schema import (
    FIRST_OWN_TAG,
    Records,
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    records_,
    string,
    struct,
)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)  # -1 where unknown


class PartitionProduceResponse(Struct):
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")  # offset of the first record, or -1
    # -1 unless the topic is of LogAppendTime
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    # which records a refused batch fell by (KIP-467)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    # with NOT_LEADER_OR_FOLLOWER: where to go (KIP-951)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)  # null where the broker has none


class ProduceResponse(Response, key=0, versions="0-11", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    # addresses of the leaders named above
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


class PartitionProduceData(Struct):
    index: int = int32("0+")
    # one record batch of version 2 from request version 3 on
    records: Records = records_("0+", nullable="0+")
    # not in Apache Kafka: where the log must end so that the records, which keep their offsets, are appended; else -1
    expected_end_offset: int = int64("9+", tag=FIRST_OWN_TAG, default=-1)


class TopicProduceData(Struct):
    name: str = string("0+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


class ProduceRequest(Request, key=0, versions="0-11", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+", default=None)  # null outside of transactions
    acks: int = int16("0+")  # 0: no response; 1: the leader has it; -1: all in-sync replicas have it
    timeout_ms: int = int32("0+")  # how long acks=-1 waits; REQUEST_TIMED_OUT
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")
