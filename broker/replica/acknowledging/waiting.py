"""Waiting until an append is acknowledged: replicated, and flushed to disk if `flush.messages` demands it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from broker.replica.acknowledging.appended import Appended
from broker.replica.purgatory import DelayedOperation, Purgatory
from kafkalog.protocol.errors import ErrorCode, error_for


class DelayedAcknowledgement(DelayedOperation):
    """Call `done` once, with the final result of `Appended.outcome` or with REQUEST_TIMED_OUT.

    After any error but NOT_LEADER_OR_FOLLOWER, the records are still in the log.
    """

    __slots__ = ("_append", "_done")

    def __init__(self, append: Appended, done: Callable[[ErrorCode], None]) -> None:
        super().__init__()
        self._append = append
        self._done: Callable[[ErrorCode], None] | None = done

    def try_complete(self) -> bool:
        code = self._append.outcome()
        if code is None:
            return False
        self._tell(code)
        return True

    def expire(self) -> None:
        self._tell(ErrorCode.REQUEST_TIMED_OUT)

    def fail(self, error: Exception) -> None:
        self._tell(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _tell(self, code: ErrorCode) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(code)


def when_acknowledged(
    purgatory: Purgatory, append: Appended, done: Callable[[ErrorCode], None], timeout_s: float = math.inf
) -> None:
    """Call `done` once with the outcome of an append, possibly before this function returns."""
    waiting = DelayedAcknowledgement(append, done)
    if not waiting.try_complete():
        purgatory.watch(waiting, [append.partition.key], timeout_s)


def acknowledgement(
    purgatory: Purgatory,
    append: Appended,
    timeout_ms: int,
    as_error: Callable[[Exception], Exception] = lambda error: error,
) -> asyncio.Future[int]:
    """Return a future of an append's last offset; it may be done already.

    Args:
        as_error: converts NotLeaderOrFollowerError, KafkaStorageError,
            NotEnoughReplicasAfterAppendError, RequestTimedOutError or UnknownServerError to the future's exception.
    """
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(code: ErrorCode) -> None:
        if future.done():
            # The caller has cancelled it.
            return
        if code is ErrorCode.NONE:
            future.set_result(append.last_offset)
        else:
            future.set_exception(as_error(error_for(code)))

    when_acknowledged(purgatory, append, done, timeout_ms / 1000)
    return future
