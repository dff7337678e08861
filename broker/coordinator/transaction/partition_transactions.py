"""The transactional ids of one partition of `__transaction_state`, rebuilt from its records."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Protocol

from broker.coordinator.state_log import StateBatch, read_batches
from broker.coordinator.transaction.machine import NO_PRODUCER_ID, Transaction, TransactionMachine
from broker.coordinator.transaction.records import UnknownRecordError, decode_key, decode_value, largest_producer_id
from broker.log.log import Log
from kafkalog.protocol.errors import KafkaError
from kafkalog.records.errors import RecordsError

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class Bounds(Protocol):
    """The log of an `Owner`."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...


class Owner(Protocol):
    """A partition of `__transaction_state` that is led here, such as `broker.replica.partition.Partition`."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def led_since(self) -> int: ...
    @property
    def log(self) -> Bounds: ...


class PartitionTransactions:
    """The transactional ids of one partition, with their transactions.

    Attributes:
        index: of the partition.
        epoch: the leader epoch in which they were loaded, which is the coordinator epoch of their markers.
        owner: the partition itself; another object means another leadership. None before it has one.
        led_since: the leader epoch from which on this broker leads it.
        largest_producer_id: the largest that any record names, superseded ones included.
    """

    __slots__ = ("epoch", "index", "largest_producer_id", "led_since", "machines", "owner")

    def __init__(self, index: int, epoch: int, owner: Owner | None) -> None:
        self.index = index
        self.epoch = epoch
        self.owner = owner
        self.led_since = epoch if owner is None else owner.led_since
        self.largest_producer_id = NO_PRODUCER_ID
        self.machines: dict[str, TransactionMachine] = {}

    def __iter__(self) -> Iterator[TransactionMachine]:
        return iter(self.machines.values())

    def is_of(self, owner: Owner | None) -> bool:
        """Return whether these are the transactions of `owner`, which this broker has led without a break since."""
        return owner is not None and self.owner is owner and self.led_since == owner.led_since

    def replay(self, batches: Sequence[StateBatch]) -> None:
        """Apply batches, in the order of the log; the last record of a transactional id counts.

        A record that cannot be read is skipped, with an error in the broker's log: the id keeps its earlier state.
        """
        taken: set[bytes | None] = set()
        # Begin with the last record: earlier ones of the same id are not worth parsing.
        for record in (record for batch in reversed(batches) for record in reversed(batch.records)):
            if record.key in taken:
                self._note_producer_id(record.value)
                continue
            try:
                transactional_id = decode_key(record.key)
                self._note_producer_id(record.value)
                transaction = None if record.value is None else decode_value(record.value)
            except UnknownRecordError as error:
                logger.error(
                    "__transaction_state-%d: the record at offset %d is left out: %s", self.index, record.offset, error
                )
                continue
            taken.add(record.key)
            self.put(transactional_id, transaction)

    def _note_producer_id(self, value: bytes | None) -> None:
        if value is not None:
            self.largest_producer_id = max(self.largest_producer_id, largest_producer_id(value))

    def put(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Set the stored transaction of a transactional id; None removes it."""
        if transaction is None:
            self.machines.pop(transactional_id, None)
        else:
            self.machines[transactional_id] = TransactionMachine(transactional_id, transaction)

    def decided(self) -> list[TransactionMachine]:
        """Return the decided transactions whose markers are not being written yet."""
        return [machine for machine in self if machine.current.state.is_decided and machine.pending is None]

    def timed_out(self, now_ms: int) -> list[TransactionMachine]:
        """Return the transactions that have been open for longer than their timeout."""
        return [machine for machine in self if machine.has_timed_out(now_ms)]

    def expired(self, now_ms: int, expiration_ms: int) -> list[TransactionMachine]:
        """Return the transactions that were unused for `expiration_ms` and have nothing open."""
        return [machine for machine in self if machine.has_expired(now_ms, expiration_ms)]


def largest_producer_id_in(index: int, log: Log, piece_bytes: int) -> int:
    """Return the largest producer id that a partition of `__transaction_state` names, -1 for none. It blocks.

    An unreadable rest is skipped, with an error in this broker's log.
    """
    transactions = PartitionTransactions(index, NO_EPOCH, None)
    try:
        for batches in read_batches(log, piece_bytes):
            transactions.replay(batches)
    except (KafkaError, RecordsError, OSError) as error:
        logger.error("__transaction_state-%d cannot be read for the producer ids that it names: %s", index, error)
    return transactions.largest_producer_id
