"""A Produce request that waits until its batches are acknowledged."""

from __future__ import annotations

from collections.abc import Callable

from broker.api.context import Request
from broker.api.current_leaders import CurrentLeaders
from broker.replica.acknowledging.appended import Appended
from broker.replica.purgatory import DelayedOperation
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.produce import NodeEndpoint, PartitionProduceResponse


class Pending:
    """An appended batch that is not acknowledged yet, and its entry in the response."""

    __slots__ = ("_appended", "_leaders", "result")

    def __init__(
        self, appended: Appended, result: PartitionProduceResponse, leaders: CurrentLeaders[NodeEndpoint]
    ) -> None:
        self._appended = appended
        self._leaders = leaders
        self.result = result

    @property
    def key(self) -> tuple[str, int]:
        return self._appended.partition.key

    def settle(self) -> bool:
        """Return whether the batch is acknowledged, or has failed, by now."""
        code = self._appended.outcome()
        if code is None:
            return False
        if code is not ErrorCode.NONE:
            self.fail(code)
        return True

    def fail(self, code: ErrorCode) -> None:
        self.result.error_code = code
        self.result.base_offset = -1
        self._leaders.name(code, *self.key, self.result.current_leader)


class DelayedProduce(DelayedOperation):
    """A produce that waits for its high watermarks (acks=all) or for an fsync (`flush.messages`).

    Args:
        request: the produce.
        waiting: its batches that are not acknowledged yet.
        respond: called once all of them are, or have failed.
        on_cancelled: called if the client leaves before that.
    """

    __slots__ = ("_on_cancelled", "_request", "_respond", "_waiting")

    def __init__(
        self,
        request: Request,
        waiting: list[Pending],
        respond: Callable[[], None],
        on_cancelled: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._request = request
        self._respond = respond
        self._waiting = waiting
        self._on_cancelled = on_cancelled

    def try_complete(self) -> bool:
        self._waiting = [pending for pending in self._waiting if not pending.settle()]
        if self._waiting:
            return False
        self._respond()
        return True

    def expire(self) -> None:
        for pending in self._waiting:
            pending.fail(ErrorCode.REQUEST_TIMED_OUT)
        self._respond()

    def fail(self, error: Exception) -> None:
        self._request.drop()

    def cancel(self) -> None:
        super().cancel()
        if self._on_cancelled is not None:
            self._on_cancelled()
