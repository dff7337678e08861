"""DescribeTransactions (key 65, version 0): what the coordinator knows of transactional ids (KIP-664).

Errors of a transactional id: TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, STRING, Request, Response, Struct, array, int16, int32, int64, string


class TopicData(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class TransactionState(Struct):
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")  # such as Ongoing
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")  # -1 where none has begun
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")  # while it ends, those that lack their marker


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = array(STRING, "0+")  # none are described where it is empty
