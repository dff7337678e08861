"""Tests of the records of `__transaction_state`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.transaction.machine import Transaction, TransactionState
from broker.coordinator.transaction.records import (
    UnknownRecordError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    largest_producer_id,
)
from kafkalog.protocol.codec import encode_message
from kafkalog.protocol.coordinator_records import TransactionLogValue

STORED = [state for state in TransactionState if state < TransactionState.DEAD]
PARTITIONS = st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)), max_size=6)
INT64 = st.integers(-1, 2**63 - 1)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(STORED))
    partitions = frozenset() if state is TransactionState.EMPTY else draw(PARTITIONS)
    epoch, timeout = draw(st.integers(-1, 2**15 - 1)), draw(st.integers(1, 2**31 - 1))
    return Transaction(draw(INT64), epoch, timeout, state, draw(INT64), partitions, draw(INT64))


@given(transactions())
def test_what_is_written_is_read(transaction: Transaction) -> None:
    assert decode_value(encode_value(transaction)) == transaction
    assert largest_producer_id(encode_value(transaction)) == transaction.producer_id


@given(st.text(max_size=40))
def test_keys(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


def test_bytes_of_version_0() -> None:
    transaction = Transaction(
        5, 2, 60_000, TransactionState.PREPARE_COMMIT, 9, frozenset({("t", 1), ("t", 0), ("s", 7)}), 8
    )
    assert encode_value(transaction) == bytes.fromhex(
        "0000 0000000000000005 0002 0000ea60 02"
        "00000002 0001 73 00000001 00000007 0001 74 00000002 00000000 00000001"
        "0000000000000009 0000000000000008"
    )
    assert encode_key("id").hex() == "00000002" + b"id".hex()


def test_version_1_is_read() -> None:
    """As Kafka 4 writes it; its tagged fields of `transaction.version` 2 are passed over."""
    body = encode_message(
        TransactionLogValue(
            producer_id=5, producer_epoch=2, transaction_timeout_ms=1, transaction_status=0,
            transaction_partitions=None, transaction_last_update_timestamp_ms=9, transaction_start_timestamp_ms=-1,
        ),
        1,
    )  # fmt: skip
    expected = Transaction(5, 2, 1, TransactionState.EMPTY, 9)
    assert decode_value(b"\0\1" + body) == expected
    tagged = body[:-1] + bytes.fromhex("020008000000000000000402020002")
    assert decode_value(b"\0\1" + tagged) == expected
    assert largest_producer_id(b"\0\1" + body) == 5
    following = body[:-1] + bytes.fromhex("02000800000000000000040108000000000000ffff")
    assert largest_producer_id(b"\0\1" + following) == 0xFFFF


@given(st.binary(max_size=60))
def test_whatever_lies_there_is_read_or_refused(data: bytes) -> None:
    for decode in (decode_key, decode_value, largest_producer_id):
        try:
            decode(data)
        except UnknownRecordError:
            continue


@pytest.mark.parametrize("state", [6, 7, 8, -1])
def test_states_that_are_never_stored(state: int) -> None:
    value = bytearray(encode_value(Transaction(5, 2, 1, TransactionState.EMPTY, 9)))
    value[16] = state & 0xFF
    with pytest.raises(UnknownRecordError):
        decode_value(bytes(value))
