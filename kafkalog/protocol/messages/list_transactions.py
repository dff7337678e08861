"""ListTransactions (key 66, versions 0 to 1): the transactional ids that this broker coordinates (KIP-664).

Version 1 filters by duration (KIP-994).

Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT64, STRING, Request, Response, Struct, array, int16, int32, int64, string


class TransactionState(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")  # such as Ongoing


class ListTransactionsResponse(Response, key=66, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array(STRING, "0+")  # names asked for that are no states
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class ListTransactionsRequest(Request, key=66, versions="0-1", flexible="0+"):
    state_filters: list[str] = array(STRING, "0+")  # empty for all
    producer_id_filters: list[int] = array(INT64, "0+")  # empty for all
    duration_filter: int = int64("1+", default=-1)  # only those running longer, milliseconds; negative for all
