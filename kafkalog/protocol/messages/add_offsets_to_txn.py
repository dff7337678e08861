"""AddOffsetsToTxn (key 25, versions 0 to 4): a transaction is about to commit offsets of a group.

The coordinator adds the group's partition of `__consumer_offsets` to the transaction. Version 2 allows
PRODUCER_FENCED, 3 is flexible, 4 allows TRANSACTION_ABORTABLE.

Errors: INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, INVALID_TXN_STATE,
CONCURRENT_TRANSACTIONS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")  # INVALID_PRODUCER_ID_MAPPING
    producer_epoch: int = int16("0+")  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
    group_id: str = string("0+")
