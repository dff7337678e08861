"""Tests of the transactional ids of a partition, loaded from its records."""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.state_log import StateBatch, StateRecord
from broker.coordinator.transaction.machine import Transaction, TransactionState
from broker.coordinator.transaction.partition_transactions import PartitionTransactions, largest_producer_id_in
from broker.coordinator.transaction.records import encode_key, encode_value
from kafkalog.records.batch import Record
from tests.broker.coordinator.support import Stored


def batch(first: int, *stored: tuple[str, bytes | None]) -> StateBatch:
    records = [Record(first + number, 0, encode_key(name), value) for number, (name, value) in enumerate(stored)]
    return StateBatch(first, first + len(stored) - 1, -1, -1, False, None, records)


def state(epoch: int, producer_id: int = 7) -> bytes:
    return encode_value(Transaction(producer_id, epoch, 60_000, TransactionState.EMPTY, 0))


def epochs(transactions: PartitionTransactions) -> dict[str, int]:
    return {machine.transactional_id: machine.current.producer_epoch for machine in transactions}


def test_the_last_record_of_an_id_counts_over_batches_and_pieces() -> None:
    transactions = PartitionTransactions(0, 0, None)
    transactions.replay([batch(0, ("a", state(0)), ("b", state(0)), ("a", state(1))), batch(3, ("a", state(2)))])
    assert epochs(transactions) == {"a": 2, "b": 0}
    transactions.replay([batch(4, ("b", state(1)), ("a", state(3)), ("a", None), ("c", None), ("c", state(5)))])
    assert epochs(transactions) == {"b": 1, "c": 5}


def test_the_largest_producer_id_is_that_of_all_records() -> None:
    transactions = PartitionTransactions(0, 0, None)
    assert transactions.largest_producer_id == -1
    transactions.replay([batch(0, ("a", state(0, 3)), ("b", state(0, 9)), ("b", None), ("a", state(0, 4)))])
    assert transactions.largest_producer_id == 9
    transactions.replay([batch(4, ("a", state(0, 12)), ("a", state(0, 5)))])
    assert transactions.largest_producer_id == 12


def test_an_id_keeps_the_state_before_a_record_that_cannot_be_read() -> None:
    transactions = PartitionTransactions(0, 0, None)
    unreadable = Record(9, 0, None, b"")
    transactions.replay(
        [
            batch(0, ("a", state(0)), ("a", state(1)), ("a", b"\x00\x7f")),
            StateBatch(9, 9, -1, -1, False, None, [unreadable]),
        ]
    )
    assert epochs(transactions) == {"a": 1}


def test_producer_ids_of_a_log_that_is_adopted_are_known_before_anything_is_loaded(
    stored: Callable[..., Stored],
) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    assert largest_producer_id_in(0, partition.log, 1) == -1
    for producer_id in (3, 900, 5):
        parts.append(log, 0, [StateRecord(encode_key("a"), state(0, producer_id))])
    # Piece by piece, those that were superseded with the others.
    assert largest_producer_id_in(0, partition.log, 1) == 900
    name = partition.log.dir / "00000000000000000000.log"
    data = bytearray(name.read_bytes())
    data[-1] ^= 1
    name.write_bytes(data)
    assert largest_producer_id_in(0, partition.log, 1) == 900
