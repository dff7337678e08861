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
from kafkalog.protocol.errors import InvalidTxnStateError, KafkaError, TransactionAbortableError

Answer = tuple[TopicPartition, int, Producer]
"""The subject of an answer: the partition, its leader epoch, the producer."""


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
        self._answers: dict[Answer, KafkaError | None] = {}
        """The answers of other brokers about batches to append; None for a batch that may be appended."""
        self.failures = 0

    def must_ask(self, transactional_id: str, producer: Producer, partition: Partition) -> bool:
        """Return whether a transactional batch needs the answer of another broker before it can be checked."""
        if self._verifier is None or _is_open(producer, partition) or not self._enabled():
            return False
        return not self._coordinator.is_here(transactional_id)

    @asynccontextmanager
    async def ahead(
        self, transactional_id: str, producer: Producer, partitions: Collection[Partition]
    ) -> AsyncIterator[None]:
        """Ask the coordinator about partitions for which `must_ask` is true; its answer holds in the body."""
        asked: dict[Answer, TopicPartition] = {
            (partition.key, partition.leader_epoch, producer): partition.key for partition in partitions
        }
        if not asked or self._verifier is None:
            yield
            return
        # A marker that comes meanwhile removes them.
        self._answers.update(dict.fromkeys(asked))
        try:
            unverified = await self._verifier.verify(transactional_id, producer, list(asked.values()))
            for answer, key in asked.items():
                if answer in self._answers and key in unverified:
                    self._answers[answer] = unverified[key]
            yield
        finally:
            for answer in asked:
                self._answers.pop(answer, None)

    def marked(self, topic: str, index: int, producer_id: int) -> None:
        """Make answers void: a marker has ended a transaction of the producer in a partition."""
        for answer in [each for each in self._answers if each[0] == (topic, index) and each[2].id == producer_id]:
            del self._answers[answer]

    def check(self, transactional_id: str, producer: Producer, partition: Partition, *, abortable: bool) -> None:
        """Check a transactional batch.

        Args:
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
        answer = (partition.key, partition.leader_epoch, producer)
        try:
            if answer in self._answers:
                error = self._answers[answer]
                if error is not None:
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
