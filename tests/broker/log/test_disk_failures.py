"""Test ENOSPC and EIO in each single file operation of an append, a roll, retention and a truncation.

Whatever fails, the log answers KAFKA_STORAGE_ERROR and no other error, holds exactly what it acknowledged, and takes
appends again when the disk does, or says that it is offline.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import KafkaStorageError
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import (
    NOW,
    FaultyOps,
    Stored,
    batch,
    descriptors_left,
    marker,
    open_log,
    stored,
    temporary_directory,
)

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=240, file_delete_delay_ms=0)
VALUES = (b"x" * 50,)


def append(log: Log, epoch: int = 0) -> None:
    log.append_batch(batch(VALUES), leader_epoch=epoch, now_ms=NOW)


def prepared(log: Log) -> None:
    """A transaction under way, and room for one more batch in the active segment."""
    log.append_batch(
        batch(VALUES, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        leader_epoch=0, now_ms=NOW, in_transaction=True,
    )  # fmt: skip
    for _ in range(6):
        append(log)


def abort(log: Log) -> None:
    log.append_batch(marker(7), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)


def roll_by_size(log: Log) -> None:
    log.append_batch(batch((b"y" * 800,)), leader_epoch=0, now_ms=NOW)


ACTS: dict[str, Callable[[Log], object]] = {
    "append": append,
    "append in a new epoch": lambda log: append(log, 1),
    "append that rolls": roll_by_size,
    "append an abort marker": abort,
    "roll": lambda log: log.roll(NOW),
}


def calls_of(act: Callable[[Log], object]) -> int:
    """Return the number of file operations of an act in which nothing fails."""
    with temporary_directory() as directory:
        ops = FaultyOps()
        log = open_log(directory, CONFIG, ops=ops)
        prepared(log)
        ops.calls.clear()
        act(log)
        return len(ops.calls)


def cases() -> Iterator[object]:
    for name, act in ACTS.items():
        for at in range(1, calls_of(act) + 1):
            for persists in (False, True):
                for error in (errno.ENOSPC, errno.EIO):
                    kind = "on" if persists else "once"
                    yield pytest.param(act, at, persists, error, id=f"{name}-{at}-{kind}-{errno.errorcode[error]}")


@pytest.mark.parametrize(("act", "at", "persists", "error"), list(cases()))
def test_any_failing_call(tmp_path: Path, act: Callable[[Log], object], at: int, persists: bool, error: int) -> None:
    ops = FaultyOps(error)
    log = open_log(tmp_path, CONFIG, ops=ops)
    prepared(log)
    ops.fail_at, ops.persists = at, persists
    before = log.log_end_offset
    try:
        act(log)
    except KafkaStorageError:
        assert log.log_end_offset == before or log.offline
    ops.heal()
    held = stored(log)
    assert [row.base_offset for row in held] == list(range(log.log_end_offset)), "one record a batch, no gap"
    try:
        # A smaller batch first: it must not go into a segment that a failed roll left behind.
        append(log)
        roll_by_size(log)
    except KafkaStorageError:
        assert log.offline is not None
        assert stored(log) == held
    else:
        assert log.offline is None
        held = [
            *held,
            Stored(len(held), len(held), VALUES),
            Stored(len(held) + 1, len(held) + 1, (b"y" * 800,)),
        ]
        assert stored(log) == held
    aborted = log.aborted_transactions(0, log.log_end_offset) if log.offline is None else None
    again = open_log(tmp_path, CONFIG)
    assert stored(again)[: len(held)] == held
    assert again.log_end_offset == log.log_end_offset
    if aborted is not None:
        assert again.aborted_transactions(0, again.log_end_offset) == aborted
    append(again)
    again.close()
    assert len(stored(open_log(tmp_path, CONFIG, clean=True))) == len(held) + 1


def test_short_writes_are_continued(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, ops=ops)
    ops.short = True
    append(log)
    append(log)
    assert [row.values for row in stored(log)] == [VALUES, VALUES]


def test_a_write_that_cannot_be_undone_takes_the_log_offline(tmp_path: Path) -> None:
    ops = FaultyOps(errno.ENOSPC)
    log = open_log(tmp_path, ops=ops)
    append(log)
    ops.fail = {"pwrite": 1, "ftruncate": 1}
    with pytest.raises(KafkaStorageError):
        append(log)
    ops.heal()
    with pytest.raises(KafkaStorageError, match="offline"):
        append(log)
    assert len(stored(log)) == 1
    assert open_log(tmp_path).log_end_offset == 1


def test_a_full_disk_refuses_appends_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    ops = FaultyOps(errno.ENOSPC)
    log = open_log(tmp_path, CONFIG, ops=ops)
    for _ in range(3):
        append(log)
    ops.fail = {"pwrite": 1}
    for _ in range(3):
        with pytest.raises(KafkaStorageError):
            append(log)
    ops.heal()
    append(log)
    assert len(stored(log)) == 4
    log.close()
    assert len(stored(open_log(tmp_path, CONFIG, clean=True))) == 4


def test_a_flush_without_room_for_index_entries_is_tried_again(tmp_path: Path) -> None:
    ops = FaultyOps(errno.ENOSPC)
    log = open_log(tmp_path, CONFIG, ops=ops)
    for _ in range(3):
        append(log)
    ops.fail = {"pwrite": 1}
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="Cannot flush"):
            log.flush()
    assert (log.offline, log.recovery_point) == (None, 0)
    ops.heal()
    append(log)
    log.flush()
    assert log.recovery_point == 4
    assert open_log(tmp_path, CONFIG, clean=True, recovery_point=4).log_end_offset == 4
    assert log.active_segment.offset_index.items() == [(offset, offset * batch(VALUES).nbytes) for offset in (1, 2, 3)]


@pytest.mark.parametrize("at", range(1, 20))
def test_retention_that_fails_halfway_loses_nothing_that_it_kept(tmp_path: Path, at: int) -> None:
    config = CONFIG.with_changes(retention_bytes=1000)
    ops = FaultyOps()
    log = open_log(tmp_path, config, ops=ops)
    for _ in range(40):
        append(log)
    log.high_watermark = log.log_end_offset
    ops.fail_at = at
    try:
        log.apply_retention(NOW)
    except KafkaStorageError:
        ops.heal()
        log.apply_retention(NOW)
    ops.heal()
    log.remove_deleted(NOW)
    start = log.log_start_offset
    assert start > 0
    assert [row.base_offset for row in stored(log)] == list(range(start, 40))
    again = open_log(tmp_path, config, log_start_offset=start)
    assert [row.base_offset for row in stored(again)] == list(range(start, 40))


@pytest.mark.parametrize("at", range(1, 25))
def test_a_truncation_that_fails_takes_the_log_offline_and_leaves_a_prefix(tmp_path: Path, at: int) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, CONFIG, ops=ops)
    for _ in range(40):
        append(log)
    ops.fail_at = at
    try:
        log.truncate_to(5, now_ms=NOW)
    except KafkaStorageError:
        assert log.offline is not None
    else:
        assert log.log_end_offset == 5
    again = open_log(tmp_path, CONFIG)
    assert again.log_end_offset >= 5
    assert [row.base_offset for row in stored(again)] == list(range(again.log_end_offset))


@pytest.mark.parametrize("call", ["rename", "fsync_dir"])
def test_a_log_that_could_not_be_deleted_takes_appends_only_where_they_last(tmp_path: Path, call: str) -> None:
    """A directory that has its new name is removed at the next start, whatever was appended to it."""
    log = open_log(tmp_path, ops=(ops := FaultyOps()))
    log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    ops.fail[call] = 1
    with pytest.raises(KafkaStorageError):
        log.rename_for_delete()
    ops.heal()
    if call == "rename":
        assert log.append_batch(batch(1), leader_epoch=0, now_ms=NOW).first_offset == 1
        log.close()
        assert open_log(tmp_path, clean=True).log_end_offset == 2
    else:
        with pytest.raises(KafkaStorageError):
            log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)


def test_a_directory_that_cannot_be_written_when_a_log_is_made(tmp_path: Path) -> None:
    ops = FaultyOps(errno.ENOSPC)
    ops.fail = {"ftruncate": 1}
    with pytest.raises(OSError, match="injected"):
        open_log(tmp_path, ops=ops)
    log = open_log(tmp_path)
    append(log)
    assert len(stored(log)) == 1


@pytest.mark.parametrize("from_nothing", [False, True], ids=["all files", "log files alone"])
def test_a_log_is_recovered_on_a_full_disk(tmp_path: Path, from_nothing: bool) -> None:
    """Indexes, snapshots and epochs can be learnt from the log again; none of them is a reason not to serve it."""
    log = open_log(tmp_path, CONFIG)
    for i in range(40):
        log.append_batch(
            batch(VALUES, timestamp=NOW + i, producer_id=7, producer_epoch=0, base_sequence=i),
            leader_epoch=i // 25, now_ms=NOW,
        )  # fmt: skip
    epochs = log.epochs.entries()
    if from_nothing:
        for path in log.dir.iterdir():
            if path.suffix != ".log":
                path.unlink()
    ops = FaultyOps(errno.ENOSPC)
    ops.fail = {"pwrite": 1}
    log = open_log(tmp_path, CONFIG, ops=ops)
    assert (log.log_end_offset, log.epochs.entries()) == (40, epochs)
    assert [row.base_offset for row in stored(log)] == list(range(40))
    found = found_by_time(log, NOW + 17)
    assert found is not None
    assert found.offset == 17
    again = batch(VALUES, timestamp=NOW + 39, producer_id=7, producer_epoch=0, base_sequence=39)
    assert log.append_batch(again, leader_epoch=1, now_ms=NOW).first_offset == 39
    with pytest.raises(KafkaStorageError):
        append(log, 1)
    with pytest.raises(KafkaStorageError, match="Cannot flush"):
        log.flush()
    assert (log.offline, log.recovery_point) == (None, 0)
    ops.heal()
    append(log, 1)
    log.close()
    log = open_log(tmp_path, CONFIG, clean=True, recovery_point=41)
    assert (log.log_end_offset, log.epochs.entries()) == (41, epochs)
    assert [found_by_time(log, NOW + i).offset for i in range(40)] == list(range(40))  # type: ignore[union-attr]


def test_aborted_transactions_are_not_forgotten_for_a_full_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    prepared(log)
    abort(log)
    aborted = log.active_segment.aborted.index.items()
    ops = FaultyOps(errno.ENOSPC)
    ops.fail = {"pwrite": 1}
    with pytest.raises(OSError, match="injected"):
        open_log(tmp_path, CONFIG, ops=ops)
    assert open_log(tmp_path, CONFIG).active_segment.aborted.index.items() == aborted != []


def test_an_index_that_cannot_be_mapped_fails_no_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is written by then: an error would have its offsets given out again."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    with monkeypatch.context() as patch:

        def no_memory(*args: object, **kwargs: object) -> None:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

        patch.setattr(mmap, "mmap", no_memory)
        for i in range(1500):
            log.append_batch(batch(VALUES, timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
    assert [row.base_offset for row in stored(log)] == list(range(1500))
    assert log.active_segment.time_index.entries == 1499
    found = found_by_time(log, NOW + 1200)
    assert found is not None
    assert found.offset == 1200


@pytest.mark.parametrize("offset", [3, 7, 0], ids=["within a segment", "between segments", "fully"])
def test_a_truncation_without_descriptors_changes_nothing(tmp_path: Path, offset: int) -> None:
    """It is refused before the first file is touched, or it is done."""
    outcomes = set()
    for left in range(16):
        log = open_log(tmp_path / str(left), CONFIG)
        prepared(log)
        roll_by_size(log)
        before = stored(log)
        with descriptors_left(left):
            try:
                if offset:
                    log.truncate_to(offset, now_ms=NOW)
                else:
                    log.truncate_fully_and_start_at(20, now_ms=NOW)
            except KafkaStorageError:
                outcomes.add("refused")
                kept, end = before, before[-1].last_offset + 1
            else:
                outcomes.add("done")
                kept, end = before[:offset], offset or 20
        assert (log.offline, log.log_end_offset) == (None, end), left
        assert stored(log) == kept, left
        append(log)
        log.close()
    assert outcomes == {"refused", "done"}


def test_a_flush_without_descriptors_takes_nothing_offline(tmp_path: Path) -> None:
    """It says nothing about the device, and the next flush makes up for it."""
    ops = FaultyOps(errno.EMFILE)
    log = open_log(tmp_path, ops=ops)
    failed = 0
    for at in range(1, 20):
        append(log)
        log.roll(NOW)
        ops.fail["open"] = at
        try:
            log.flush()
        except KafkaStorageError:
            failed += 1
            assert log.recovery_point < log.log_end_offset
        ops.heal()
        assert log.offline is None
        log.flush()
        assert (log.recovery_point, log.names_unsynced) == (log.log_end_offset, False)
    assert failed
