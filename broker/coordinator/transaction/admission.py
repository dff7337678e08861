"""Checks that a transaction covers a transactional append (KIP-890, part 1).

A partition accepts the batch if the producer's transaction is open there: the marker has not come yet. The first batch
of a transaction in a partition is checked with the coordinator. If that is in this process, the check is made in the
same turn of the loop as the append, so that no marker can come in between. Another broker is asked ahead (`ahead`). A
marker that comes between its answer and the append makes the answer void, as Kafka's `VerificationGuard` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Protocol

from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer, TopicPartition
from broker.coordinator.transaction.verification import Unverified
from broker.replica.partition import Partition
from kafkalog.protocol.errors import InvalidTxnStateError, TransactionAbortableError


class Answered:
    """The answer of the coordinator, another broker, about the batches of one request.

    Each request has its own. A marker ends a transaction, so the answer to a later request says nothing about a batch
    that was sent before the marker.

    Args:
        producer: the producer of the batches.
        partitions: where they are to be appended.
    """

    def __init__(self, producer: Producer, partitions: Collection[Partition]) -> None:
        self._producer = producer
        self._epochs = {partition.key: partition.leader_epoch for partition in partitions}
        """The partitions whose answer is not void, with the leader epoch in which it was asked for."""
        self.unverified: Unverified = {}

    def marked(self, key: TopicPartition, producer_id: int) -> None:
        """Make the answer about a partition void: a marker has ended a transaction of the producer there."""
        if producer_id == self._producer.id:
            self._epochs.pop(key, None)

    def end(self) -> None:
        """Make all answers void, because this broker does not learn of markers any more."""
        self._epochs.clear()

    def holds_for(self, producer: Producer, partition: Partition) -> bool:
        """Return whether there is an answer about a batch that is appended now."""
        return producer == self._producer and self._epochs.get(partition.key) == partition.leader_epoch


class AsksOthers(Protocol):
    """Asks the coordinator of a transaction that is another broker; see `verification.Verifier`."""

    async def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Unverified: ...


class Admission:
    """Checks the transactional batches of clients.

    Args:
        enabled: `transaction.partition.verification.enable`.
        verifier: asks other brokers; None for a lone broker.

    Attributes:
        failures: batches that were refused.
    """

    def __init__(
        self, coordinator: TransactionCoordinator, enabled: Callable[[], bool], verifier: AsksOthers | None = None
    ) -> None:
        self._coordinator = coordinator
        self._enabled = enabled
        self._verifier = verifier
        self._asked: set[Answered] = set()
        """For each request that asks other brokers, or appends after their answer."""
        self.failures = 0

    def must_ask(self, transactional_id: str, producer: Producer, partition: Partition) -> bool:
        """Return whether a transactional batch needs the answer of another broker before it can be checked."""
        if self._verifier is None or _is_open(producer, partition) or not self._enabled():
            return False
        return not self._coordinator.is_here(transactional_id)

    @asynccontextmanager
    async def ahead(
        self, transactional_id: str, producer: Producer, partitions: Collection[Partition]
    ) -> AsyncIterator[Answered]:
        """Ask the coordinator about partitions for which `must_ask` is true. `check` takes its answer in the body."""
        assert self._verifier is not None
        answered = Answered(producer, partitions)
        # A marker that comes from now on makes it void.
        self._asked.add(answered)
        try:
            keys = [partition.key for partition in partitions]
            answered.unverified = await self._verifier.verify(transactional_id, producer, keys)
            yield answered
        finally:
            self._asked.discard(answered)
            answered.end()

    def marked(self, topic: str, index: int, producer_id: int) -> None:
        """Make answers void: a marker has ended a transaction of the producer in a partition."""
        for answered in self._asked:
            answered.marked((topic, index), producer_id)

    def check(
        self,
        transactional_id: str,
        producer: Producer,
        partition: Partition,
        answered: Answered | None = None,
        *,
        abortable: bool,
    ) -> None:
        """Check a transactional batch.

        Args:
            answered: what another broker has answered to this request, if it was asked.
            abortable: the client knows TRANSACTION_ABORTABLE (Produce 11, TxnOffsetCommit 4); others get
                INVALID_TXN_STATE.

        Raises:
            TransactionAbortableError, InvalidTxnStateError: the transaction does not cover the partition.
            InvalidProducerIdMappingError, InvalidProducerEpochError: it is another producer's.
            ConcurrentTransactionsError: it is being ended.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see
                `TransactionCoordinator.verify`.
        """
        if _is_open(producer, partition) or not self._enabled():
            return
        try:
            if answered is not None and answered.holds_for(producer, partition):
                if (error := answered.unverified.get(partition.key)) is not None:
                    raise error
            else:
                self._coordinator.verify(transactional_id, producer, partition.key)
        except TransactionAbortableError as error:
            self.failures += 1
            if abortable:
                raise
            raise InvalidTxnStateError("Partition was not added to the transaction") from error
        except Exception:
            self.failures += 1
            raise


def _is_open(producer: Producer, partition: Partition) -> bool:
    """Return whether a transaction of the producer is open in the partition."""
    entry = partition.log.producers.producers.get(producer.id)
    return entry is not None and entry.transaction_first_offset >= 0
