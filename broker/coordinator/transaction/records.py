"""The records of `__transaction_state`: one for each transactional id, compacted.

The key is version 0: int16 0, then the transactional id (int16 length, UTF-8). The value is the state of the id, int16
version first; null is a tombstone: the id was forgotten. Version 0 is written, as Kafka 3.9 does. Version 1 (Kafka 4,
`transaction.version` 1) is the same in the flexible encoding; its tagged fields, which `transaction.version` 2
adds, are not needed to finish open transactions.

From Kafka's `TransactionLogKey.json` and `TransactionLogValue.json`.
"""

from __future__ import annotations

from struct import Struct as Layout

from broker.coordinator.transaction.machine import NO_PRODUCER_ID, Transaction, TransactionState
from kafkalog.protocol.codec import ProtocolError, decode_message, encode_message
from kafkalog.protocol.coordinator_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kafkalog.protocol.schema import M

_VERSION = Layout(">h")
_BEGINNING = Layout(">hq")
"""The beginning of a value: its version and the producer id."""
WRITTEN_VERSION = 0


class UnknownRecordError(Exception):
    """A record of an unknown version, or with unknown content."""


def encode_key(transactional_id: str) -> bytes:
    """Return a record's key."""
    return _VERSION.pack(0) + encode_message(TransactionLogKey(transactional_id=transactional_id), 0)


def decode_key(key: bytes | None) -> str:
    """Return the transactional id.

    Raises:
        UnknownRecordError: the key is of an unknown kind.
    """
    return _read(TransactionLogKey, key).transactional_id


def encode_value(transaction: Transaction) -> bytes:
    """Return a record's value."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if empty
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    return _VERSION.pack(WRITTEN_VERSION) + encode_message(value, WRITTEN_VERSION)


def decode_value(value: bytes) -> Transaction:
    """Return the state of a transactional id.

    Raises:
        UnknownRecordError: the value has an unknown version or state, or is cut short.
    """
    read = _read(TransactionLogValue, value)
    try:
        state = TransactionState(read.transaction_status)
    except ValueError as error:
        raise UnknownRecordError(f"a transaction in state {read.transaction_status}") from error
    if state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise UnknownRecordError(f"a transaction in state {state.title}, which is never stored")
    return Transaction(
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        read.transaction_last_update_timestamp_ms,
        frozenset((each.topic, index) for each in read.transaction_partitions or () for index in each.partition_ids),
        read.transaction_start_timestamp_ms,
    )


def largest_producer_id(value: bytes) -> int:
    """Return the largest producer id that a record's value names; `NO_PRODUCER_ID` if it cannot be read."""
    if len(value) < _BEGINNING.size:
        return NO_PRODUCER_ID
    producer_id: int
    version, producer_id = _BEGINNING.unpack_from(value)
    if version == 0:
        return producer_id
    try:
        read = _read(TransactionLogValue, value)
    except UnknownRecordError:
        return NO_PRODUCER_ID
    return max(read.producer_id, read.previous_producer_id, read.next_producer_id)


def _read(cls: type[M], data: bytes | None) -> M:
    if data is None or len(data) < _VERSION.size:
        raise UnknownRecordError(f"no {cls.__name__}")
    (version,) = _VERSION.unpack_from(data)
    if not cls.min_version <= version <= cls.max_version:
        raise UnknownRecordError(f"a {cls.__name__} of version {version}")
    try:
        return decode_message(cls, version, data, _VERSION.size)[0]
    except ProtocolError as error:
        raise UnknownRecordError(f"a damaged {cls.__name__}: {error}") from error
