"""WriteTxnMarkers (key 27, versions 0 to 1): end transactions in the partitions that they wrote to.

A transaction coordinator sends it to leaders. Version 1 is flexible.

Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH,
TRANSACTION_COORDINATOR_FENCED, UNSUPPORTED_FOR_MESSAGE_FORMAT, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int16, int32, int64, string


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WritableTxnMarkerTopicResult(Struct):
    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+")


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Response, key=27, versions="0-1", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")


class WritableTxnMarkerTopic(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array(INT32, "0+")


class WritableTxnMarker(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")  # INVALID_PRODUCER_EPOCH below the partition's
    transaction_result: bool = boolean("0+")  # True: committed
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    # leader epoch of the coordinator's partition of __transaction_state; TRANSACTION_COORDINATOR_FENCED
    coordinator_epoch: int = int32("0+")


class WriteTxnMarkersRequest(Request, key=27, versions="0-1", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")
