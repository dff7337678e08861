"""Tests of flushes: when one is due, what it forces to the device, and what a failure means."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from broker.log.files.file_ops import FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.support import NOW, FaultyOps, batch, open_log


class RecreatedOps(FileOps):
    """Calls `at_index` while the offset index is forced to the device."""

    __slots__ = ("at_index",)

    def __init__(self) -> None:
        self.at_index: Callable[[], None] | None = None

    def fsync(self, fd: int) -> None:
        if self.at_index is not None and os.readlink(f"/proc/self/fd/{fd}").endswith(names.INDEX):
            self.at_index()
            self.at_index = None
        super().fsync(fd)


def test_a_flush_syncs_log_then_indexes_then_names_and_moves_the_recovery_point(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), ops=ops)
    for _ in range(3):
        log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    assert (log.recovery_point, log.unflushed_records) == (0, 6)
    ops.calls.clear()
    log.flush()
    assert (log.recovery_point, log.unflushed_records) == (6, 0)
    synced = [what for call, what in ops.calls if call in ("fsync", "fsync_dir")]
    assert [os.path.basename(str(what)) for what in synced] == [
        "00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", "t-0",
        tmp_path.name,
    ]  # fmt: skip
    index = (log.dir / "00000000000000000000.index").read_bytes()
    assert index[:16] == bytes.fromhex("00000003 00000073 00000005 000000e6")
    ops.calls.clear()
    log.flush()
    assert ops.calls == [], "nothing new, nothing to force"


def test_a_second_flush_syncs_no_index_that_has_not_changed(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, ops=ops)
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    log.flush()
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    ops.calls.clear()
    log.flush()
    assert [os.path.basename(str(what)) for call, what in ops.calls if call == "fsync"] == ["00000000000000000000.log"]


def test_a_flush_forces_the_name_of_a_file_with_a_new_leader_epoch(tmp_path: Path) -> None:
    """The append forces only the file, which is one wait for the device instead of two."""
    ops = FaultyOps()
    log = open_log(tmp_path, ops=ops)
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    log.flush()
    ops.calls.clear()
    log.append_batch(batch(), leader_epoch=3, now_ms=NOW)
    calls = [call for call, _ in ops.calls]
    assert (calls.count("fsync"), calls.count("fsync_dir")) == (1, 0)
    log.append_batch(batch(), leader_epoch=3, now_ms=NOW)
    assert log.names_unsynced
    ops.calls.clear()
    log.flush()
    assert ("fsync_dir", str(log.dir)) in ops.calls
    assert (log.recovery_point, log.names_unsynced) == (3, False)


def test_due_by_messages_by_time_and_by_a_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=5, flush_ms=1000))
    log.append_batch(batch(4), leader_epoch=0, now_ms=NOW)
    assert log.flush_due(NOW + 999) is None
    assert log.flush_due(NOW + 1000) == 4
    log.append_batch(batch(1), leader_epoch=0, now_ms=NOW + 10)
    assert log.flush_due(NOW + 10) == 5
    log.flush()
    assert log.flush_due(NOW + 5000) is None
    log.append_batch(batch(1), leader_epoch=0, now_ms=NOW + 6000)
    assert log.flush_due(NOW + 6500) is None, "counted from the first unflushed append"
    log.roll(NOW + 6500)
    assert log.flush_due(NOW + 6500) == 6
    assert log.flush_if_due(NOW + 6500)
    assert log.recovery_point == 6
    assert not log.flush_if_due(NOW + 6500)


def test_a_failed_flush_takes_the_log_offline_for_appends_but_not_for_reads(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, ops=ops)
    log.append_batch(batch(3), leader_epoch=0, now_ms=NOW)
    ops.fail["fsync"] = 1
    with pytest.raises(KafkaStorageError):
        log.flush()
    assert log.recovery_point == 0
    with pytest.raises(KafkaStorageError, match="offline"):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    with pytest.raises(KafkaStorageError, match="offline"):
        log.flush()
    with pytest.raises(KafkaStorageError, match="not closed cleanly"):
        log.close()
    assert log.read(0, 1 << 20).size > 0


class SlowSync(FileOps):
    """An fsync on any other thread than the one that made this waits until it is told to go on."""

    __slots__ = ("entered", "go_on", "owner")

    def __init__(self) -> None:
        self.entered, self.go_on, self.owner = Event(), Event(), current_thread()

    def fsync(self, fd: int) -> None:
        if current_thread() is not self.owner:
            self.entered.set()
            assert self.go_on.wait(30)
        super().fsync(fd)


def during_a_flush(log: Log, ops: SlowSync | SlowOpen) -> Thread:
    worker = Thread(target=log.flush)
    worker.start()
    assert ops.entered.wait(30)
    return worker


def test_appends_and_rolls_during_a_flush_are_not_vouched_for(tmp_path: Path) -> None:
    ops = SlowSync()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), ops=ops)
    log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    worker = during_a_flush(log, ops)
    log.append_batch(batch(3), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    ops.go_on.set()
    worker.join(30)
    assert log.recovery_point == 2
    assert log.flush_due(NOW) == 5
    log.flush()
    assert log.recovery_point == 6
    first = log.segments[0]
    assert first.offset_index.items() == [(4, batch(2).nbytes)]
    assert Path(first.path(".index")).stat().st_size == 8


def test_truncation_during_a_flush_keeps_the_recovery_point_down(tmp_path: Path) -> None:
    ops = SlowSync()
    log = open_log(tmp_path, ops=ops)
    for _ in range(3):
        log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    worker = during_a_flush(log, ops)
    log.truncate_to(2, now_ms=NOW)
    log.append_batch(batch(2), leader_epoch=1, now_ms=NOW)
    ops.go_on.set()
    worker.join(30)
    assert log.recovery_point <= 2


class SlowOpen(FileOps):
    """Opening an offset index on another thread waits until it is told to go on."""

    __slots__ = ("entered", "go_on", "owner")

    def __init__(self) -> None:
        self.entered, self.go_on, self.owner = Event(), Event(), current_thread()

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if current_thread() is not self.owner and path.endswith(".index"):
            self.entered.set()
            assert self.go_on.wait(30)
        return super().open(path, flags, mode)


class ResumesOnRename(SlowOpen):
    """Lets the flush go on, and end, when the owner has given a certain file another name."""

    __slots__ = ("ending", "worker")

    def __init__(self, ending: str) -> None:
        super().__init__()
        self.ending = ending
        self.worker: Thread | None = None

    def rename(self, source: str, target: str) -> None:
        try:
            super().rename(source, target)
        finally:
            if self.worker is not None and source.endswith(self.ending):
                self.go_on.set()
                self.worker.join(30)


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", ".txnindex"])
def test_a_flush_that_ends_while_the_log_begins_anew_neither_fails_nor_vouches(tmp_path: Path, ending: str) -> None:
    ops = ResumesOnRename(ending)
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), ops=ops)
    for _ in range(3):
        log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    ops.worker = during_a_flush(log, ops)
    log.truncate_fully_and_start_at(3, now_ms=NOW)
    assert not ops.worker.is_alive()
    assert log.offline is None
    assert log.recovery_point <= 3
    log.append_batch(batch(2), leader_epoch=1, now_ms=NOW)
    log.flush()
    assert log.recovery_point == 5


def test_a_flush_puts_no_index_entries_back_that_a_truncation_cut_off(tmp_path: Path) -> None:
    ops = SlowOpen()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), ops=ops)
    for _ in range(8):
        log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    worker = during_a_flush(log, ops)
    log.truncate_to(4, now_ms=NOW)
    log.roll(NOW)
    first = log.segments[0]
    size = Path(first.path(".index")).stat().st_size
    ops.go_on.set()
    worker.join(30)
    assert log.offline is None
    assert Path(first.path(".index")).stat().st_size == size


def test_a_segment_deleted_during_a_flush_is_no_failure(tmp_path: Path) -> None:
    ops = SlowSync()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1, retention_ms=10), ops=ops)
    log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.append_batch(batch(2), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    worker = during_a_flush(log, ops)
    log.apply_retention(NOW + 1000)
    assert log.log_start_offset == 6
    ops.go_on.set()
    worker.join(30)
    assert log.offline is None
    log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    log.flush()
    assert log.recovery_point == 7


def test_a_flush_of_a_deleted_log_writes_nothing_into_the_next_one_of_its_name(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=1)
    log = open_log(tmp_path, config, ops=(ops := RecreatedOps()))
    for at in range(10):
        log.append_batch(batch(2, timestamp=NOW + at), leader_epoch=0, now_ms=NOW)
    made: list[Log] = []

    def recreate() -> None:
        log.rename_for_delete()
        made.append(open_log(tmp_path, config))

    ops.at_index = recreate
    log.flush()
    assert log.offline == "it was deleted"
    assert not any(Path(made[0].segments[0].path(names.TIME_INDEX)).read_bytes())


def test_closing_forces_the_indexes_that_it_trims(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), ops=ops)
    for i in range(3):
        log.append_batch(batch(2, timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
    log.flush()
    ops.calls.clear()
    log.close()
    synced = {os.path.basename(str(what)) for call, what in ops.calls if call == "fsync"}
    assert {"00000000000000000000.index", "00000000000000000000.timeindex"} <= synced


def test_the_indexes_of_a_rolled_segment_are_forced_though_its_records_were(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), ops=ops)
    for i in range(3):
        log.append_batch(batch(2, timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
    log.flush()
    log.roll(NOW)
    ops.calls.clear()
    log.flush(log.flush_due(NOW))
    synced = {os.path.basename(str(what)) for call, what in ops.calls if call == "fsync"}
    assert {"00000000000000000000.index", "00000000000000000000.timeindex"} <= synced


def test_logs_say_whether_a_worker_has_to_look_at_them(tmp_path: Path) -> None:
    resources = LogResources()
    chores = resources.chores
    log = open_log(tmp_path, LogConfig(flush_ms=1000), resources=resources)
    assert chores.flushes, "what was opened may have to be flushed"

    def look(now_ms: int) -> bool:
        chores.flushes = False
        log.flush_if_due(now_ms)
        return chores.flushes

    assert not look(NOW)
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    assert chores.flushes
    assert look(NOW + 999), "it becomes due without another record"
    assert look(NOW + 1000), "it was due"
    assert not look(NOW + 1001)
    log.append_batch(batch(), leader_epoch=0, now_ms=NOW + 2000)
    log.config = LogConfig()
    assert not look(NOW + 9000), "without an interval only a roll makes it due"
    log.config = LogConfig(flush_messages=1)
    assert chores.flushes
    assert look(NOW + 9000)
    assert log.unflushed_records == 0
    log.config = LogConfig()
    assert not look(NOW + 9000)
    log.roll(NOW + 9000)
    assert chores.flushes
