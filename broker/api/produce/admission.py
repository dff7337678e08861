"""Checks that transactions cover the partitions of a Produce request's batches (KIP-890).

Only the coordinator of a transaction knows its partitions, and it may be another broker.
"""

from __future__ import annotations

from broker.api.context import Request
from broker.coordinator.transaction.service import Verified
from broker.replica.partition import Partition
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    TransactionalIdAuthorizationFailedError,
)
from kafkalog.protocol.messages.produce import PartitionProduceData
from kafkalog.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from kafkalog.records.errors import RecordsError
from kafkalog.records.peek import RecordsView

ABORTABLE_SINCE = 11
"""Producers that know TRANSACTION_ABORTABLE (KIP-890)."""
_NOT_KNOWN = (
    ConcurrentTransactionsError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError,
)  # fmt: skip

Unverified = tuple[int, int, Partition]
"""Producer id, producer epoch, and the partition of a batch."""


def unverified_of(request: Request, topic: str, data: PartitionProduceData) -> Unverified | None:
    """Return what another broker has to be asked about a batch; None if nothing."""
    broker, records = request.broker, data.records
    partition = broker.replicas.get(topic, data.index)
    if partition is None or records is None or len(records) < HEADER_SIZE:
        return None
    view = RecordsView(records)
    if view.magic != MAGIC or not view.is_transactional:
        return None
    try:
        header = read_header(records)
    except RecordsError:
        # It is refused when it is appended.
        return None
    producer = header.producer_id, header.producer_epoch
    needed = broker.transactions.must_ask(request.message.transactional_id, *producer, partition)
    return (*producer, partition) if needed else None


def admit(request: Request, partition: Partition, header: BatchHeader, verified: Verified | None) -> bool:
    """Return whether the transaction of a transactional batch covers the partition.

    Raises:
        TransactionalIdAuthorizationFailedError: the request names no transactional id.
        NotEnoughReplicasError: the answer is not known now; every producer retries after this error.
        KafkaError: it does not; see `Transactions.admit`.
    """
    transactional_id = request.message.transactional_id
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailedError
    if header.producer_id < 0:
        return False
    try:
        request.broker.transactions.admit(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition,
            verified,
            abortable=request.version >= ABORTABLE_SINCE,
        )
    except _NOT_KNOWN as error:
        partition.log.producers.note_unverified(
            header.producer_id, header.producer_epoch, header.base_sequence, request.broker.now_ms()
        )
        raise NotEnoughReplicasError(
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.code.name}"
        ) from error
    return True
