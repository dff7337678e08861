"""DescribeProducers (key 61, version 0): the producers that partitions know of (KIP-664).

Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION,
TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, int16, int32, int64, string


class ProducerState(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)  # of the last batch, milliseconds
    coordinator_epoch: int = int32("0+")  # of the last marker; -1 where there is none
    current_txn_start_offset: int = int64("0+", default=-1)  # -1 outside of a transaction


class PartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, "0+")


class TopicResponse(Struct):
    name: str = string("0+")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+")


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    topics: list[TopicResponse] = array(TopicResponse, "0+")


class TopicRequest(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array(INT32, "0+")


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest, "0+")
