"""Tests of retention, delete-records and truncation."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.append.validation import Origin
from broker.log.directories.checkpoints import read_epochs
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import KafkaStorageError, OffsetOutOfRangeError
from kafkalog.storage import names
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log, stored, temporary_directory

ONE = batch(1).nbytes
FIVE_A_SEGMENT = LogConfig(segment_bytes=5 * ONE, index_interval_bytes=1, retention_ms=-1, file_delete_delay_ms=100)


def filled(directory: Path, config: LogConfig, count: int = 23, *, step: int = 0) -> Log:
    """Segments of five batches of one record; everything below the high watermark."""
    log = open_log(directory, config)
    for i in range(count):
        log.append_batch(batch(1, timestamp=NOW + i * step), leader_epoch=i // 5, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    return log


# -- retention -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "start"),
    [(-1, 0), (100 * ONE, 0), (23 * ONE, 0), (19 * ONE, 0), (18 * ONE, 5), (8 * ONE, 15), (7 * ONE, 15), (3 * ONE, 20),
     (1, 20), (0, 23)],
)  # fmt: skip
def test_by_size_keeps_at_least_the_limit(tmp_path: Path, limit: int, start: int) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_bytes=limit))
    log.apply_retention(NOW)
    assert log.log_start_offset == start
    assert [row.base_offset for row in stored(log)] == list(range(start, 23))


@pytest.mark.parametrize(("age", "start"), [(0, 0), (100, 0), (140, 0), (141, 5), (190, 5), (191, 10), (321, 23)])
def test_by_time_a_segment_goes_when_its_newest_record_is_too_old(tmp_path: Path, age: int, start: int) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_ms=100), step=10)
    log.apply_retention(NOW + age)
    assert log.log_start_offset == start
    assert log.log_end_offset == 23


def test_by_time_without_timestamps_goes_by_the_file(tmp_path: Path) -> None:
    log = open_log(tmp_path, FIVE_A_SEGMENT.with_changes(retention_ms=1000))
    for _ in range(7):
        log.append_batch(batch(1, timestamp=-1), leader_epoch=0, now_ms=NOW)
    log.high_watermark = 7
    os.utime(log.segments[0].path(names.LOG), (NOW / 1000, NOW / 1000))
    os.utime(log.segments[1].path(names.LOG), (NOW / 1000 + 60, NOW / 1000 + 60))
    log.apply_retention(NOW + 2000)
    assert log.log_start_offset == 5


def test_not_past_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_ms=0))
    log.truncate_fully_and_start_at(0, now_ms=NOW)
    for _ in range(12):
        log.append_batch(batch(1), leader_epoch=9, now_ms=NOW)
    log.high_watermark = 9
    log.apply_retention(NOW + 5)
    assert log.log_start_offset == 5


def test_only_policy_delete_goes_by_time_and_size(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT)
    log.config = FIVE_A_SEGMENT.with_changes(retention_ms=0, retention_bytes=0, cleanup_policy=("compact",))
    log.delete_records(11)
    log.apply_retention(NOW + 1000)
    assert [segment.base_offset for segment in log.segments] == [10, 15, 20]
    assert log.log_start_offset == 11


def test_nothing_goes_while_the_configuration_cannot_be_read(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT)
    log.config = FIVE_A_SEGMENT.with_changes(retention_ms=0, retention_bytes=0, is_held=True)
    log.apply_retention(NOW + 1000)
    assert log.log_start_offset == 0
    log.config = log.config.with_changes(is_held=False)
    log.apply_retention(NOW + 1000)
    assert log.log_start_offset > 0


def test_files_wait_for_their_delay_and_readers_keep_theirs(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_bytes=10 * ONE))
    reading = log.read(0, 1 << 20)
    before = reading.read()
    gone = log.apply_retention(NOW)
    assert [segment.base_offset for segment in gone] == [0, 5]
    deleted = sorted(path.name for path in log.dir.glob("*.deleted"))
    assert "00000000000000000000.log.deleted" in deleted
    assert "00000000000000000005.snapshot.deleted" in deleted
    assert log.remove_deleted(NOW + 99) == 0
    assert log.remove_deleted(NOW + 100) == len(deleted)
    assert not list(log.dir.glob("*.deleted"))
    assert reading.read() == before


def test_segments_that_could_not_be_removed_go_next_time(tmp_path: Path) -> None:
    ops = FaultyOps()
    config = FIVE_A_SEGMENT.with_changes(retention_bytes=0, file_delete_delay_ms=0)
    log = open_log(tmp_path, config, ops=ops)
    for _ in range(23):
        log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    log.high_watermark = 23
    ops.fail["rename"] = 6
    with pytest.raises(KafkaStorageError):
        log.apply_retention(NOW)
    assert log.log_start_offset == 23
    ops.heal()
    gone = [segment.base_offset for segment in log.apply_retention(NOW)]
    assert gone == [10, 15, 20], "the first two were taken out of the log before a file could not be renamed"
    assert [segment.base_offset for segment in log.segments] == [23]


def test_a_log_may_be_deleted_while_its_old_segments_are_removed(tmp_path: Path) -> None:
    """The worker that removes looks at the queue, and then takes from it; the event loop empties it in between."""
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_bytes=10 * ONE))
    log.apply_retention(NOW)

    class DeletedMeanwhile(int):
        def __ge__(self, when: int) -> bool:
            log.rename_for_delete()
            return int(self) >= when

    assert log.remove_deleted(DeletedMeanwhile(NOW + 1000)) == 0


def test_an_idle_log_empties_itself_once(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_ms=0))
    assert len(log.apply_retention(NOW + 1)) == 5
    assert (log.log_start_offset, log.log_end_offset) == (23, 23)
    assert log.apply_retention(NOW + 1) == []
    assert log.append_batch(batch(1), leader_epoch=0, now_ms=NOW).first_offset == 23


def test_retention_drops_the_epochs_that_ended(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_bytes=8 * ONE))
    log.apply_retention(NOW)
    assert log.epochs.entries() == [(3, 15), (4, 20)]


def test_moving_the_log_start_waits_for_no_device(tmp_path: Path) -> None:
    """It is done on the event loop, for every log at each retention check."""
    ops = FaultyOps()
    filled(tmp_path, FIVE_A_SEGMENT).close()
    log = open_log(tmp_path, FIVE_A_SEGMENT.with_changes(retention_bytes=8 * ONE), clean=True, ops=ops)
    log.high_watermark = 23
    ops.calls.clear()
    assert len(log.apply_retention(NOW)) == 3
    log.delete_records(21)
    assert not {"fsync", "fsync_dir"} & {call for call, _ in ops.calls}
    # After a crash the file's older entries are dropped once more.
    shutil.copytree(tmp_path, tmp_path / "crashed")
    assert open_log(tmp_path / "crashed", FIVE_A_SEGMENT, log_start_offset=21).epochs.entries() == [(4, 21)]
    log.close()
    assert read_epochs(str(tmp_path / "t-0" / names.LEADER_EPOCH_CHECKPOINT)) == [(4, 21)]


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    ages=st.lists(st.integers(0, 1000), min_size=40, max_size=40),
    retention_bytes=st.integers(-1, 6000),
    retention_ms=st.integers(-1, 1000),
    mark=st.floats(0, 1),
)
def test_what_retention_leaves(
    sizes: list[int], ages: list[int], retention_bytes: int, retention_ms: int, mark: float
) -> None:
    with temporary_directory() as directory:
        config = LogConfig(segment_bytes=800, retention_bytes=retention_bytes, retention_ms=retention_ms)
        log = open_log(directory, config)
        for size, age in zip(sizes, ages, strict=False):
            log.append_batch(batch((b"v" * size,), timestamp=NOW - age), leader_epoch=0, now_ms=NOW)
        log.high_watermark = int(mark * log.log_end_offset)
        total, end = log.size, log.log_end_offset
        segments = [(s.base_offset, s.size, s.largest_timestamp()) for s in log.segments]
        gone = len(log.apply_retention(NOW))
        assert log.log_start_offset <= log.high_watermark or gone == 0
        assert log.log_end_offset == end
        by_size = by_time = 0
        left = total
        # The oldest go while enough is left without them, then while they are too old.
        for base, size, newest in segments[:gone]:
            if by_time == 0 and 0 <= retention_bytes <= left - size:
                by_size += 1
                left -= size
            else:
                assert 0 <= retention_ms < NOW - newest, f"segment {base} went for no reason"
                by_time += 1
        if gone < len(segments):
            base, size, newest = segments[gone]
            upper = segments[gone + 1][0] if gone + 1 < len(segments) else end
            too_old = 0 <= retention_ms < NOW - newest
            too_much = by_time == 0 and 0 <= retention_bytes <= left - size
            assert upper > log.high_watermark or not (too_old or too_much), f"segment {base} should have gone"


# -- delete records ------------------------------------------------------------------------------------------


def test_delete_records_moves_the_start_and_keeps_the_batch(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT)
    assert log.delete_records(7) == 7
    assert log.delete_records(3) == 7, "it never goes back"
    assert log.delete_records(-1) == 23
    assert log.log_start_offset == 23
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(24)
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(-2)


def test_the_log_start_offset_survives_with_its_checkpoint(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT)
    log.delete_records(7)
    log.close()
    again = open_log(tmp_path, FIVE_A_SEGMENT, clean=True, log_start_offset=7)
    assert (again.log_start_offset, again.log_end_offset) == (7, 23)
    assert again.epochs.entries()[0] == (1, 7)


# -- truncation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 4, 5, 6, 14, 22, 23, 50])
def test_truncate(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT, step=10)
    log.flush()
    assert log.truncate_to(offset, now_ms=NOW) == (offset < 23)
    end = min(offset, 23)
    assert log.log_end_offset == end
    assert log.high_watermark == end
    assert log.recovery_point == end
    assert [row.base_offset for row in stored(log)] == list(range(end))
    assert all(start < max(end, 1) for _, start in log.epochs.entries()[1:])
    found = found_by_time(log, NOW + 10 * (end - 1)) if end else None
    assert (found.offset if found else -1) == end - 1
    assert found_by_time(log, NOW + 10 * end) is None
    for i in range(8):
        log.append_batch(batch(1, timestamp=NOW + 1000 + i), leader_epoch=9, now_ms=NOW)
    assert [row.base_offset for row in stored(log)] == list(range(end + 8))
    crashed = open_log(tmp_path, FIVE_A_SEGMENT)
    assert stored(crashed) == stored(log)
    assert crashed.epochs.entries() == log.epochs.entries()


def test_truncation_within_a_batch_drops_it_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch in range(3):
        log.append_batch(batch(5), leader_epoch=epoch, now_ms=NOW)
    log.high_watermark = 15
    log.delete_records(7)
    log.truncate_to(8, now_ms=NOW)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert log.epochs.entries() == [(0, 0)] or log.epochs.entries() == []
    assert log.append_batch(batch(1), leader_epoch=4, now_ms=NOW).first_offset == 5


def test_truncation_before_the_log_begins_anew(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT.with_changes(retention_bytes=8 * ONE))
    log.apply_retention(NOW)
    assert log.truncate_to(3, now_ms=NOW)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (3, 3, 1)
    assert log.epochs.entries() == []
    assert log.append_batch(batch(1), leader_epoch=9, now_ms=NOW).first_offset == 3


def test_truncation_brings_back_the_producer_state(tmp_path: Path) -> None:
    log = open_log(tmp_path, FIVE_A_SEGMENT)
    for i in range(12):
        log.append_batch(batch(1, producer_id=4, producer_epoch=0, base_sequence=i), leader_epoch=0, now_ms=NOW)
    log.truncate_to(7, now_ms=NOW)
    entry = log.producers.producers[4]
    assert (entry.next_sequence, entry.batches[-1].last_offset) == (7, 6)
    data = batch(1, producer_id=4, producer_epoch=0, base_sequence=7)
    assert log.append_batch(data, leader_epoch=1, now_ms=NOW).first_offset == 7


def test_truncation_reopens_a_transaction_whose_marker_is_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path, FIVE_A_SEGMENT)
    log.append_batch(
        batch(1, producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True),
        leader_epoch=0, now_ms=NOW, in_transaction=True,
    )  # fmt: skip
    log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    log.append_batch(marker(4), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    log.high_watermark = 3
    assert log.last_stable_offset == 3
    assert len(log.aborted_transactions(0, 3)) == 1
    log.truncate_to(2, now_ms=NOW)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 3) == []


def test_a_deleted_log_is_gone_and_takes_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path, FIVE_A_SEGMENT)
    reading = log.read(0, 1 << 20)
    expected = reading.read()
    target = log.rename_for_delete()
    assert target.name.startswith("t-0.")
    assert target.name.endswith("-delete")
    assert not (tmp_path / "t-0").exists()
    with pytest.raises(KafkaStorageError, match="deleted"):
        log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    assert reading.read() == expected
