"""Tests of all logs of a broker: loading, clean and unclean stops, failing directories, deletion, full disks."""

from __future__ import annotations

import errno
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest

from broker.log.directories.log_dir import InconsistentClusterIdError, LogDirLockedError, LogDirUnusableError
from broker.log.files.file_ops import FileOps
from broker.log.log import Log
from broker.log.log_manager import LogManager
from broker.log.recovery.loading import DuplicateLogError, LoadingStoppedError
from broker.log.retention.retention_turns import run_retention
from kafkalog.protocol.errors import InconsistentTopicIdError, KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.managers import CONFIG, Clock, fill, log_of, start
from tests.broker.log.support import NOW, FaultyOps, batch, descriptors_left, stored


def test_everything_comes_back_after_a_clean_stop(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path)
    fill(manager, "a")
    fill(manager, "with-dash", 12)
    log = log_of(manager, "a")
    log.high_watermark = 15
    log.delete_records(3)
    expected = {(log.topic, log.partition): stored(log) for log in manager}
    assert manager.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = start(managers, tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "a crash from now on is seen"
    assert {(log.topic, log.partition): stored(log) for log in again} == expected
    log = log_of(again, "a")
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (3, 15, 20)


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


AS_JAVA = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
    sys.stdin.read()
"""
"""A process that locks a file as Java does."""


def test_apache_kafka_and_this_broker_do_not_use_one_directory(
    processes: None, tmp_path: Path, managers: list[LogManager]
) -> None:
    command = [sys.executable, "-c", AS_JAVA, str(tmp_path / ".lock")]
    manager = start(managers, tmp_path)
    # Another manager of this process does not end the lock when it is refused.
    with pytest.raises(LogDirLockedError, match="another broker"):
        LogManager([tmp_path], CONFIG, clock=Clock())
    refused = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert "BlockingIOError" in refused.stderr
    manager.shutdown()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LogDirLockedError, match="another broker"):
            LogManager([tmp_path], CONFIG, clock=Clock())
        other.communicate()
    start(managers, tmp_path)


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
    assert manager.has_deletions
    assert manager.run_deletions(NOW + 50) == 1
    assert not manager.has_deletions
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
    gone = sum(run_retention(manager, NOW))
    assert gone > 0
    assert sum(len(log.segments) for log in manager) == segments - gone
    assert sum(run_retention(manager, NOW)) == 0
    assert all(0 < log.size <= 3000 for log in manager)
    assert manager.run_deletions(NOW + 49) == 0
    assert manager.has_deletions
    assert manager.run_deletions(NOW + 50) > 0
    manager.run_deletions(NOW + 50)
    assert not manager.has_deletions


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
    log = log_of(manager, "t")
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


@pytest.mark.parametrize("clean", [False, True])
def test_loading_ends_with_the_log_at_which_it_is_told_to(
    tmp_path: Path, managers: list[LogManager], monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    manager = start(managers, tmp_path)
    for topic in ("t", "u", "v"):
        fill(manager, topic, count=1)
    if clean:
        assert manager.shutdown()
    manager.unlock()
    again = LogManager([tmp_path], CONFIG, clock=Clock(), num_recovery_threads=1)
    managers.append(again)
    opened = []

    def open_and_stop(path: str, *words: Any, **options: Any) -> Log:
        opened.append(Path(path).name)
        again.stop_loading()
        return opening(path, *words, **options)

    opening = Log.open
    monkeypatch.setattr(Log, "open", open_and_stop)
    with pytest.raises(LoadingStoppedError):
        again.load_all()
    assert opened == ["t-0"]
    assert not again.is_loaded


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
