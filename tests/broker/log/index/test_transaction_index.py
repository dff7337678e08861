"""Tests of the transaction index: bytes, look-ups against a list, damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.index import transaction_index
from broker.log.index.index_file import CorruptIndexError
from broker.log.index.transaction_index import ROWS_AT_ONCE, TransactionIndex
from broker.log.log_config import LogConfig
from broker.log.segment.segment import Segment
from kafkalog.storage.transaction_entries import ENTRY_SIZE, AbortedTransaction, encode_aborted, parse_aborted
from tests.broker.log.support import temporary_directory


def test_the_bytes_are_kafkas(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.txnindex"
    index = TransactionIndex(str(path), 100)
    assert index.items() == []
    index.append(AbortedTransaction(7, 100, 113, 114))
    assert path.read_bytes() == bytes.fromhex(
        "0000 0000000000000007 0000000000000064 0000000000000071 0000000000000072"
    )


def test_rows_come_in_the_order_of_their_markers(tmp_path: Path) -> None:
    index = TransactionIndex(str(tmp_path / "a.txnindex"), 0)
    index.append(AbortedTransaction(1, 5, 9, 9))
    with pytest.raises(CorruptIndexError, match="does not follow"):
        index.append(AbortedTransaction(2, 3, 9, 9))


def test_damage_is_found_and_a_torn_row_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.txnindex"
    index = TransactionIndex(str(path), 10)
    index.append(AbortedTransaction(1, 12, 19, 19))
    index.append(AbortedTransaction(1, 22, 29, 29))
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    assert index.items() == [AbortedTransaction(1, 12, 19, 19)]
    path.write_bytes(b"\x01" + good[1:])
    with pytest.raises(CorruptIndexError, match="version 256"):
        index.items()
    path.write_bytes(good)
    with pytest.raises(CorruptIndexError, match="before the segment"):
        TransactionIndex(str(path), 20).items()


@given(
    spans=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=15),
    start=st.integers(0, 120),
    length=st.integers(1, 60),
    cut=st.integers(0, 150),
)
def test_look_ups_agree_with_a_list(spans: list[tuple[int, int]], start: int, length: int, cut: int) -> None:
    with temporary_directory() as directory:
        index = TransactionIndex(str(directory / "a.txnindex"), 0)
        rows: list[AbortedTransaction] = []
        last = 0
        for step, back in spans:
            last += step
            rows.append(AbortedTransaction(len(rows), max(last - back, 0), last, last + 1))
            index.append(rows[-1])
        end = start + length
        found, complete = index.collect(start, end)
        assert found == [row for row in rows if row.last_offset >= start and row.first_offset < end
                         and not any(r.last_stable_offset >= end for r in rows[: rows.index(row)])]  # fmt: skip
        assert complete == any(row.last_stable_offset >= end for row in rows)
        index.truncate_to(cut)
        assert index.items() == [row for row in rows if row.last_offset < cut]
        index.reset()
        assert index.items() == []


def test_rows_that_are_not_needed_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = TransactionIndex(str(tmp_path / "a.txnindex"), 0)
    rows = [AbortedTransaction(1, 10 * number, 10 * number + 5, 10 * number + 6) for number in range(3000)]
    Path(index.path).write_bytes(b"".join(encode_aborted(row) for row in rows[:-1]))
    parsed = []

    def counted(data: bytes, base_offset: int) -> list[AbortedTransaction]:
        parsed.append(len(data) // ENTRY_SIZE)
        return parse_aborted(data, base_offset)

    monkeypatch.setattr(transaction_index, "parse_aborted", counted)
    assert not index.append(rows[-1])
    assert parsed == [1]
    assert index.collect(20_000, 20_010) == ([rows[2000]], True)
    assert sum(parsed) < 2 * ROWS_AT_ONCE
    assert index.collect(0, 30_000) == (rows, False)


@pytest.mark.parametrize("rows", [0, 1, ROWS_AT_ONCE + 1])
def test_a_file_that_is_truncated_during_a_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """A worker may look up while the log is truncated."""
    index = TransactionIndex(str(tmp_path / "a.txnindex"), 0)
    for at in range(2 * ROWS_AT_ONCE):
        index.append(AbortedTransaction(1, 2 * at, 2 * at + 1, 2 * at))
    fstat = os.fstat

    def then_truncate(fd: int) -> os.stat_result:
        found = fstat(fd)
        os.truncate(index.path, rows * ENTRY_SIZE)
        return found

    monkeypatch.setattr(os, "fstat", then_truncate)
    found, _ = index.collect(0, 1 << 40)
    assert len(found) == rows


def test_a_segment_without_aborted_transactions_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Segment.create(str(tmp_path), 0, LogConfig(), now_ms=0)
    try:
        assert segment.aborted.collect(0, 100) == ([], False)
        with monkeypatch.context() as patch:
            patch.setattr(TransactionIndex, "collect", None)
            assert segment.aborted.collect(0, 100) == ([], False)
        row = AbortedTransaction(1, 5, 9, 10)
        segment.aborted.add(row)
        assert segment.aborted.collect(0, 100) == ([row], False)
    finally:
        segment.release()
