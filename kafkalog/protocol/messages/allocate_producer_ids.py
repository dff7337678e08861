"""AllocateProducerIds (key 67, version 0): a broker asks the controller for a block of producer ids (KIP-730).

Flexible.

Errors: NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, int16, int32, int64


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")  # the first id of the block
    producer_id_len: int = int32("0+")


class AllocateProducerIdsRequest(Request, key=67, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
