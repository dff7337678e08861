"""Tests of moves of a log between two log directories, in this process: what is moved, and what is copied again."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.log.alter_dirs.future_log import FutureLog
from broker.log.alter_dirs.mover import LogMover
from broker.log.append.validation import Origin
from broker.log.directories.log_dir import LogDir
from broker.log.log import Log
from broker.log.log_manager import LogManager
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.alter_dirs.support import (
    DEADLINE_S,
    check_whole,
    directories,
    fill,
    finished,
    make_log,
    mover_of,
    open_manager,
)
from tests.broker.log.by_time import found_by_time, found_latest
from tests.broker.log.support import NOW, FaultyOps, batch, marker, stored

Story = Callable[[LogManager, Log, LogMover], Awaitable[None]]


def live(root: Path, story: Story, ops: FaultyOps | None = None, rate: Callable[[], float] = lambda: 1e12) -> None:
    """Run a story with a new log."""
    logs = open_manager(root, ops) if ops is not None else open_manager(root)
    log = make_log(logs)

    async def run() -> None:
        mover = mover_of(logs, rate)
        try:
            await asyncio.wait_for(story(logs, log, mover), DEADLINE_S)
        finally:
            await mover.stop()

    asyncio.run(run())
    assert logs.shutdown() is (not logs.offline_dirs)


def target_of(logs: LogManager) -> LogDir:
    return logs.log_dirs[1]


def produce_transactions(log: Log) -> None:
    """Transactions of producers 1 to 4, two of them aborted, one open, in several segments and leader epochs."""
    for epoch in range(4):
        producer = epoch + 1
        for sequence in range(5):
            data = batch(
                (b"%050d" % log.log_end_offset,), producer_id=producer, producer_epoch=0, base_sequence=sequence,
                is_transactional=True,
            )  # fmt: skip
            log.append_batch(data, leader_epoch=epoch, now_ms=NOW, in_transaction=True)
        if producer < 4:
            log.append_batch(
                marker(producer, commit=producer == 2), leader_epoch=epoch, now_ms=NOW, origin=Origin.COORDINATOR
            )
    log.high_watermark = log.log_end_offset


def account(log: Log) -> tuple[object, ...]:
    """Return everything that the log knows: offsets, records, transactions, epochs, producers, id, segments, times."""
    end = log.log_end_offset
    return (
        log.log_start_offset, end, log.last_stable_offset, stored(log), log.aborted_transactions(0, end),
        log.epochs.entries(), sorted(log.producers.rows()), list(log.producers.snapshot_offsets), log.topic_id,
        [(segment.base_offset, segment.size) for segment in log.segments],
        [found_by_time(log, NOW), found_latest(log)],
    )  # fmt: skip


def test_everything_that_a_log_knows_comes_along(tmp_path: Path) -> None:
    known: tuple[object, ...] = ()

    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        nonlocal known
        produce_transactions(log)
        log.delete_records(3)
        known = account(log)
        assert len(log.segments) > 2
        files = {path.name: path.stat().st_mtime_ns for path in log.dir.glob("*.log")}
        mover.begin(log, target_of(logs))
        await finished(mover)
        assert log.log_dir == tmp_path / "two"
        assert account(log) == known
        active = log.segments[-1].path(names.LOG)
        moved = {path.name: path.stat().st_mtime_ns for path in log.dir.glob("*.log") if str(path) != active}
        assert moved == {name: files[name] for name in moved}
        assert directories(tmp_path) == {"one": ["t-0-delete"], "two": ["t-0"]}

    live(tmp_path, story)
    again = open_manager(tmp_path).get("t", 0)
    assert again is not None
    again.high_watermark = again.log_end_offset
    assert again.dir == tmp_path / "two" / "t-0"
    assert account(again)[:7] == known[:7]


def test_how_far_it_was_compacted_comes_along_and_nothing_is_compacted_meanwhile(tmp_path: Path) -> None:
    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 30)
        log.cleaned_offset = 21
        log.being_cleaned = True
        mover.begin(log, target_of(logs))
        await asyncio.sleep(0.05)
        assert log.being_moved
        assert log.log_dir == tmp_path / "one", "it waits for the cleaning"
        log.being_cleaned = False
        await finished(mover)
        assert not log.being_moved
        assert target_of(logs).read_cleaned_offsets() == {("t", 0): 21}
        assert logs.log_dirs[0].read_cleaned_offsets() == {}
        assert target_of(logs).read_recovery_points() == {("t", 0): log.recovery_point}

    live(tmp_path, story)


def test_whole_segments_that_were_copied_are_not_copied_again(tmp_path: Path) -> None:
    """The others are: what is cut short, and what the log does not have any more."""

    async def begin(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 40)
        log.flush()
        mover.begin(log, target_of(logs))
        await finished(mover)

    live(tmp_path, begin)
    # As if it had been killed before its end: the copy is complete but for its newest segment.
    (tmp_path / "two" / "t-0").rename(tmp_path / "two" / f"t-0.{'0' * 32}-future")
    (doomed,) = (tmp_path / "one").glob("t-0.*")
    doomed.rename(tmp_path / "one" / "t-0")
    (future,) = (tmp_path / "two").glob("t-0*")
    logs = open_manager(tmp_path)
    log = logs.get("t", 0)
    assert log is not None
    assert log.log_dir == tmp_path / "one"
    kept = sorted(future.glob("*.log"))[:-1]
    os.truncate(kept[2], 10)
    (future / "00000000000000000777.log").write_bytes(b"of another life")
    # An inode of a file that was removed may be the new file's.
    before = {path.name: path.stat().st_ctime_ns for path in kept}

    async def resume() -> None:
        mover = mover_of(logs)
        copied: list[str] = []
        mover.resume(log, logs.futures.found[("t", 0)])
        await finished(mover)
        copied += [path.name for path in log.dir.glob("*.log")]
        await mover.stop()
        assert "00000000000000000777.log" not in copied

    asyncio.run(resume())
    after = {name: (log.dir / name).stat().st_ctime_ns for name in before}
    assert log.log_dir == tmp_path / "two"
    assert [name for name in before if before[name] != after[name]] == [kept[2].name]
    log.high_watermark = log.log_end_offset
    check_whole(log)


def test_a_log_that_is_truncated_while_its_copy_settles_is_forced_to_the_device_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its files are copied anew, and flushes force only those from the recovery point on."""
    ops = FaultyOps()
    before: list[int] = []
    noted = LogMover._also_in

    async def note_and_truncate(mover: LogMover, future: FutureLog, log_dir: Path | None) -> None:
        await noted(mover, future, log_dir)
        if not before:
            future.log.truncate_to(15, now_ms=NOW)
            before.append(len(ops.calls))

    monkeypatch.setattr(LogMover, "_also_in", note_and_truncate)

    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 20)
        log.flush()
        mover.begin(log, target_of(logs))
        await finished(mover)
        assert log.log_dir == tmp_path / "two"
        assert log.log_end_offset == 15
        check_whole(log)
        forced = {Path(str(what)) for call, what in ops.calls[before[0] :] if call == "fsync"}
        names_forced = {path.name for path in forced if path.parent.name.endswith(names.FUTURE_DIR)}
        assert len(log.segments) > 1
        assert {path.name for path in log.dir.glob("*.log")} <= names_forced

    live(tmp_path, story, ops)


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename", "open"])
def test_a_target_that_fails_ends_the_move_and_goes_offline(tmp_path: Path, call: str) -> None:
    ops = FaultyOps(errno.EIO)

    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 20)
        log.flush()
        logs.checkpoints.write_all()
        future = mover.begin(log, target_of(logs))
        ops.fail[call] = 2
        await finished(mover)
        ops.heal()
        assert future.ended.is_set()
        assert target_of(logs).offline is not None
        assert log.log_dir == tmp_path / "one"
        fill(log, 5)
        check_whole(log)
        with pytest.raises(KafkaStorageError):
            mover.begin(log, LogDir.broken(tmp_path / "missing", "it is not there"))

    live(tmp_path, story, ops)


def test_a_target_that_fails_after_the_swap_leaves_the_old_log(tmp_path: Path) -> None:
    class TargetFails(FaultyOps):
        """The target cannot be forced to the device once the copy has its log's name."""

        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            if source.endswith(names.FUTURE_DIR) and target.endswith("t-0"):
                self.fail["fsync_dir"] = 1

    ops = TargetFails(errno.EIO)

    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 40)
        mover.begin(log, target_of(logs))
        await finished(mover)
        ops.heal()
        assert target_of(logs).offline is not None
        assert log.offline is not None
        logs._deletions.run(NOW + log.config.file_delete_delay_ms)
        assert directories(tmp_path) == {"one": ["t-0-stray"], "two": ["t-0"]}

    live(tmp_path, story, ops)
    (kept,) = (tmp_path / "one").glob("*-stray")
    kept.rename(tmp_path / "one" / "t-0")
    (tmp_path / "two").rename(tmp_path / "broken")
    logs = open_manager(tmp_path)
    log = logs.get("t", 0)
    assert log is not None
    check_whole(log)
    assert log.log_end_offset == 40


def test_a_log_that_cannot_be_read_keeps_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.pread

    def unreadable(fd: int, size: int, position: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("/one/t-0/00000000000000000016.log"):
            raise OSError(errno.EIO, "injected failure")
        return read(fd, size, position)

    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 40)
        bases = [segment.base_offset for segment in log.segments]
        assert 16 in bases
        monkeypatch.setattr("broker.log.alter_dirs.copier.os.pread", unreadable)
        future = mover.begin(log, target_of(logs))
        await finished(mover)
        monkeypatch.undo()
        assert future.ended.is_set()
        assert (future.dir / "00000000000000000000.log").stat().st_size > 0
        assert target_of(logs).offline is None
        # Who asks for it again gets a new one.
        logs.futures.cancel(("t", 0))
        mover.begin(log, target_of(logs))
        await finished(mover)
        assert log.log_dir == target_of(logs).path
        check_whole(log)

    live(tmp_path, story)


def test_a_full_target_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.alter_dirs.mover.RETRY_SECONDS", 0.01)
    ops = FaultyOps(errno.ENOSPC)

    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 20)
        log.flush()
        ops.fail["pwrite"] = 3
        future = mover.begin(log, target_of(logs))
        while not ops.fail["pwrite"] < -3:
            await asyncio.sleep(0.01)
        assert not future.ended.is_set()
        ops.heal()
        await finished(mover)
        assert log.log_dir == tmp_path / "two"
        assert not logs.offline_dirs
        check_whole(log)

    live(tmp_path, story, ops)


def test_a_stop_does_not_wait_for_a_slow_move(tmp_path: Path) -> None:
    async def story(logs: LogManager, log: Log, mover: LogMover) -> None:
        fill(log, 40)
        # The pace is kept on the average over so long.
        await asyncio.sleep(0.4)
        future = mover.begin(log, target_of(logs))
        while not list(future.dir.glob("*.index")):
            await asyncio.sleep(0.01)
        assert future.offset_lag > 0
        await mover.stop()
        assert not future.ended.is_set()
        assert log.log_dir == tmp_path / "one"

    live(tmp_path, story, rate=lambda: 1.0)
    assert directories(tmp_path) == {"one": ["t-0"], "two": ["t-0-future"]}
