"""Tests of opening a directory after a crash, a clean stop or another broker."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.read import log_reader
from broker.log.segment import index_scan
from broker.log.segment import segment as segment_module
from broker.log.segment.batch_scan import headers
from kafkalog.protocol.errors import InconsistentTopicIdError, OutOfOrderSequenceNumberError
from kafkalog.records.batch import BatchHeader, iter_headers
from kafkalog.storage import names
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log, stored

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=1200, file_delete_delay_ms=0)
BATCH = batch((b"x" * 50,)).nbytes


def filled(directory: Path, count: int = 30, config: LogConfig = CONFIG) -> Log:
    """A log of `count` batches of one record, eight or so a segment; left open, as a crash leaves it."""
    log = open_log(directory, config)
    for i in range(count):
        log.append_batch(batch((b"%050d" % i,), timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
    for segment in log.segments:
        segment.offset_index.write_pending()
        segment.time_index.write_pending()
    return log


def offsets(log: Log) -> list[int]:
    return [row.base_offset for row in stored(log)]


def segment_file(log: Log, number: int, kind: str = names.LOG) -> Path:
    return Path(log.segments[number].path(kind))


def look_ups_agree(log: Log) -> None:
    """Every offset and every time is found where it is."""
    rows = stored(log)
    for row in rows:
        assert stored(log, row.base_offset)[0] == row
        found = found_by_time(log, NOW + row.base_offset)
        assert found is not None
        assert found.offset == row.base_offset


def test_a_process_crash_loses_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert len(log.segments) > 3
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(30))
    assert [s.base_offset for s in again.segments] == [s.base_offset for s in log.segments]
    look_ups_agree(again)


@pytest.mark.parametrize("lost", [1, 40, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH - 5])
def test_a_torn_tail_is_cut_to_whole_batches(tmp_path: Path, lost: int) -> None:
    log = filled(tmp_path)
    path = segment_file(log, -1)
    os.truncate(path, max(path.stat().st_size - lost, 0))
    again = open_log(tmp_path, CONFIG)
    kept = 30 - -(-min(lost, log.active_segment.size) // BATCH)
    assert offsets(again) == list(range(kept))
    assert path.stat().st_size == (kept - again.active_segment.base_offset) * BATCH
    look_ups_agree(again)
    assert again.append_batch(batch(), leader_epoch=0, now_ms=NOW).first_offset == kept


@pytest.mark.parametrize("at", [0, 8, 16, 17, 23, 40, 57, 60, 61, 70, BATCH - 1])
def test_a_flipped_bit_ends_the_log_before_its_batch(tmp_path: Path, at: int) -> None:
    log = filled(tmp_path)
    path, base = segment_file(log, 1), log.segments[1].base_offset
    data = bytearray(path.read_bytes())
    data[2 * BATCH + at] ^= 0x40
    path.write_bytes(data)
    again = open_log(tmp_path, CONFIG)
    kept = base + 2
    # Offset and leader epoch are outside the CRC; an offset that jumps shows by its order or its range.
    assert offsets(again)[:kept] == list(range(kept))
    if at != 8 + 4:
        assert again.log_end_offset == kept
        assert len(again.segments) == 2
        assert not segment_file(log, 2).exists()


def test_zeros_after_the_last_batch_of_a_rolled_segment_cost_no_later_segment(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = segment_file(log, 0)
    size = path.stat().st_size
    os.truncate(path, size + 4096)
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(30))
    assert path.stat().st_size == size


def test_a_segment_that_lost_whole_batches_ends_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    os.truncate(segment_file(log, 1), BATCH)
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(log.segments[1].base_offset + 1))
    assert not segment_file(log, 2).exists()


def test_a_compacted_log_may_have_gaps_between_segments(tmp_path: Path) -> None:
    config = CONFIG.with_changes(cleanup_policy=("compact",))
    log = filled(tmp_path)
    os.truncate(segment_file(log, 1), BATCH)
    again = open_log(tmp_path, config)
    bases = [segment.base_offset for segment in log.segments]
    assert offsets(again) == [*range(bases[1] + 1), *range(bases[2], 30)]


def test_an_empty_segment_that_a_failed_roll_left_behind_is_dropped(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "t-0" / names.segment_name(5, names.LOG)).touch()
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(30))
    assert 5 not in [segment.base_offset for segment in again.segments]


def test_only_segments_from_the_recovery_point_on_are_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = segment_file(log, 0)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    point = log.segments[1].base_offset
    again = open_log(tmp_path, CONFIG, recovery_point=point)
    assert again.log_end_offset == 30
    assert again.recovery_point == point
    assert open_log(tmp_path, CONFIG, recovery_point=0).log_end_offset == point - 1


def test_a_clean_stop_reads_no_batch_and_the_end_is_found(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    for segment in log.segments:
        for kind, size in ((names.INDEX, 8), (names.TIME_INDEX, 12)):
            assert Path(segment.path(kind)).stat().st_size % size == 0
            assert Path(segment.path(kind)).stat().st_size < CONFIG.segment_index_bytes
    again = open_log(tmp_path, CONFIG, clean=True)
    assert (again.log_end_offset, again.recovery_point) == (30, 30)
    look_ups_agree(again)
    assert again.append_batch(batch(), leader_epoch=0, now_ms=NOW).first_offset == 30


def test_damage_in_spite_of_a_clean_stop_is_recovered(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    path = segment_file(log, -1)
    os.truncate(path, path.stat().st_size - 3)
    again = open_log(tmp_path, CONFIG, clean=True)
    assert offsets(again) == list(range(29))
    look_ups_agree(again)


@pytest.mark.parametrize("kind", [names.INDEX, names.TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd size", "zeros", "garbage", "too long"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, kind: str, damage: str) -> None:
    log = filled(tmp_path)
    log.close()
    for number in (0, -1):
        path = segment_file(log, number, kind)
        good = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({
                "empty": b"",
                "odd size": good[:-5],
                "zeros": good + bytes(len(good)),
                "garbage": b"\xff" * len(good),
                "too long": good + b"\x7f" * 24,
            }[damage])  # fmt: skip
    again = open_log(tmp_path, CONFIG, clean=True)
    look_ups_agree(again)
    assert again.append_batch(batch(), leader_epoch=0, now_ms=NOW).first_offset == 30


@pytest.mark.parametrize("damage", ["missing", "zeros", "misfit"])
def test_a_worker_walks_over_a_segment_whose_index_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    log = filled(tmp_path)
    log.close()
    expected = [(segment.offset_index.items(), segment.time_index.items()) for segment in log.segments]
    for number in (0, 1, 2):
        for kind in (names.INDEX, names.TIME_INDEX):
            path = segment_file(log, number, kind)
            if damage == "missing":
                path.unlink()
            elif damage == "zeros":
                path.write_bytes(bytes(path.stat().st_size))
            elif kind == names.INDEX:
                path.write_bytes(path.read_bytes()[:-8] + b"\0\0\0\1\x7f\0\0\0")
    walks: list[int] = []

    def watched(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        walks.append(threading.get_ident())
        return headers(fd, position, end)

    for module in (index_scan, segment_module):
        monkeypatch.setattr(module, "headers", watched)
    again = open_log(tmp_path, CONFIG, clean=True)
    walks.clear()
    with ThreadPoolExecutor(1) as worker:

        def with_worker(look: Callable[[], Callable[[], None] | None]) -> None:
            for _ in range(8):
                if (step := look()) is None:
                    return
                worker.submit(step).result()
            pytest.fail("there is always one more step")

        bases = [segment.base_offset for segment in again.segments]
        offset = bases[1] - 1
        while offset < bases[3]:
            with_worker(partial(again.missing, offset, 1 << 20))
            result = again.read(offset, 1 << 20)
            rows = list(iter_headers(result.read()))
            assert rows[0][1].base_offset == offset
            offset = rows[-1][1].next_offset
        with_worker(partial(again.missing_for_time, NOW + 1))
        assert next(look for look in again.time_search(NOW + 1)).find() is not None
    assert len(walks) == 3
    assert threading.get_ident() not in walks
    for segment, (offsets_of, times_of) in zip(again.segments[:3], expected, strict=False):
        assert segment.offset_index.items() == offsets_of
        assert segment.time_index.items() == times_of
    look_ups_agree(again)


@pytest.mark.parametrize(("kind", "size"), [(names.INDEX, 8), (names.TIME_INDEX, 12)])
def test_one_entry_of_zeros_is_one_that_was_lost(tmp_path: Path, kind: str, size: int) -> None:
    """The trimmed size came to the disk, the entry did not: retention would take the segment for ancient."""
    log = filled(tmp_path)
    log.close()
    segment_file(log, 0, kind).write_bytes(bytes(size))
    again = open_log(tmp_path, CONFIG.with_changes(retention_ms=1000), clean=True)
    again.high_watermark = 30
    assert again.apply_retention(NOW) == []
    look_ups_agree(again)
    assert again.segments[0].offset_index.items() == log.segments[0].offset_index.items()


def test_index_files_without_a_log_are_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    stray = tmp_path / "t-0" / names.segment_name(7777, names.INDEX)
    stray.touch()
    open_log(tmp_path, CONFIG)
    assert not stray.exists()


def test_leftovers_of_deletions_and_of_a_compaction(tmp_path: Path) -> None:
    log = filled(tmp_path)
    directory = tmp_path / "t-0"
    gone = directory / (names.segment_name(0, names.LOG) + names.DELETED)
    gone.touch()
    bases = [segment.base_offset for segment in log.segments]
    # A finished compaction of the first two segments into one, not yet moved into place.
    swap = directory / (names.segment_name(0, names.LOG) + names.SWAP)
    swap.write_bytes(segment_file(log, 0).read_bytes()[: 2 * BATCH] + segment_file(log, 1).read_bytes())
    again = open_log(tmp_path, CONFIG.with_changes(cleanup_policy=("compact",)))
    assert not gone.exists()
    assert not swap.exists()
    assert [segment.base_offset for segment in again.segments] == [0, *bases[2:]]
    assert offsets(again) == [0, 1, *range(bases[1], 30)]


def test_an_unfinished_compaction_is_undone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    directory = tmp_path / "t-0"
    for kind in (names.CLEANED, names.SWAP):
        (directory / (names.segment_name(0, names.LOG) + kind)).write_bytes(segment_file(log, 0).read_bytes()[:BATCH])
    assert offsets(open_log(tmp_path, CONFIG)) == list(range(30))
    assert not list(directory.glob("*.cleaned"))
    assert not list(directory.glob("*.swap"))


def test_a_log_start_after_the_end_drops_everything(tmp_path: Path) -> None:
    filled(tmp_path)
    again = open_log(tmp_path, CONFIG, log_start_offset=50)
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)
    assert again.append_batch(batch(), leader_epoch=0, now_ms=NOW).first_offset == 50
    assert len(again.segments) == 1


def test_damage_before_the_log_start_costs_nothing_after_it(tmp_path: Path) -> None:
    log = filled(tmp_path)
    os.truncate(segment_file(log, 0), BATCH)
    again = open_log(tmp_path, CONFIG, log_start_offset=20)
    assert (again.log_start_offset, again.log_end_offset) == (20, 30)


def test_a_directory_of_another_topic_id_is_refused(tmp_path: Path) -> None:
    from uuid import UUID

    Log.open(tmp_path / "t-0", CONFIG, clean=True, now_ms=NOW, topic_id=UUID(int=5)).close()
    assert Log.open(tmp_path / "t-0", CONFIG, clean=True, now_ms=NOW).topic_id == UUID(int=5)
    with pytest.raises(InconsistentTopicIdError):
        Log.open(tmp_path / "t-0", CONFIG, clean=True, now_ms=NOW, topic_id=UUID(int=6))


# -- producer state ------------------------------------------------------------------------------------------


def produce(log: Log, sequence: int, epoch: int = 0, *, transactional: bool = False) -> int:
    info = log.append_batch(
        batch((b"p" * 50,), producer_id=9, producer_epoch=epoch, base_sequence=sequence,
              is_transactional=transactional),
        leader_epoch=0, now_ms=NOW, in_transaction=transactional,
    )  # fmt: skip
    return -1 if info.duplicate else info.first_offset


def same_state(log: Log, other: Log) -> None:
    assert sorted(log.producers.rows()) == sorted(other.producers.rows())
    assert log.producers.ongoing == other.producers.ongoing


def test_a_batch_that_the_log_start_offset_lies_in_is_known_without_a_snapshot(tmp_path: Path) -> None:
    """Its producer's next try of it would be appended again."""
    log = open_log(tmp_path, CONFIG)
    log.append_batch(batch(5, producer_id=7, producer_epoch=0, base_sequence=0), leader_epoch=0, now_ms=NOW)
    log.high_watermark = 5
    log.delete_records(3)
    log.close()
    for file in (tmp_path / "t-0").glob("*.snapshot"):
        file.unlink()
    again = open_log(tmp_path, CONFIG, clean=True, log_start_offset=3)
    info = again.append_batch(batch(5, producer_id=7, producer_epoch=0, base_sequence=0), leader_epoch=0, now_ms=NOW)
    assert (info.first_offset, info.last_offset, again.log_end_offset) == (0, 4, 5)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshots", ["kept", "newest damaged", "all damaged", "all missing"])
def test_producer_state_comes_back(tmp_path: Path, clean: bool, snapshots: str) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(30):
        assert produce(log, sequence) == sequence
    log.append_batch(batch(2, producer_id=10, producer_epoch=3, base_sequence=0, is_transactional=True),
               leader_epoch=0, now_ms=NOW, in_transaction=True)  # fmt: skip
    if clean:
        log.close()
    files = sorted((tmp_path / "t-0").glob("*.snapshot"))
    assert len(files) >= 3
    if snapshots == "all missing" and not clean:
        for file in files:
            file.unlink()
    elif snapshots != "kept":
        for file in files[-1 if snapshots == "newest damaged" else 0 :]:
            file.write_bytes(file.read_bytes()[:-3] + b"\1\2\3")
    again = open_log(tmp_path, CONFIG, clean=clean)
    same_state(log, again)
    assert again.producers.first_unstable_offset == 30
    assert produce(again, 29) == -1, "the last batch is recognised"
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(again, 31)
    assert produce(again, 30) == 32


def test_aborted_transactions_are_indexed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, CONFIG)
    for round_ in range(4):
        for i in range(5):
            produce(log, round_ * 5 + i, transactional=True)
        log.append_batch(marker(9, commit=round_ % 2 == 1), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    aborted = log.aborted_transactions(0, 100)
    assert [(row.first_offset, row.last_offset) for row in aborted] == [(0, 5), (12, 17)]
    for path in (tmp_path / "t-0").glob("*.txnindex"):
        path.write_bytes(b"")
    again = open_log(tmp_path, CONFIG)
    assert again.aborted_transactions(0, 100) == aborted
    again.close()
    for path in (tmp_path / "t-0").glob("*.txnindex"):
        path.write_bytes(b"\x00\x09" + path.read_bytes()[2:])
    once_more = open_log(tmp_path, CONFIG, clean=True)
    monkeypatch.setattr(log_reader, "rebuild_transaction_index", None)
    assert once_more.aborted_transactions(0, 100) == aborted, "a damaged one is rebuilt when the log is opened"
    assert once_more.aborted_transactions(6, 12) == []
    assert once_more.aborted_transactions(17, 18) == aborted[1:]


@pytest.mark.parametrize("operation", ["pwrite", "fsync", "rename"])
def test_a_rebuild_of_a_transaction_index_that_fails_leaves_no_short_one(tmp_path: Path, operation: str) -> None:
    """A shorter file would pass for a whole one: aborted records would be served as committed ones."""
    log = open_log(tmp_path, CONFIG)
    for round_ in range(3):
        produce(log, round_, transactional=True)
        log.append_batch(marker(9, commit=False), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    expected = log.aborted_transactions(0, 100)
    assert len(expected) == 3
    log.close()
    (path,) = (tmp_path / "t-0").glob("*.txnindex")
    path.write_bytes(b"\x00\x09" + path.read_bytes()[2:])
    damaged = path.read_bytes()
    ops = FaultyOps()
    ops.fail[operation] = 1
    with pytest.raises(OSError, match=r"\[Errno"):
        open_log(tmp_path, CONFIG, clean=True, ops=ops)
    assert path.read_bytes() == damaged
    assert open_log(tmp_path, CONFIG, clean=True).aborted_transactions(0, 100) == expected


def test_a_damaged_transaction_index_is_rebuilt_when_it_is_added_to(tmp_path: Path) -> None:
    """Or the transaction would be decided and not indexed: its records served as committed ones."""
    log = open_log(tmp_path, CONFIG)
    for round_ in range(2):
        for path in (tmp_path / "t-0").glob("*.txnindex"):
            path.write_bytes(b"\x00\x09" + path.read_bytes()[2:])
        produce(log, round_, transactional=True)
        log.append_batch(marker(9), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    assert [(row.first_offset, row.last_offset) for row in log.aborted_transactions(0, 100)] == [(0, 1), (2, 3)]
    again = open_log(tmp_path, CONFIG)
    assert [(row.first_offset, row.last_offset) for row in again.aborted_transactions(0, 100)] == [(0, 1), (2, 3)]


def test_a_copy_of_a_live_directory_opens(tmp_path: Path) -> None:
    log = filled(tmp_path)
    shutil.copytree(tmp_path / "t-0", tmp_path / "copy" / "t-0")
    again = open_log(tmp_path / "copy", CONFIG)
    assert stored(again) == stored(log)


@pytest.mark.parametrize("at", range(1, 60))
def test_a_failing_disk_during_recovery_is_an_error_not_a_shorter_log(tmp_path: Path, at: int) -> None:
    log = filled(tmp_path)
    os.truncate(segment_file(log, -1), BATCH + 7)
    expected = list(range(log.active_segment.base_offset + 1))
    ops = FaultyOps()
    ops.fail_at = at
    try:
        again = open_log(tmp_path, CONFIG, ops=ops)
    except OSError:
        again = open_log(tmp_path, CONFIG)
    assert offsets(again) == expected
    look_ups_agree(again)
