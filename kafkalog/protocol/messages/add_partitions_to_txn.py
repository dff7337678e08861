"""AddPartitionsToTxn (key 24, versions 0 to 5): partitions that a transaction is about to write to.

Version 2 allows PRODUCER_FENCED, 3 is flexible and the last that clients send, 4 takes many transactions and
can verify instead of add (brokers; KIP-890), 5 allows TRANSACTION_ABORTABLE.

Errors of a partition: INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, INVALID_TXN_STATE,
CONCURRENT_TRANSACTIONS, UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED where another partition is refused,
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, TOPIC_AUTHORIZATION_FAILED,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED. Of the request: CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult, "0+")


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")


class AddPartitionsToTxnTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")  # INVALID_PRODUCER_ID_MAPPING
    producer_epoch: int = int16("4+")  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
    verify_only: bool = boolean("4+")  # ask whether they are in the transaction, add none
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")  # INVALID_PRODUCER_ID_MAPPING
    v3_and_below_producer_epoch: int = int16("0-3")  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")
