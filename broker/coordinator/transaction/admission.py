"""Checks that a transaction covers a transactional append (KIP-890, part 1).

A partition accepts the batch if the producer's transaction is open there: the marker has not come yet. The first batch
of a transaction in a partition is checked with the coordinator, which is in this process, in the same turn of the loop
as the append: no marker can come in between.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer
from broker.replica.partition import Partition
from kafkalog.protocol.errors import InvalidTxnStateError, TransactionAbortableError


class Admission:
    """See the module.

    Args:
        enabled: `transaction.partition.verification.enable`.

    Attributes:
        failures: batches that were refused.
    """

    def __init__(self, coordinator: TransactionCoordinator, enabled: Callable[[], bool]) -> None:
        self._coordinator = coordinator
        self._enabled = enabled
        self.failures = 0

    def check(self, transactional_id: str, producer: Producer, partition: Partition, *, abortable: bool) -> None:
        """Check a transactional batch.

        Args:
            abortable: the client knows TRANSACTION_ABORTABLE (Produce 11, TxnOffsetCommit 4); others get
                INVALID_TXN_STATE.

        Raises:
            TransactionAbortableError, InvalidTxnStateError: the transaction does not cover the partition.
            InvalidProducerIdMappingError, InvalidProducerEpochError: it is another producer's.
            ConcurrentTransactionsError: it is being ended.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: that is not known now.
        """
        entry = partition.log.producers.producers.get(producer.id)
        if (entry is not None and entry.transaction_first_offset >= 0) or not self._enabled():
            return
        try:
            self._coordinator.verify(transactional_id, producer, partition.key)
        except TransactionAbortableError as error:
            self.failures += 1
            if abortable:
                raise
            raise InvalidTxnStateError("Partition was not added to the transaction") from error
        except Exception:
            self.failures += 1
            raise
