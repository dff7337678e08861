"""InitProducerId (key 22, versions 0 to 5): a producer id and epoch for an idempotent or transactional producer.

Version 2 is flexible, 3 can raise the epoch of an id at hand (KIP-360), 4 allows PRODUCER_FENCED, 5
TRANSACTION_ABORTABLE.

Errors: INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH,
INVALID_PRODUCER_ID_MAPPING, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
CLUSTER_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, int16, int32, int64, string


class InitProducerIdResponse(Response, key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32("0+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")


class InitProducerIdRequest(Request, key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string("0+", nullable="0+")  # null for a producer that is idempotent alone
    transaction_timeout_ms: int = int32("0+")  # INVALID_TRANSACTION_TIMEOUT
    producer_id: int = int64("3+", default=-1)  # the present one, to have its epoch raised (KIP-360)
    producer_epoch: int = int16("3+", default=-1)  # PRODUCER_FENCED unless the present one
