"""Test the power cuts that the search of `tests.crash.schedules` has found, each as its own case."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from uuid import UUID

import pytest

from broker.log.append.validation import Origin
from broker.log.directories.checkpoints import read_offsets
from broker.log.files.file_ops import FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.retention.retention_turns import run_retention
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log, stored
from tests.crash.lossy_disk import Disk, Entry, NoSync, RecordingOps

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=1200, file_delete_delay_ms=0)


def nothing(count: int) -> int:
    """Choose the outcome without the writes that were not forced to the device."""
    return 0


def everything(count: int) -> int:
    """Choose the outcome with all writes, also those that were not forced to the device."""
    return count - 1


class Recorded:
    """A directory and the record of what was done in it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "before"
        self.root.mkdir()
        self.after = root / "after"
        self.entries: list[Entry] = []
        self.ops = RecordingOps(self.entries.append)

    def cut(self, content: Callable[[int], int] = nothing, names: Callable[[int], int] | None = None) -> Path:
        """The directory after a power cut now."""
        disk = Disk(str(self.root))
        disk.play(self.entries)
        disk.image(self.after, content, names)
        return self.after


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        end = log.log_end_offset
        log.append_batch(batch((b"%050d" % end,), timestamp=NOW + end), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset


def begin_transaction(log: Log) -> None:
    """One record of producer 7."""
    data = batch(1, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_batch(data, leader_epoch=0, now_ms=NOW, in_transaction=True)


def offsets(log: Log) -> list[int]:
    return [row.base_offset for row in stored(log)]


def test_a_flush_after_a_kill_forces_the_names_that_the_process_before_it_gave(recorded: Recorded) -> None:
    fill(open_log(recorded.root, CONFIG, ops=recorded.ops), 12)
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    fill(log, 1)
    log.flush()
    assert log.recovery_point == 13
    assert offsets(open_log(recorded.cut(), CONFIG, recovery_point=13)) == list(range(13))


@pytest.mark.parametrize("reserved", [1, 40, 1000])
def test_a_roll_after_a_flush_of_everything_leaves_no_reserved_space(recorded: Recorded, reserved: int) -> None:
    size = 5 * len(batch((b"%050d" % 0,)))
    config = CONFIG.with_changes(preallocate=True, segment_bytes=size + reserved)
    log = open_log(recorded.root, config, ops=recorded.ops)
    fill(log, 5)
    log.flush()
    log.roll(NOW)
    again = open_log(recorded.cut(nothing, everything), config, recovery_point=log.recovery_point)
    assert offsets(again) == list(range(5))
    assert again.segments[0].size == log.segments[0].size


def test_the_end_of_a_rolled_segment_is_forced_by_the_flush_after_a_kill(recorded: Recorded) -> None:
    config = CONFIG.with_changes(preallocate=True)
    log = open_log(recorded.root, config, ops=recorded.ops)
    fill(log, 5)
    log.flush()
    log.roll(NOW)
    log = open_log(recorded.root, config, ops=recorded.ops, recovery_point=5)
    fill(log, 3)
    log.flush()
    again = open_log(recorded.cut(), config, recovery_point=8)
    assert offsets(again) == list(range(8))


@pytest.mark.parametrize("names_survive", [nothing, everything])
def test_segments_that_retention_removed_unflushed_are_not_believed_when_they_are_back(
    recorded: Recorded, names_survive: Callable[[int], int]
) -> None:
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    fill(log, 1)
    log.flush()
    fill(log, 20)
    log.config = CONFIG.with_changes(retention_bytes=500)
    assert log.apply_retention(NOW)
    point = log.recovery_point
    again = open_log(recorded.cut(nothing, names_survive), CONFIG, recovery_point=point)
    found = offsets(again)
    assert found == list(range(again.log_start_offset, again.log_end_offset))


def test_a_flush_after_retention_forces_the_removal(recorded: Recorded) -> None:
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    fill(log, 1)
    log.flush()
    fill(log, 20)
    log.config = CONFIG.with_changes(retention_bytes=500)
    assert log.apply_retention(NOW)
    log.flush()
    again = open_log(recorded.cut(), CONFIG, recovery_point=log.recovery_point)
    assert offsets(again) == list(range(log.log_start_offset, 21))


def test_a_deletion_is_not_flushed_records(recorded: Recorded) -> None:
    """A recovery point past bytes that nobody forced would have them believed unread."""
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    fill(log, 8)
    log.delete_records(6)
    assert log.recovery_point == 0


def test_segments_that_recovery_removed_do_not_come_back_behind_new_records(recorded: Recorded) -> None:
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    fill(log, 20)
    log.close()
    size, base = log.segments[0].size, log.segments[1].base_offset
    os.truncate(log.segments[0].path(names.LOG), size // 2)
    again = open_log(recorded.root, CONFIG, ops=recorded.ops)
    assert again.log_end_offset < base
    while again.log_end_offset < base:
        value = b"%050d" % (again.log_end_offset + 100)
        again.append_batch(batch((value,), timestamp=NOW), leader_epoch=0, now_ms=NOW)
    found = stored(open_log(recorded.cut(everything, nothing), CONFIG))
    assert [row.base_offset for row in found] == list(range(base))


def test_aborted_transactions_are_not_forgotten_by_a_crash_after_a_recovery(recorded: Recorded) -> None:
    """Their index is built anew, though everything is flushed; after a roll no recovery looks at it again."""
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    begin_transaction(log)
    log.append_batch(marker(7), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    log.flush()
    again = open_log(recorded.root, CONFIG, recovery_point=2, ops=recorded.ops)
    again.roll(NOW)

    def cuts_alone(count: int) -> int:
        # Of a write the last sectors behind its first, of which there are none.
        return min(2, count - 1)

    image = open_log(recorded.cut(cuts_alone, everything), CONFIG, recovery_point=2)
    assert image.active_segment.base_offset == 2
    assert [row[:3] for row in image.aborted_transactions(0, 2)] == [(7, 0, 1)]


def test_a_clean_stop_forces_the_name_of_a_new_transaction_index(recorded: Recorded) -> None:
    """After it nothing is recovered: readers of committed records would be given the aborted ones."""
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    begin_transaction(log)
    log.flush()
    log.append_batch(marker(7), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    log.close()
    image = open_log(recorded.cut(), CONFIG, clean=True)
    assert [row[:3] for row in image.aborted_transactions(0, 2)] == [(7, 0, 1)]


def test_a_crash_of_a_recovery_leaves_no_gap_that_looks_like_compactions(recorded: Recorded) -> None:
    """Wherever it happens, the next recovery ends the log where the first one would have."""
    config = CONFIG.with_changes(cleanup_policy=("compact",))
    log = open_log(recorded.root, CONFIG)
    fill(log, 20)
    log.close()
    path = Path(log.segments[0].path(names.LOG))
    size = log.segments[0].size
    data = path.read_bytes()
    path.write_bytes(data[: size // 2] + bytes(50) + data[size // 2 + 50 :])
    recorded.ops.adopt(recorded.root)
    open_log(recorded.root, config, ops=recorded.ops)
    whole = list(recorded.entries)
    adopted = sum(entry[0] == "adopt" for entry in whole)
    for at in range(adopted, len(whole) + 1):
        del recorded.entries[:]
        recorded.entries += whole[:at]
        for content in (nothing, everything):
            image = open_log(recorded.cut(content), config)
            assert offsets(image) == [0, 1, 2, 3], f"after {at - adopted} operations"
            shutil.rmtree(recorded.after)


@pytest.mark.parametrize("clean", [False, True])
def test_damage_before_the_recovery_point_keeps_no_log_from_opening(recorded: Recorded, clean: bool) -> None:
    """Producers that are known by no snapshot are learnt from the batches, and there are none to be read."""
    log = open_log(recorded.root, CONFIG, ops=recorded.ops)
    for i in range(20):
        log.append_batch(
            batch((b"%050d" % i,), timestamp=NOW, producer_id=5, producer_epoch=0, base_sequence=i),
            leader_epoch=0, now_ms=NOW,
        )  # fmt: skip
    log.close()
    for snapshot in log.dir.glob("*.snapshot"):
        snapshot.unlink()
    damaged = Path(log.segments[0].path(names.LOG))
    damaged.write_bytes(damaged.read_bytes()[:200] + bytes(300) + damaged.read_bytes()[500:])
    again = open_log(recorded.root, CONFIG, clean=clean, recovery_point=20)
    assert again.log_end_offset == 20
    assert again.producers.producers[5].next_sequence == 20


def manager(*directories: Path, ops: FileOps, config: LogConfig = CONFIG) -> LogManager:
    opened = LogManager(directories, config, clock=lambda: NOW, num_recovery_threads=1, ops=ops)
    opened.load_all()
    return opened


def test_deleted_records_stay_deleted_when_their_segments_are_back(recorded: Recorded) -> None:
    logs = manager(recorded.root / "one", ops=recorded.ops)
    log = logs.create("t", 0)
    fill(log, 30)
    log.flush()
    log.delete_records(20)
    logs.checkpoints.write_log_start_offsets()
    assert sum(run_retention(logs, NOW))
    assert log.segments[0].base_offset > 0
    logs.checkpoints.write_log_start_offsets()
    logs.unlock()
    again = manager(recorded.cut() / "one", ops=NoSync()).get("t", 0)
    assert again is not None
    assert again.log_start_offset == 20
    assert offsets(again) == list(range(20, 30))


def test_a_recovery_point_past_the_end_vouches_for_nothing_that_is_appended_later(recorded: Recorded) -> None:
    logs = manager(recorded.root / "one", ops=recorded.ops)
    log = logs.create("t", 0)
    fill(log, 6)
    log.flush()
    logs.checkpoints.write_recovery_points()
    logs.unlock()
    # The disk has lost what it had been given.
    os.truncate(log.active_segment.path(names.LOG), log.active_segment.size // 2)
    logs = manager(recorded.root / "one", ops=recorded.ops)
    again = logs.get("t", 0)
    assert again is not None
    assert again.log_end_offset == 3
    assert read_offsets(str(recorded.root / "one" / names.RECOVERY_POINT_CHECKPOINT)) == {("t", 0): 3}
    logs.unlock()


def test_a_full_disk_keeps_no_recovery_point_past_the_end(tmp_path: Path) -> None:
    """A lower recovery point does not fit on the disk; the higher one would vouch for records that are yet to come."""
    ops = FaultyOps(errno.ENOSPC)
    logs = manager(tmp_path, ops=ops)
    log = logs.create("t", 0)
    fill(log, 6)
    log.flush()
    assert logs.checkpoints.write_recovery_points()
    assert read_offsets(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT)) == {("t", 0): 6}
    ops.fail = {"pwrite": 1}
    log.truncate_to(3, now_ms=NOW)
    logs.checkpoints.lower_recovery_points()
    assert logs.offline_dirs == []
    assert not (tmp_path / names.RECOVERY_POINT_CHECKPOINT).exists()
    ops.heal()
    assert logs.checkpoints.write_recovery_points()
    assert read_offsets(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT)) == {("t", 0): 3}
    logs.unlock()


def test_a_full_disk_takes_no_checkpoint_and_no_log_directory_offline(tmp_path: Path) -> None:
    """The checkpoint before stays in force; but none may vouch for a new log of an old name."""
    ops = FaultyOps(errno.ENOSPC)
    logs = manager(tmp_path, ops=ops)
    fill(logs.create("t", 0), 6)
    fill(logs.create("u", 0), 6)
    logs.run_flushes(NOW)
    logs.checkpoints.write_recovery_points()
    before = read_offsets(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT))
    assert set(before) == {("t", 0), ("u", 0)}
    ops.fail = {"pwrite": 1}
    logs.checkpoints.write_recovery_points()
    logs.checkpoints.write_high_watermarks()
    assert logs.offline_dirs == []
    logs.delete("t", 0)
    with pytest.raises(KafkaStorageError, match="no space left for the checkpoints"):
        logs.create("t", 0)
    assert read_offsets(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT)) == before
    ops.heal()
    assert logs.create("t", 0).log_end_offset == 0
    assert ("t", 0) not in read_offsets(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT))
    logs.unlock()


@pytest.mark.parametrize("killed", [False, True])
def test_a_deleted_partition_is_not_back_beside_its_successor(recorded: Recorded, killed: bool) -> None:
    one, two = recorded.root / "one", recorded.root / "two"
    logs = manager(one, two, ops=recorded.ops)
    log, *_ = [logs.create(topic, 0) for topic in ("t", "a", "b")]
    fill(log, 3)
    log.flush()
    logs.delete("a", 0)
    logs.delete("t", 0, sync=False)
    if killed:
        logs.unlock()
        logs = manager(one, two, ops=recorded.ops)
    made = logs.create("t", 0, UUID(int=1))
    logs.unlock()
    assert (log.dir.parent, made.dir.parent) == (one, two)
    fill(made, 1)
    made.flush()
    found = manager(recorded.cut() / "one", recorded.after / "two", ops=NoSync()).get("t", 0)
    assert found is not None
    assert offsets(found) == [0]


class SlowDirectorySync(FileOps):
    """The first forcing of a partition's names waits until it is told to go on."""

    __slots__ = ("entered", "go_on", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.entered, self.go_on = Event(), Event()

    def fsync_dir(self, path: str) -> None:
        if path.endswith(self.name) and not self.entered.is_set():
            self.entered.set()
            assert self.go_on.wait(30)
        super().fsync_dir(path)


def test_a_flush_beside_another_vouches_for_no_names_that_are_not_safe_yet(tmp_path: Path) -> None:
    ops = SlowDirectorySync("t-0")
    log = open_log(tmp_path, CONFIG, ops=ops)
    # As a follower: the first leader epoch's file would force the directory, too.
    log.append_as_follower(batch(1), now_ms=NOW)
    first = Thread(target=log.flush)
    first.start()
    assert ops.entered.wait(30)
    second = Thread(target=log.flush)
    second.start()
    second.join(0.2)
    assert log.recovery_point == 0
    ops.go_on.set()
    first.join(30)
    second.join(30)
    assert log.recovery_point == log.log_end_offset


class Leaves(FileOps):
    """Lets a flush run at the worst moment of a deletion: when the directory has its new name already."""

    __slots__ = ("during",)

    def __init__(self) -> None:
        self.during: Callable[[], None] | None = None

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if target.endswith(names.DELETE_DIR) and self.during is not None:
            during, self.during = self.during, None
            during()


def test_a_flush_beside_a_deletion_takes_no_log_directory_offline(tmp_path: Path) -> None:
    ops = Leaves()
    logs = LogManager([tmp_path], CONFIG, clock=lambda: NOW, ops=ops)
    log = logs.create("t", 0)
    fill(log, 3)

    def flush() -> None:
        with pytest.raises(KafkaStorageError, match="deleted"):
            log.flush()

    ops.during = flush
    logs.delete("t", 0)
    assert logs.offline_dirs == []
    assert logs.create("t", 0).log_end_offset == 0
    logs.unlock()
