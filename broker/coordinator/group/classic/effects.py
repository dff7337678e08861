"""The effects of a classic group as data: answers to waiting requests, and records to be stored."""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.group.classic.requests import JoinResult, SyncResult
from broker.coordinator.group.membership import Answer, Moment, Store, Token
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.errors import ErrorCode

_STORE_ERRORS: dict[ErrorCode | None, ErrorCode | None] = {
    # The member retries, and the record may have been replicated by then.
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error that members get in place of the store's error. Other errors of the store reach them unchanged."""


class Effects:
    """Collects the effects of one group.

    Attributes:
        out: effects in order; the caller carries them out and empties the list.
    """

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out: list[Answer | Store] = []

    def answer(self, token: Token, result: JoinResult | SyncResult) -> None:
        """Answer the request that waits with `token`."""
        self.out.append(Answer(token, result))

    def store(self, record: StateRecord, done: Callable[[ErrorCode | None, Moment], None]) -> None:
        """Store the group; `done` gets the error for the members, or None when it is stored."""
        self.out.append(Store([record], lambda error, now: done(_STORE_ERRORS.get(error, error), now)))
