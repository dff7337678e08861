"""What an append with acks=all waits for: the high watermark, and the device where ``flush.messages`` asks for it."""

from __future__ import annotations

import asyncio

from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from broker.replica.purgatory import DelayedOperation
from kafkalog.protocol.errors import KafkaStorageError, NotLeaderOrFollowerError, RequestTimedOutError


class Acknowledgement(DelayedOperation):
    """Ends with ``future``: the offset ``last``, or NotLeaderOrFollowerError, KafkaStorageError, RequestTimedOutError.

    After the last of these the records are in the log all the same.
    """

    __slots__ = ("_future", "_last", "_partition", "_replicas", "_synced")

    def __init__(
        self,
        replicas: ReplicaManager,
        partition: Partition,
        last: int,
        future: asyncio.Future[int],
        *,
        synced: bool,
    ) -> None:
        super().__init__()
        self._replicas = replicas
        self._partition = partition
        self._last = last
        self._future = future
        self._synced = synced

    def error(self, error: Exception) -> Exception:
        """What ``future`` is given for ``error``; for subclasses to say it in words of their own."""
        return error

    def try_complete(self) -> bool:
        partition = self._partition
        if self._future.done():
            return True
        if self._replicas.get(*partition.key) is not partition or not partition.is_leader:
            self._future.set_exception(self.error(NotLeaderOrFollowerError()))
            return True
        if self._synced and partition.log.recovery_point <= self._last:
            if partition.log.offline is None:
                return False
            self._future.set_exception(self.error(KafkaStorageError()))
            return True
        if partition.high_watermark <= self._last:
            return False
        self._future.set_result(self._last)
        return True

    def expire(self) -> None:
        if not self._future.done():
            self._future.set_exception(self.error(RequestTimedOutError()))


def acknowledge(replicas: ReplicaManager, waiting: Acknowledgement, partition: Partition, timeout_ms: int) -> None:
    """Let ``waiting`` wait for what has just been appended to ``partition``, unless it has come about already."""
    if not waiting.try_complete():
        replicas.produce_purgatory.watch(waiting, [partition.key], timeout_ms / 1000)
