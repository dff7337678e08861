"""Test that damaged bytes leave no log half truncated."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import CorruptMessageError
from kafkalog.records.batch import MAGIC_AT
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import ENTRY_SIZE
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log, stored

SMALL = LogConfig(segment_bytes=400, file_delete_delay_ms=0)
LENGTH_AT = 8


def abort(log: Log, producer_id: int) -> None:
    """Append a transaction of one record, and abort it."""
    sent = batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_batch(sent, leader_epoch=0, now_ms=NOW, in_transaction=True)
    log.append_batch(marker(producer_id), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)


def damage(path: Path, at: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(content)] = content
    path.write_bytes(data)


@pytest.mark.parametrize("row", range(5))
def test_a_damaged_transaction_index_is_rebuilt_by_a_truncation(tmp_path: Path, row: int) -> None:
    log = open_log(tmp_path)
    for producer_id in range(5):
        abort(log, producer_id)
    before = log.aborted_transactions(0, 6)
    damage(log.dir / f"{0:020d}{names.TXN_INDEX}", row * ENTRY_SIZE, b"\xff\xff")
    assert log.truncate_to(6, now_ms=NOW)
    assert log.offline is None
    assert log.log_end_offset == 6
    assert log.aborted_transactions(0, 6) == before
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    assert [each.base_offset for each in stored(log)] == list(range(7))
    assert log.aborted_transactions(0, 7) == before


def test_a_log_whose_cut_cannot_be_found_keeps_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(20):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    log.close()
    files = sorted(path.name for path in log.dir.glob("*.log"))
    assert len(files) > 3
    damage(log.dir / files[1], LENGTH_AT, (-5).to_bytes(4, "big", signed=True))
    log = open_log(tmp_path, SMALL, clean=True)
    offset = int(files[1].removesuffix(names.LOG)) + 1
    with pytest.raises(CorruptMessageError, match=f"Cannot truncate t-0 to {offset}"):
        log.truncate_to(offset, now_ms=NOW)
    assert log.offline is None
    assert log.log_end_offset == 20
    assert sorted(path.name for path in log.dir.glob("*.log")) == files
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    assert log.log_end_offset == 21


def test_a_damaged_transaction_index_of_a_damaged_log_removes_nothing(tmp_path: Path) -> None:
    """The index would have to be built anew from the log."""
    log = open_log(tmp_path, SMALL)
    while len(list(log.dir.glob("*.log"))) < 2:
        abort(log, 7 + log.log_end_offset)
    abort(log, 7)
    first, last = sorted(log.dir.glob("*.log"))
    log.close()
    damage(first, LENGTH_AT, (-5).to_bytes(4, "big", signed=True))
    damage(last.with_suffix(names.TXN_INDEX), 0, b"\xff\xff")
    log = open_log(tmp_path, SMALL, clean=True)
    end = log.log_end_offset
    with pytest.raises(CorruptMessageError, match=f"Cannot truncate t-0 to {end - 1}"):
        log.truncate_to(end - 1, now_ms=NOW)
    assert log.offline is None
    assert log.log_end_offset == end
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)


@pytest.mark.parametrize("at", [LENGTH_AT, MAGIC_AT])
def test_damage_before_the_cut_removes_nothing(tmp_path: Path, at: int) -> None:
    """The cut itself is found, but not which offset and which largest timestamp are before it."""
    log = open_log(tmp_path, SMALL)
    for _ in range(20):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    kept, (first, cut, *_) = log.segments, log.segments
    offset = cut.base_offset + 2
    assert cut.positions.get(offset) is not None
    damage(Path(cut.path(names.LOG)), at, b"\xff\xff\xff\xff")
    before = [segment.size for segment in kept]
    with pytest.raises(CorruptMessageError, match=f"Cannot truncate t-0 to {offset}"):
        log.truncate_to(offset, now_ms=NOW)
    assert log.offline is None
    assert log.log_end_offset == 20
    assert log.segments == kept
    assert [segment.size for segment in kept] == before
    assert log.truncate_to(first.base_offset + 1, now_ms=NOW)
    assert log.log_end_offset == first.base_offset + 1
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)


def test_a_wrong_offset_before_the_cut_removes_nothing(tmp_path: Path) -> None:
    """The log would end at an offset that it never had. No checksum covers the offset."""
    log = open_log(tmp_path)
    for _ in range(20):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    damage(Path(log.active_segment.path(names.LOG)), 9 * len(batch()), b"\xff")
    with pytest.raises(CorruptMessageError, match="does not follow 8"):
        log.truncate_to(10, now_ms=NOW)
    assert (log.log_end_offset, log.offline) == (20, None)


def test_producers_are_as_before_where_a_truncation_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(20):
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_batch(sent, leader_epoch=0, now_ms=NOW)
    damage(Path(log.active_segment.path(names.LOG)), MAGIC_AT, b"\xff")
    with pytest.raises(CorruptMessageError):
        log.truncate_to(10, now_ms=NOW)
    assert log.producers.producers[7].next_sequence == 20
    assert log.append_batch(
        batch(producer_id=7, producer_epoch=0, base_sequence=19), leader_epoch=0, now_ms=NOW
    ).duplicate


@pytest.mark.parametrize("offset", [3, 17, 25, 39])
@pytest.mark.parametrize("config", [SMALL, LogConfig()], ids=["several segments", "one segment"])
def test_a_plan_that_a_worker_has_read_is_what_the_log_says_itself(
    tmp_path: Path, config: LogConfig, offset: int
) -> None:
    found = []
    for planned in (False, True):
        log = open_log(tmp_path / str(planned), config)
        for sequence in range(20):
            sent = batch(
                producer_id=sequence % 3, producer_epoch=0, base_sequence=sequence // 3, timestamp=NOW - sequence
            )
            log.append_batch(sent, leader_epoch=0, now_ms=NOW)
            abort(log, 100 + sequence)
        plan = log.plan_truncation(offset, now_ms=NOW) if planned else None
        if plan is not None:
            with ThreadPoolExecutor(1) as worker:
                worker.submit(plan.read).result()
            assert plan.is_read
        assert log.truncate_to(offset, now_ms=NOW, planned=plan)
        last = log.active_segment
        rows = sorted(log.producers.rows())
        times = last.max_timestamp, last.max_timestamp_offset
        found.append((log.log_end_offset, rows, log.producers.ongoing, times, log.aborted_transactions(0, 100)))
        assert log.producers.end_offset == log.log_end_offset
    assert found[0] == found[1]


@pytest.mark.parametrize(("recovery_point", "offset", "unflushed"), [(0, 15, 15), (10, 15, 5), (15, 10, 0)])
def test_a_plan_tells_what_of_the_file_is_not_on_the_device(
    tmp_path: Path, recovery_point: int, offset: int, unflushed: int
) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    for _ in range(recovery_point):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    log.flush()
    while log.log_end_offset < 20:
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    plan = log.plan_truncation(offset, now_ms=NOW)
    assert plan is not None
    assert plan.unflushed_bytes == unflushed * len(batch())
    assert plan.is_flushed


def test_a_plan_is_made_anew_for_a_log_that_was_truncated_since(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(20):
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence, timestamp=NOW + sequence)
        log.append_batch(sent, leader_epoch=0, now_ms=NOW)
    plan = log.plan_truncation(15, now_ms=NOW)
    assert plan is not None
    plan.read()
    assert log.truncate_to(5, now_ms=NOW)
    for _ in range(15):
        log.append_batch(batch(timestamp=NOW - 1), leader_epoch=0, now_ms=NOW)
    assert log.truncate_to(15, now_ms=NOW, planned=plan)
    assert log.producers.producers[7].next_sequence == 5
    assert log.active_segment.max_timestamp == NOW + 4


@pytest.mark.parametrize(
    "truncate",
    [lambda log: log.truncate_to(3, now_ms=NOW), lambda log: log.truncate_fully_and_start_at(50, now_ms=NOW)],
    ids=["some", "all"],
)
def test_a_worker_deletes_the_files_that_a_truncation_has_removed(
    tmp_path: Path, truncate: Callable[[Log], object]
) -> None:
    """A file system may take a quarter of a second to free a file of 1 GiB, and a log may have hundreds."""
    ops = FaultyOps()
    log = open_log(tmp_path, LogConfig(segment_bytes=400), ops=ops)
    for _ in range(20):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    assert len(log.segments) > 3
    ops.calls.clear()
    truncate(log)
    assert not [path for call, path in ops.calls if call == "unlink" and names.LOG in str(path)]
    assert log.remove_deleted(NOW)
    assert not list(log.dir.glob(f"*{names.DELETED}"))
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    assert sorted(path.name for path in log.dir.glob(f"*{names.LOG}")) == [
        names.segment_name(segment.base_offset, names.LOG) for segment in log.segments
    ]


def test_a_start_deletes_what_a_truncation_had_removed_before_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=400))
    for _ in range(20):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    log.truncate_to(3, now_ms=NOW)
    again = open_log(tmp_path, LogConfig(segment_bytes=400))
    assert again.log_end_offset == 3
    assert not list(again.dir.glob(f"*{names.DELETED}"))
