"""Waiting until an append is acknowledged: replicated, and on the device where ``flush.messages`` asks for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from broker.replica.partition import Appended
from broker.replica.purgatory import DelayedOperation, Purgatory
from kafkalog.protocol.errors import ErrorCode, error_for


class DelayedAcknowledgement(DelayedOperation):
    """Calls ``done`` once: with what `Partition.acknowledged` says in the end, or REQUEST_TIMED_OUT.

    After any error but NOT_LEADER_OR_FOLLOWER the records are in the log all the same.
    """

    __slots__ = ("_append", "_done")

    def __init__(self, append: Appended, done: Callable[[ErrorCode], None]) -> None:
        super().__init__()
        self._append = append
        self._done: Callable[[ErrorCode], None] | None = done

    def try_complete(self) -> bool:
        code = self._append.partition.acknowledged(self._append)
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
    """Call ``done`` once with the outcome of an append, which may be now."""
    waiting = DelayedAcknowledgement(append, done)
    if not waiting.try_complete():
        purgatory.watch(waiting, [append.partition.key], timeout_s)


def acknowledgement(
    purgatory: Purgatory,
    append: Appended,
    timeout_ms: int,
    as_error: Callable[[Exception], Exception] = lambda error: error,
) -> asyncio.Future[int]:
    """A future, which may be done already, of the last offset of an append.

    Args:
        as_error: makes the future's exception of NotLeaderOrFollowerError, KafkaStorageError,
            NotEnoughReplicasAfterAppendError, RequestTimedOutError or UnknownServerError.
    """
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(code: ErrorCode) -> None:
        if future.done():
            # Nobody waits for it any more.
            return
        if code is ErrorCode.NONE:
            future.set_result(append.last_offset)
        else:
            future.set_exception(as_error(error_for(code)))

    when_acknowledged(purgatory, append, done, timeout_ms / 1000)
    return future
