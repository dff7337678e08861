"""Tests of all logs of a broker: loading, checkpoints, clean and unclean stops, failing directories, deletion."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from uuid import UUID

import pytest

from broker.log.directories.checkpoints import read_offsets, write_offsets
from broker.log.directories.log_dir import InconsistentClusterIdError, LogDirLockedError, LogDirUnusableError
from broker.log.files.file_ops import OS, FileOps
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.recovery.loading import DuplicateLogError
from kafkalog.protocol.errors import InconsistentTopicIdError, KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.support import NOW, FaultyOps, batch, descriptors_left, stored

CONFIG = LogConfig(segment_bytes=1000, file_delete_delay_ms=50, retention_bytes=2000)


@pytest.fixture
def managers() -> Iterator[list[LogManager]]:
    """Those that a test makes; their locks are let go when it ends."""
    made: list[LogManager] = []
    yield made
    for manager in made:
        manager.unlock()


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


def start(
    managers: list[LogManager], *paths: Path, ops: FileOps = OS, clock: Clock | None = None, load: bool = True
) -> LogManager:
    manager = LogManager(paths, CONFIG, clock=clock or Clock(), ops=ops)
    managers.append(manager)
    if load:
        manager.load_all()
    return manager


def fill(manager: LogManager, topic: str, partition: int = 0, count: int = 10) -> None:
    log = manager.create(topic, partition)
    for _ in range(count):
        log.append_batch(batch(2, size=50), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset


def test_everything_comes_back_after_a_clean_stop(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    fill(manager, "with-dash", 12)
    log = manager.get("a", 0)
    assert log is not None
    log.high_watermark = 15
    log.delete_records(3)
    expected = {(log.topic, log.partition): stored(log) for log in manager}
    assert manager.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = start(managers, tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "a crash from now on is seen"
    assert {(log.topic, log.partition): stored(log) for log in again} == expected
    log = again.get("a", 0)
    assert log is not None
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (3, 15, 20)


def test_checkpoint_files_have_kafkas_names_and_rows(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    fill(manager, "b", 1, count=2)
    log = manager.get("a", 0)
    assert log is not None
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
    log = start(managers, tmp_path).get("a", 0)
    assert log is not None
    assert log.log_end_offset == 18


def test_a_checkpoint_that_does_not_read_means_check_everything(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    assert manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text("1\n1\na 0 9\n")
    log = start(managers, tmp_path).get("a", 0)
    assert log is not None
    assert (log.log_end_offset, log.high_watermark) == (20, 0)


def test_a_row_that_does_not_read_is_no_reason_to_forget_the_others(
    tmp_path: Path, managers: list[LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    """Records that clients deleted from the other topics would be back."""
    manager = start(managers, tmp_path)
    fill(manager, "a")
    log = manager.get("a", 0)
    assert log is not None
    log.delete_records(13)
    assert manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        path = tmp_path / name
        rows = path.read_text().splitlines()[2:]
        path.write_text("\n".join(["0", "2", "x", " 0 5", *rows]) + "\n")
    caplog.clear()
    log = start(managers, tmp_path).get("a", 0)
    assert log is not None
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
    log = manager.get("a", 0)
    assert log is not None
    log.delete_records(13)
    manager.checkpoints.write_all()
    manager.checkpoints.write_all()
    assert len([entry for entry in caplog.records if "'x\\n'" in entry.message]) == 1
    manager.unlock()
    again = start(managers, tmp_path)
    log, spoiler = again.get("a", 0), again.get("x\n", 0)
    assert log is not None
    assert spoiler is not None
    assert (log.log_start_offset, log.log_end_offset, spoiler.log_end_offset) == (13, 20, 20)
    assert "read" not in caplog.text


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        LogDirUnusableError, match=f"log.dirs: cannot use the directory {tmp_path}/file: Not a directory"
    ):
        LogManager([tmp_path / "file"], CONFIG, clock=Clock())
    with pytest.raises(LogDirUnusableError, match="file/below: Not a directory"):
        LogManager([tmp_path / "file" / "below"], CONFIG, clock=Clock())


def test_a_directory_is_one_brokers(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    with pytest.raises(LogDirLockedError, match="another broker"):
        LogManager([tmp_path], CONFIG, clock=Clock())
    manager.claim("cluster", 3)
    assert (manager.stored_cluster_id(), manager.stored_broker_id()) == ("cluster", 3)
    manager.shutdown()
    again = start(managers, tmp_path)
    again.claim("cluster", 3)
    with pytest.raises(InconsistentClusterIdError):
        again.claim("other", 3)
    with pytest.raises(InconsistentClusterIdError):
        again.claim("cluster", 4)


def test_new_partitions_go_where_there_are_fewest(tmp_path: Path, managers: list[LogManager]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    manager = start(managers, one, two)
    for partition in range(6):
        manager.create("t", partition)
    assert len(list(one.glob("t-*"))) == len(list(two.glob("t-*"))) == 3


def test_a_partition_in_two_directories_is_refused(tmp_path: Path, managers: list[LogManager]) -> None:
    for name in ("one", "two"):
        manager = start(managers, tmp_path / name)
        manager.create("t", 0)
        manager.shutdown()
    with pytest.raises(DuplicateLogError, match="t-0"):
        start(managers, tmp_path / "one", tmp_path / "two")


def test_creating_twice_gives_the_same_log_of_the_same_topic(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    log = manager.create("t", 0)
    assert manager.create("t", 0, UUID(int=7)) is log
    assert (tmp_path / "t-0" / "partition.metadata").exists()
    with pytest.raises(InconsistentTopicIdError):
        manager.create("t", 0, UUID(int=8))
    assert len(manager) == 1
    assert manager.get("t", 1) is None


def test_a_deleted_partition_can_be_made_again_at_once(tmp_path: Path, managers: list[LogManager]) -> None:
    clock = Clock()
    manager = start(managers, tmp_path, clock=clock)
    fill(manager, "t")
    manager.delete("t", 0)
    assert manager.get("t", 0) is None
    assert manager.create("t", 0).log_end_offset == 0
    assert len(list(tmp_path.glob("*-delete"))) == 1
    assert manager.run_deletions(NOW + 49) == 0
    assert manager.run_deletions(NOW + 50) == 1
    assert not list(tmp_path.glob("*-delete"))


def test_what_was_to_be_removed_is_removed_after_a_restart(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "t")
    manager.delete("t", 0)
    manager.shutdown()
    again = start(managers, tmp_path)
    assert len(again) == 0
    assert again.run_deletions(NOW) == 1
    assert not list(tmp_path.glob("*-delete"))


def test_stray_and_foreign_directories_are_left_alone(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "t")
    manager.set_aside("t", 0)
    manager.shutdown()
    (tmp_path / "lost+found").mkdir()
    again = start(managers, tmp_path)
    assert len(again) == 0
    assert len(list(tmp_path.glob("*-stray"))) == 1


def test_periodic_work_covers_every_log(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    for topic in ("a", "b"):
        fill(manager, topic, count=40)
    assert manager.run_flushes(NOW) == 2
    assert all(log.recovery_point == log.active_segment.base_offset for log in manager)
    segments = sum(len(log.segments) for log in manager)
    gone = manager.run_retention(NOW)
    assert gone > 0
    assert sum(len(log.segments) for log in manager) == segments - gone
    assert manager.run_retention(NOW) == 0
    assert all(0 < log.size <= 3000 for log in manager)
    assert manager.run_deletions(NOW + 50) > 0


def test_a_directory_that_fails_goes_offline_alone(tmp_path: Path, managers: list[LogManager]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"

    class FailsInOne(FileOps):
        def rename(self, source: str, target: str) -> None:
            if target.startswith(str(one)):
                raise OSError(errno.EIO, "Input/output error")
            super().rename(source, target)

    manager = start(managers, one, two, ops=FailsInOne())
    for partition in range(2):
        manager.create("t", partition)
    manager.checkpoints.write_recovery_points()
    assert [directory.offline is not None for directory in manager.log_dirs] == [True, False]
    for log in manager:
        if log.dir.parent == one:
            with pytest.raises(KafkaStorageError, match="offline"):
                log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
        else:
            log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    assert manager.create("u", 0).dir.parent == two
    assert not manager.shutdown()
    assert not (one / names.CLEAN_SHUTDOWN).exists()
    assert (two / names.CLEAN_SHUTDOWN).exists()


def test_a_log_that_cannot_be_closed_leaves_no_marker(tmp_path: Path, managers: list[LogManager]) -> None:
    ops = FaultyOps()
    manager = start(managers, tmp_path, ops=ops)
    fill(manager, "t")
    ops.fail["fsync"] = 1
    log = manager.get("t", 0)
    assert log is not None
    with pytest.raises(KafkaStorageError):
        log.flush()
    ops.heal()
    assert not manager.shutdown()
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()
    again = start(managers, tmp_path).get("t", 0)
    assert again is not None
    assert again.log_end_offset == 20


class MeetingOps(FileOps):
    """The recovery of a directory's first index waits for another directory's."""

    __slots__ = ("barrier", "met")

    def __init__(self) -> None:
        self.barrier = Barrier(2)
        self.met: set[str] = set()

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        directory = str(Path(path).parent)
        if path.endswith(names.INDEX) and directory not in self.met:
            self.met.add(directory)
            self.barrier.wait(20)
        return super().open(path, flags, mode)


def test_log_directories_are_recovered_at_the_same_time(tmp_path: Path, managers: list[LogManager]) -> None:
    """Each has threads of its own, for each may be a disk of its own: num.recovery.threads.per.data.dir."""
    paths = tmp_path / "a", tmp_path / "b"
    manager = start(managers, *paths)
    for topic in ("t", "u"):
        fill(manager, topic)
    manager.unlock()
    assert {log.log_dir for log in manager} == set(paths)
    again = LogManager(paths, CONFIG, clock=Clock(), num_recovery_threads=1, ops=MeetingOps())
    managers.append(again)
    again.load_all()
    assert {log.log_end_offset for log in again} == {20}


class FewDescriptors(FileOps):
    """No file of partition t-0 can be opened for the first so many times."""

    __slots__ = ("refusals",)

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if "/t-0/" in path and self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().open(path, flags, mode)


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_finds_no_descriptor_is_loaded_after_the_others(
    tmp_path: Path, managers: list[LogManager], clean: bool
) -> None:
    manager = start(managers, tmp_path)
    for topic in ("t", "u"):
        fill(manager, topic)
    if clean:
        assert manager.shutdown()
    manager.unlock()
    ops = FewDescriptors(1)
    again = start(managers, tmp_path, ops=ops)
    assert not ops.refusals
    assert {log.topic: log.log_end_offset for log in again} == {"t": 20, "u": 20}
    assert again.online_dirs


def test_logs_are_loaded_with_few_descriptors_or_the_reason_is_told(
    tmp_path: Path, managers: list[LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    manager = start(managers, tmp_path / "a", tmp_path / "b")
    for partition in range(20):
        fill(manager, "t", partition)
    manager.unlock()
    outcomes = set()
    for left in range(4, 40, 3):
        again = start(managers, tmp_path / "a", tmp_path / "b", load=False)
        with descriptors_left(left), suppress(LogDirUnusableError):
            again.load_all()
        for directory in again.offline_dirs:
            assert "ulimit -n" in (directory.offline or "")
            outcomes.add("offline")
        if not again.offline_dirs:
            outcomes.add("loaded")
            assert [log.log_end_offset for log in again] == [20] * 20
        again.unlock()
    assert "loaded" in outcomes


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
    log = manager.get("t", 0)
    assert log is not None
    assert (log.cleaned_offset, log.log_end_offset) == (0, 18)
    fill(manager, "t", count=later)
    manager.unlock()
    log = start(managers, tmp_path).get("t", 0)
    assert log is not None
    assert log.cleaned_offset == 0


def test_truncation_lowers_the_checkpoint_of_the_recovery_point(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "t")
    log = manager.get("t", 0)
    assert log is not None
    log.flush()
    manager.checkpoints.write_recovery_points()
    manager.truncate_to("t", 0, 6)
    assert read_offsets(str(tmp_path / "recovery-point-offset-checkpoint")) == {("t", 0): 6}


def test_a_topic_of_a_deleted_ones_name_is_not_read_by_the_old_ones_checkpoints(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    """Its rows in the checkpoints would hide the new topic's records, or vouch for them, after a crash."""
    manager = start(managers, tmp_path)
    fill(manager, "t")
    old = manager.get("t", 0)
    assert old is not None
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
    after_crash = start(managers, tmp_path).get("t", 0)
    assert after_crash is not None
    assert (after_crash.log_start_offset, after_crash.log_end_offset) == (0, 10)


def test_the_checkpoints_of_a_topic_deleted_before_a_restart_are_forgotten_too(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "t")
    log = manager.get("t", 0)
    assert log is not None
    log.delete_records(18)
    manager.checkpoints.write_log_start_offsets()
    manager.delete("t", 0)
    manager.unlock()
    again = start(managers, tmp_path)
    fill(again, "t", count=5)
    again.unlock()
    after_crash = start(managers, tmp_path).get("t", 0)
    assert after_crash is not None
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


def test_the_names_of_many_deleted_logs_are_forced_to_the_device_once(
    tmp_path: Path, managers: list[LogManager]
) -> None:
    ops = FaultyOps()
    manager = start(managers, tmp_path, ops=ops)
    for partition in range(20):
        manager.create("t", partition)
    ops.calls.clear()
    for partition in range(20):
        manager.delete("t", partition, sync=False)
    assert not [call for call in ops.calls if call[0] == "fsync_dir"]
    manager.sync_directories()
    assert [call for call in ops.calls if call[0] == "fsync_dir"] == [("fsync_dir", str(tmp_path))]
    ops.fail["fsync_dir"] = 1
    with pytest.raises(KafkaStorageError, match=str(tmp_path)):
        manager.sync_directories()


def test_a_log_that_needs_room_to_be_loaded_says_what_to_do(tmp_path: Path, managers: list[LogManager]) -> None:
    """A directory without a segment: the first one has to be made."""
    (tmp_path / "t-0").mkdir()
    ops = FaultyOps(errno.ENOSPC)
    ops.fail["ftruncate"] = 1
    with pytest.raises(LogDirUnusableError, match="Make room on its file system and start the broker again"):
        start(managers, tmp_path, ops=ops)


def test_a_full_disk_does_not_flood_the_log(
    tmp_path: Path, managers: list[LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    ops = FaultyOps()
    log = start(managers, tmp_path, ops=ops).create("t", 0)
    ops.fail["pwrite"] = 1
    for _ in range(50):
        with pytest.raises(KafkaStorageError):
            log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    lines = [record.getMessage() for record in caplog.records if "Cannot append" in record.getMessage()]
    assert len(lines) == 1
    assert "injected failure" in lines[0]
    ops.heal()
    assert log.append_batch(batch(), leader_epoch=0, now_ms=NOW).first_offset == 0
