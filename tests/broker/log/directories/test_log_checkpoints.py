"""Tests of the checkpoints of all logs: kept at stops, damaged, lowered by truncations, rid of deleted topics."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.log.directories.checkpoints import read_offsets, write_offsets
from broker.log.log_manager import LogManager
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.managers import fill, log_of, start
from tests.broker.log.support import NOW, FaultyOps


def test_checkpoint_files_have_kafkas_names_and_rows(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    fill(manager, "b", 1, count=2)
    log = log_of(manager, "a")
    log.flush()
    log.delete_records(1)
    manager.checkpoints.write_recovery_points()
    manager.checkpoints.write_log_start_offsets()
    manager.checkpoints.write_high_watermarks()
    assert read_offsets(str(tmp_path / "recovery-point-offset-checkpoint")) == {("a", 0): 20, ("b", 1): 0}
    assert read_offsets(str(tmp_path / "log-start-offset-checkpoint")) == {("a", 0): 1}
    assert read_offsets(str(tmp_path / "replication-offset-checkpoint")) == {("a", 0): 20, ("b", 1): 4}


def test_without_a_marker_logs_are_checked_from_their_recovery_points(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    manager.unlock()
    path = next(iter(sorted((tmp_path / "a-0").glob("*.log"), reverse=True)))
    path.write_bytes(path.read_bytes()[:-3])
    log = log_of(start(managers, tmp_path), "a")
    assert log.log_end_offset == 18


def test_a_checkpoint_that_does_not_read_means_check_everything(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    assert manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text("1\n1\na 0 9\n")
    log = log_of(start(managers, tmp_path), "a")
    assert (log.log_end_offset, log.high_watermark) == (20, 0)


def test_a_row_that_does_not_read_is_no_reason_to_forget_the_others(
    tmp_path: Path, managers: list[LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    """Records that clients deleted from the other topics would be back."""
    manager = start(managers, tmp_path)
    log = fill(manager, "a")
    log.delete_records(13)
    assert manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        path = tmp_path / name
        rows = path.read_text().splitlines()[2:]
        path.write_text("\n".join(["0", "2", "x", " 0 5", *rows]) + "\n")
    caplog.clear()
    log = log_of(start(managers, tmp_path), "a")
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (13, 20, 20)
    warnings = [entry.message for entry in caplog.records if entry.levelname == "WARNING"]
    assert len(warnings) == 3
    assert all("line 3" in text and "line 4" in text for text in warnings)


def test_a_topic_whose_name_would_break_rows_spoils_no_checkpoint(
    tmp_path: Path, managers: list[LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers of before have created such topics."""
    manager = start(managers, tmp_path)
    fill(manager, "a")
    fill(manager, "x\n")
    log = log_of(manager, "a")
    log.delete_records(13)
    manager.checkpoints.write_all()
    manager.checkpoints.write_all()
    assert len([entry for entry in caplog.records if "'x\\n'" in entry.message]) == 1
    manager.unlock()
    again = start(managers, tmp_path)
    log, spoiler = log_of(again, "a"), log_of(again, "x\n")
    assert (log.log_start_offset, log.log_end_offset, spoiler.log_end_offset) == (13, 20, 20)
    assert "read" not in caplog.text


@pytest.mark.parametrize("later", [0, 10])
def test_a_log_that_was_cut_is_not_clean_beyond_its_end(tmp_path: Path, managers: list[LogManager], later: int) -> None:
    """Nor is what is appended there, when the next start finds the checkpoint of before."""
    manager = start(managers, tmp_path)
    fill(manager, "t")
    write_offsets(str(tmp_path / names.CLEANER_CHECKPOINT), {("t", 0): 20})
    last = max(tmp_path.glob("t-0/*.log"))
    os.truncate(last, last.stat().st_size - 1)
    manager.unlock()
    manager = start(managers, tmp_path)
    log = log_of(manager, "t")
    assert (log.cleaned_offset, log.log_end_offset) == (0, 18)
    fill(manager, "t", count=later)
    manager.unlock()
    log = log_of(start(managers, tmp_path), "t")
    assert log.cleaned_offset == 0


def test_truncation_lowers_the_checkpoint_of_the_recovery_point(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    log = fill(manager, "t")
    log.flush()
    manager.checkpoints.write_recovery_points()
    log.truncate_to(6, now_ms=NOW)
    manager.checkpoints.lower_recovery_points()
    assert read_offsets(str(tmp_path / "recovery-point-offset-checkpoint")) == {("t", 0): 6}


@pytest.mark.parametrize("is_full", [False, True])
def test_a_truncation_lowers_the_checkpoint_of_the_cleaned_offset(
    tmp_path: Path, managers: list[LogManager], is_full: bool
) -> None:
    """Else the next start would take what is appended there for clean, and deleted keys could return."""
    ops = FaultyOps(errno.ENOSPC)
    manager = start(managers, tmp_path, ops=ops)
    log = fill(manager, "t")
    log.cleaned_offset = 12
    assert manager.checkpoints.write_cleaned_offsets()
    if is_full:
        ops.fail = {"pwrite": 1}
    log.truncate_to(6, now_ms=NOW)
    manager.checkpoints.lower_recovery_points()
    if is_full:
        assert read_offsets(str(tmp_path / names.CLEANER_CHECKPOINT)) == {("t", 0): 12}
        ops.heal()
        manager.checkpoints.lower_recovery_points()
    fill(manager, "t")
    manager.unlock()
    assert log_of(start(managers, tmp_path), "t").cleaned_offset == 6


def test_a_truncation_of_what_is_not_clean_writes_no_cleaned_offset(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    log = fill(manager, "t")
    log.cleaned_offset = 6
    log.truncate_to(12, now_ms=NOW)
    manager.checkpoints.lower_recovery_points()
    assert not (tmp_path / names.CLEANER_CHECKPOINT).exists()


def test_a_topic_of_a_deleted_ones_name_is_not_read_by_the_old_ones_checkpoints(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    """Its rows in the checkpoints would hide the new topic's records, or vouch for them, after a crash."""
    manager = start(managers, tmp_path)
    old = fill(manager, "t")
    old.flush()
    old.delete_records(18)
    manager.checkpoints.write_recovery_points()
    manager.checkpoints.write_log_start_offsets()
    manager.checkpoints.write_high_watermarks()
    manager.delete("t", 0)
    fill(manager, "t", count=5)
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT):
        assert ("t", 0) not in read_offsets(str(tmp_path / name))
    manager.unlock()
    after_crash = log_of(start(managers, tmp_path), "t")
    assert (after_crash.log_start_offset, after_crash.log_end_offset) == (0, 10)


def test_the_checkpoints_of_a_topic_deleted_before_a_restart_are_forgotten_too(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    manager = start(managers, tmp_path)
    log = fill(manager, "t")
    log.delete_records(18)
    manager.checkpoints.write_log_start_offsets()
    manager.delete("t", 0)
    manager.unlock()
    again = start(managers, tmp_path)
    fill(again, "t", count=5)
    again.unlock()
    after_crash = log_of(start(managers, tmp_path), "t")
    assert (after_crash.log_start_offset, after_crash.log_end_offset) == (0, 10)


def test_a_topic_is_not_made_while_old_checkpoints_cannot_be_rewritten(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "t")
    manager.checkpoints.write_recovery_points()
    manager.delete("t", 0)
    (tmp_path / (names.RECOVERY_POINT_CHECKPOINT + ".tmp")).mkdir()
    with pytest.raises(KafkaStorageError):
        manager.create("t", 0)
    assert not (tmp_path / "t-0").exists()


def test_checkpoints_asked_for_by_many_threads_at_once_are_written_one_after_the_other(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "t")
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(manager.checkpoints.write_recovery_points) for _ in range(400)]:
            done.result()
    assert manager.log_dirs[0].offline is None
    assert read_offsets(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT)) == {("t", 0): 0}
