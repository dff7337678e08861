"""Tests of entries of the index files, as bytes and from arbitrary bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.storage.index_arrays import usable_offset_entries, usable_time_entries
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY, offset_rows, time_rows
from kafkalog.storage.transaction_entries import (
    ENTRY_SIZE,
    AbortedTransaction,
    CorruptEntryError,
    encode_aborted,
    parse_aborted,
    usable_aborted,
)

increasing = st.lists(st.integers(1, MAX_RELATIVE_OFFSET), unique=True, max_size=6).map(sorted)
reserved = st.integers(0, 3)


@given(increasing, st.data(), reserved, st.integers(0, 1 << 40))
def test_an_offset_index_reads_as_it_was_written(
    offsets: list[int], data: st.DataObject, zeros: int, base: int
) -> None:
    positions = data.draw(
        st.lists(st.integers(1, 1 << 30), unique=True, min_size=len(offsets), max_size=len(offsets)).map(sorted)
    )
    rows = list(zip(offsets, positions, strict=True))
    file = b"".join(OFFSET_ENTRY.pack(*row) for row in rows) + bytes(OFFSET_ENTRY.size * zeros)
    assert offset_rows(file) == rows or (zeros == 1 and offset_rows(file) == [*rows, (0, 0)])
    found = usable_offset_entries(file, base, 1 << 31)
    assert found.positions.tolist()[: len(rows)] == positions
    assert found.offsets.tolist()[: len(rows)] == [base + offset for offset in offsets]
    assert len(found.offsets) == len(rows) or not rows


@given(increasing, reserved, st.integers(0, 1 << 40))
def test_a_time_index_reads_as_it_was_written(offsets: list[int], zeros: int, base: int) -> None:
    rows = [(1_700_000_000_000 + offset, offset) for offset in offsets]
    file = b"".join(TIME_ENTRY.pack(*row) for row in rows) + bytes(TIME_ENTRY.size * zeros)
    assert time_rows(file) == rows or (zeros == 1 and time_rows(file) == [*rows, (0, 0)])
    assert usable_time_entries(file, base) == [(timestamp, base + relative) for timestamp, relative in rows]


@given(st.binary(max_size=120), st.integers(0, 1 << 40), st.integers(0, 1 << 31))
def test_what_is_used_of_any_bytes_grows_and_lies_in_the_log(data: bytes, base: int, size: int) -> None:
    found = usable_offset_entries(data, base, size)
    for column in (found.offsets.tolist(), found.positions.tolist()):
        assert column == sorted(set(column))
    assert all(base <= offset for offset in found.offsets.tolist())
    assert all(0 <= position < size for position in found.positions.tolist())
    times = usable_time_entries(data, base)
    assert times == sorted(set(times))
    for row in usable_aborted(data):
        assert row.producer_id >= 0
        assert 0 <= row.first_offset < row.last_offset


offsets = st.integers(0, (1 << 63) - 1)
transactions = st.builds(AbortedTransaction, offsets, offsets, offsets, offsets)


@given(st.lists(transactions, max_size=4), st.integers(0, ENTRY_SIZE - 1))
def test_aborted_transactions_read_as_they_were_written(rows: list[AbortedTransaction], torn: int) -> None:
    data = b"".join(map(encode_aborted, rows)) + bytes([0, 9] * ENTRY_SIZE)[:torn]
    assert parse_aborted(data, 0) == rows
    assert usable_aborted(data) == [row for row in rows if row.first_offset < row.last_offset]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\1" + bytes(32), "version 1"),
        (encode_aborted(AbortedTransaction(1, 5, 9, 5)), "before the segment at 10"),
    ],
)
def test_entries_that_cannot_be_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(CorruptEntryError, match=why):
        parse_aborted(data, 10)
