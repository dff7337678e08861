"""Tests of what cleaning keeps of producers and transactions."""

from __future__ import annotations

import os
from pathlib import Path

from tests.broker.log.cleaner.support import (
    COMPACT,
    append,
    batches_of,
    clean,
    clean_whole,
    end_transaction,
    offsets,
    table_of,
)
from tests.broker.log.support import NOW, open_log


def test_the_last_batch_of_a_producer_leaves_its_header(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"), producer_id=5, sequence=0)
    append(log, (b"a", b"2"), (b"a", b"3"), producer_id=5, sequence=1)
    append(log, (b"a", b"4"))
    clean_whole(log)
    assert offsets(log) == [3]
    kept = [(header.base_offset, header.last_offset, header.last_sequence) for header, _ in batches_of(log)]
    assert kept == [(1, 2, 2), (3, 3, -1)]
    os.unlink(log.dir / "00000000000000000004.snapshot")
    again = open_log(tmp_path, COMPACT)
    assert again.producers.producers[5].next_sequence == 3
    append(again, (b"x", b"y"), producer_id=5, sequence=3)
    clean_whole(again)
    assert [header.base_offset for header, _ in batches_of(again)] == [3, 4]


def test_aborted_records_go_at_once_and_their_marker_when_they_are_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"old"))
    append(log, (b"a", b"aborted"), producer_id=5, transactional=True)
    append(log, (b"b", b"of nobody"))
    end_transaction(log, 5, commit=False)
    # So that its state does not hold on to the aborted batch.
    append(log, (b"c", b"1"), producer_id=5, sequence=1)
    expected = table_of(log)
    assert expected[b"a"] == b"old"
    clean_whole(log)
    assert (offsets(log), table_of(log)) == ([0, 2, 4], expected)
    # A reader may hold aborted records still: the marker and its row of the index stay for one cleaning.
    assert [header.base_offset for header, _ in batches_of(log)] == [0, 2, 3, 4]
    assert len(log.aborted_transactions(0, 100)) == 1
    append(log, (b"d", b"1"))
    clean_whole(log, now_ms=NOW + 10)
    assert log.aborted_transactions(0, 100) == []
    horizons = {header.base_offset: header.delete_horizon for header, _ in batches_of(log)}
    assert horizons[3] == NOW + 1010
    append(log, (b"e", b"1"))
    clean_whole(log, now_ms=NOW + 1010)
    assert [header.base_offset for header, _ in batches_of(log)] == [0, 2, 4, 5, 6]
    assert table_of(log) == {**expected, b"d": b"1", b"e": b"1"}


def test_a_commit_marker_goes_when_the_records_have_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"), producer_id=5, transactional=True)
    end_transaction(log, 5, commit=True)
    append(log, (b"x", b"1"), producer_id=5, sequence=1)
    clean_whole(log)
    append(log, (b"a", b"2"))
    for at in (2, 3, 4, 5):
        log.cleaned_offset = 0
        clean_whole(log, now_ms=NOW + at * 2000)
    assert [header.base_offset for header, _ in batches_of(log)] == [2, 3]


def test_of_a_producer_that_wrote_nothing_else_the_markers_header_stays(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    end_transaction(log, 5, commit=True)
    for at in (0, 2):
        log.cleaned_offset = 0
        clean_whole(log, now_ms=NOW + at * 2000)
    kept = [(header.base_offset, header.is_control, header.records_count) for header, _ in batches_of(log)]
    assert kept == [(0, False, 1), (1, True, 0)]
    for snapshot in log.dir.glob("*.snapshot"):
        snapshot.unlink()
    again = open_log(tmp_path, COMPACT)
    assert (again.log_end_offset, again.producers.producers[5].epoch) == (2, 0)
    assert [header.base_offset for header, _ in batches_of(again)] == [0, 1]


def test_an_open_transaction_holds_up_cleaning(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    log.roll(NOW)
    append(log, (b"a", b"2"), producer_id=5, transactional=True)
    log.roll(NOW)
    append(log, (b"a", b"3"))
    log.roll(NOW)
    clean(log)
    assert offsets(log) == [0, 1, 2]
    end_transaction(log, 5, commit=True)
    clean_whole(log)
    assert offsets(log) == [2]
