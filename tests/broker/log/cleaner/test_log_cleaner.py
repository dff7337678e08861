"""Tests of the cleaner's threads over a broker's logs: the next log, isolated failures, counts."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.directories.checkpoints import read_offsets, write_offsets
from broker.log.log_manager import LogManager
from broker.system.workers import T, ThreadWorkers, Ts, Workers
from kafkalog.storage import names
from tests.broker.log.cleaner.cleaning_threads import COMPACT, EAGER, fill, run, until
from tests.broker.log.cleaner.support import keyed, records_of
from tests.broker.log.support import NOW, FaultyOps


@pytest.fixture
def ops() -> FaultyOps:
    return FaultyOps(errno.ENOSPC)


@pytest.fixture
def logs(tmp_path: Path, ops: FaultyOps) -> LogManager:
    return LogManager([tmp_path / "log"], COMPACT, clock=lambda: NOW, ops=ops)


class Interrupted(ThreadWorkers):
    """Workers that let something happen on the event loop first.

    Args:
        before_work: called before the first work that a worker is given.
        before_change: called before each change that a worker asks the loop for.
    """

    def __init__(self, before_work: Callable[[], object], before_change: Callable[[], object] = lambda: None) -> None:
        super().__init__(2)
        self._before_work = [before_work]
        self._before_change = before_change

    def pool(self, threads: int, name: str) -> Workers:
        return self

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        while self._before_work:
            self._before_work.pop()()
        return super().run(work, *args)

    def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def after() -> T:
            self._before_change()
            return await coroutine

        return super().on_loop(after())


def checkpoint(logs: LogManager) -> dict[tuple[str, int], int]:
    return read_offsets(str(logs.log_dirs[0].path / names.CLEANER_CHECKPOINT))


def test_every_compacted_log_is_cleaned_and_the_checkpoint_says_so(logs: LogManager) -> None:
    some = [fill(logs, f"t{keys}", keys) for keys in (3, 50, 90)]
    other = fill(logs, "other", 3, COMPACT.with_changes(cleanup_policy=("delete",), retention_ms=-1))

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: all(log.cleaned_offset == 100 for log in some), "all are clean")
        await until(lambda: len(checkpoint(logs)) == 3, "the checkpoint is written")
        metrics = cleaner.metrics
        assert 0 < metrics.cleaner_recopy_percent < 100
        assert metrics.max_clean_time_secs == 0
        assert metrics.max_buffer_utilization_percent == 0
        assert metrics.dead_thread_count == 0
        await until(lambda: metrics.max_dirty_percent == 0, "nothing is dirty any more")
        assert cleaner.time_since_last_run_ms() == 0
        assert [len(records_of(log)) for log in (*some, other)] == [3, 50, 90, 100]

    run(logs, act)


def test_a_log_that_is_not_dirty_enough_waits(logs: LogManager) -> None:
    log = fill(logs, "t", 10, COMPACT.with_changes(min_cleanable_dirty_ratio=0.9))

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: log.cleaned_offset == 100, "it is clean")
        log.append_batch(keyed([(b"1", b"v")]), leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
        log.high_watermark = log.log_end_offset
        await until(lambda: cleaner.metrics.max_dirty_percent > 0, "it is dirty again")
        rounds = cleaner.metrics.last_run_ms
        assert (log.cleaned_offset, rounds) == (100, NOW)
        log.config = COMPACT.with_changes(min_cleanable_dirty_ratio=0.01)
        await until(lambda: log.cleaned_offset == 101, "it is cleaned again")

    run(logs, act)


def test_a_log_whose_configuration_cannot_be_read_waits(logs: LogManager) -> None:
    held, other = fill(logs, "held", 10, COMPACT.with_changes(is_held=True)), fill(logs, "other", 10)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: other.cleaned_offset == 100, "the other is clean")
        assert (held.cleaned_offset, len(records_of(held))) == (None, 100)
        held.config = COMPACT
        await until(lambda: held.cleaned_offset == 100, "it is clean, too")

    run(logs, act)


def test_a_log_that_cannot_be_cleaned_is_left_alone(logs: LogManager, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = fill(logs, "bad", 5), fill(logs, "good", 5)
    with open(bad.segments[0].path(names.LOG), "r+b") as file:
        file.seek(80)
        file.write(b"\xff\xff")
    directory = logs.log_dirs[0].path

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: good.cleaned_offset == 100, "the good one is clean")
        await until(lambda: cleaner.is_uncleanable(bad), "the bad one is given up")
        assert cleaner.uncleanable_partitions_count(directory) == 1
        assert cleaner.uncleanable_bytes(directory) == bad.size
        assert cleaner.uncleanable_partitions_count(directory / "other") == 0
        assert not bad.being_cleaned
        logs.delete("bad", 0)
        await until(lambda: cleaner.uncleanable_partitions_count(directory) == 0, "it is forgotten")

    run(logs, act)
    assert caplog.text.count("failed; it is not tried again") == 1


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_lack_that_may_pass_is_no_reason_to_give_up(
    logs: LogManager, ops: FaultyOps, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    log = fill(logs, "t", 5)
    log.flush()
    ops.error = error
    ops.fail["ftruncate"] = 1

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: "retrying later" in caplog.text, "it fails")
        assert not cleaner.is_uncleanable(log)
        ops.heal()
        await until(lambda: log.cleaned_offset == 100, "it is clean")

    run(logs, act)


def test_a_log_is_cleaned_once_there_is_enough_memory(logs: LogManager, caplog: pytest.LogCaptureFixture) -> None:
    log = fill(logs, "t", 5)
    config = CleanerConfig(backoff_ms=1, dedupe_buffer_size=1 << 20, io_buffer_size=1 << 60)

    async def act(cleaner: LogCleaner) -> None:
        nonlocal config
        await until(lambda: "retrying later" in caplog.text or cleaner.is_uncleanable(log), "it fails")
        assert not cleaner.is_uncleanable(log)
        config = EAGER
        await until(lambda: log.cleaned_offset == 100, "it is clean")

    run(logs, act, lambda: config)


def test_a_log_is_examined_again_after_a_lack_of_descriptors(
    tmp_path: Path, logs: LogManager, ops: FaultyOps, caplog: pytest.LogCaptureFixture
) -> None:
    fill(logs, "t", 5)
    assert logs.shutdown()
    # The times of its segments are not known after a start, and have to be read.
    config = COMPACT.with_changes(max_compaction_lag_ms=1000)
    again = LogManager([tmp_path / "log"], config, clock=lambda: NOW, ops=ops)
    again.load_all()
    (log,) = again
    log.high_watermark = log.log_end_offset
    ops.error = errno.EMFILE
    ops.fail["open"] = 1

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: "retrying later" in caplog.text or cleaner.is_uncleanable(log), "it fails")
        assert not cleaner.is_uncleanable(log)
        ops.heal()
        await until(lambda: log.cleaned_offset == 100, "it is clean")

    run(again, act)


class WatchedOps(FaultyOps):
    """File operations that note the thread that opens each file."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[str, threading.Thread]] = []

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self.opened.append((path, threading.current_thread()))
        return super().open(path, flags, mode)


def test_workers_read_the_times_of_segments(tmp_path: Path, logs: LogManager) -> None:
    # Its records are neither too young nor too old, and it is never dirty enough.
    config = COMPACT.with_changes(
        min_compaction_lag_ms=1, max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=1.0, segment_bytes=200
    )
    log = fill(logs, "t", 5, config, timestamp=NOW - 5)
    assert len(log.segments) == 101
    assert logs.shutdown()
    ops = WatchedOps()
    again = LogManager([tmp_path / "log"], config, clock=lambda: NOW, ops=ops)
    again.load_all()
    (log,) = again
    log.high_watermark = log.log_end_offset
    ops.opened.clear()

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: cleaner.metrics.max_dirty_percent == 100, "it is examined")
        assert all(segment.max_timestamp == NOW - 5 for segment in log.segments[:-1])
        assert all(segment.indexes.time is None for segment in log.segments[:-1])
        readers = {thread for path, thread in ops.opened if path.endswith(names.LOG)}
        assert readers
        assert threading.current_thread() not in readers

    run(again, act)


def test_a_thread_that_ended_does_not_count_in_metrics(logs: LogManager, ops: FaultyOps) -> None:
    late = COMPACT.with_changes(max_compaction_lag_ms=1000)
    some = [fill(logs, f"t{number}", 5, late, timestamp=NOW - 10_000) for number in range(3)]
    for log in some:
        log.flush()
    # No cleaning succeeds, so each thread always finds a log that is late and that the other one does not clean.
    ops.fail["ftruncate"] = 1
    config = CleanerConfig(threads=2, backoff_ms=1, dedupe_buffer_size=4 << 20)

    async def act(cleaner: LogCleaner) -> None:
        nonlocal config
        await until(lambda: cleaner.metrics.delays_ms.get(1) == 9000, "the second thread has found late logs")
        config = EAGER
        await until(lambda: 1 not in cleaner._threads, "it has ended")
        ops.heal()
        await until(lambda: all(log.cleaned_offset == 100 for log in some), "all are clean")
        await until(lambda: cleaner.metrics.max_compaction_delay_secs == 0, "no log is late")

    run(logs, act, lambda: config)


def test_a_scrape_reads_no_log(tmp_path: Path, logs: LogManager) -> None:
    bad = fill(logs, "bad", 5)
    with open(bad.segments[0].path(names.LOG), "r+b") as file:
        file.seek(80)
        file.write(b"\xff\xff")
    assert logs.shutdown()
    again = LogManager([tmp_path / "log"], COMPACT, clock=lambda: NOW)
    again.load_all()
    (log,) = again
    log.high_watermark = log.log_end_offset
    damaged = log.segments[-2]
    Path(damaged.path(names.TIME_INDEX)).write_bytes(b"12345")
    directory = again.log_dirs[0].path

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: cleaner.is_uncleanable(log), "it is given up")
        # From now on the times of its segments matter.
        log.config = COMPACT.with_changes(min_compaction_lag_ms=1)
        scrape = asyncio.get_running_loop().run_in_executor(None, cleaner.uncleanable_bytes, directory)
        assert await scrape == log.size
        assert damaged.indexes.time is None

    # No further round follows.
    run(again, act, CleanerConfig(backoff_ms=1 << 30, dedupe_buffer_size=1 << 20))


def test_the_bytes_that_cannot_be_cleaned_are_those_of_the_last_round(logs: LogManager) -> None:
    log = fill(logs, "t", 5)
    with open(log.segments[0].path(names.LOG), "r+b") as file:
        file.seek(80)
        file.write(b"\xff\xff")
    directory = logs.log_dirs[0].path

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: cleaner.uncleanable_bytes(directory) == log.size, "it is given up")
        log.append_batch(keyed([(b"1", b"v" * 500)]), leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
        log.high_watermark = log.log_end_offset
        await until(lambda: cleaner.uncleanable_bytes(directory) == log.size, "what was rolled since counts")

    run(logs, act)


def test_a_topic_deleted_while_it_is_cleaned(logs: LogManager, caplog: pytest.LogCaptureFixture) -> None:
    log = fill(logs, "t", 100)
    slow = CleanerConfig(backoff_ms=1, io_max_bytes_per_second=1.0, io_buffer_size=8192, dedupe_buffer_size=1 << 20)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: log.being_cleaned, "it is being cleaned")
        logs.delete("t", 0)
        again = logs.create("t", 0, config=COMPACT)
        await until(lambda: not log.being_cleaned, "the cleaning has ended")
        assert (again.cleaned_offset, again.size) == (None, 0)
        assert not cleaner.is_uncleanable(log)
        assert not list(again.dir.glob("*.cleaned"))

    run(logs, act, slow)


def test_a_stop_ends_a_cleaning(logs: LogManager) -> None:
    log = fill(logs, "t", 100)
    slow = CleanerConfig(backoff_ms=1, io_max_bytes_per_second=1.0, io_buffer_size=8192, dedupe_buffer_size=1 << 20)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: log.being_cleaned, "it is being cleaned")

    run(logs, act, slow)
    assert log.cleaned_offset is None


def test_compacted_logs_are_subject_to_retention(logs: LogManager) -> None:
    config = COMPACT.with_changes(cleanup_policy=("compact", "delete"), retention_ms=-1)
    log = fill(logs, "t", 100, config)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: log.cleaned_offset == 100, "it is clean")
        log.config = config.with_changes(retention_bytes=3000)
        await until(lambda: log.log_start_offset > 0, "the oldest have gone")
        await until(lambda: log.cleaned_offset == 100, "the checkpoint holds")

    run(logs, act)


def test_a_checkpoint_past_the_logs_end_is_not_believed(tmp_path: Path, logs: LogManager) -> None:
    log = fill(logs, "t", 5)
    assert logs.shutdown()
    path = tmp_path / "log" / names.CLEANER_CHECKPOINT
    write_offsets(str(path), {("t", 0): 5000, ("gone", 0): 3})
    again = LogManager([tmp_path / "log"], COMPACT, clock=lambda: NOW)
    again.load_all()
    (log,) = again
    log.high_watermark = log.log_end_offset
    assert log.cleaned_offset == 0

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: log.cleaned_offset == 100, "it is clean")
        await until(lambda: read_offsets(str(path)) == {("t", 0): 100}, "the checkpoint is right")

    run(again, act)


def test_a_topic_of_the_same_name_does_not_inherit_what_was_clean(tmp_path: Path, logs: LogManager) -> None:
    log = fill(logs, "t", 5)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: checkpoint(logs) == {("t", 0): 100}, "it is clean")
        log.config = COMPACT.with_changes(cleanup_policy=("delete",))
        logs.delete("t", 0)
        logs.create("t", 0, config=COMPACT)
        assert checkpoint(logs) == {}

    run(logs, act)


def test_a_log_that_is_truncated_after_it_was_examined_loses_nothing(logs: LogManager) -> None:
    log = fill(logs, "t", 5)
    # All segments become one, but for that which was the active one: its indexes are large.
    log.config = COMPACT.with_changes(segment_bytes=1 << 20)
    # The checkpoint has to be corrected after the examination, so another thread works before the cleaning.
    log.cleaned_offset = 5000

    def append() -> None:
        for index in range(6):
            log.append_batch(keyed([(b"new%d" % index, b"v")]), leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
        log.high_watermark = log.log_end_offset

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: 0 < (log.cleaned_offset or 0) < 5000, "it was cleaned")
        await until(lambda: not log.being_cleaned, "the cleaning has ended")
        assert not cleaner.is_uncleanable(log)

    def before_change() -> None:
        if len(log.segments) == 2 and log.log_end_offset == 50:
            append()

    run(logs, act, workers=Interrupted(lambda: log.truncate_to(50, now_ms=NOW), before_change))
    if log.log_end_offset == 50:
        append()
    again = LogManager([logs.log_dirs[0].path], COMPACT, clock=lambda: NOW)
    again.load_all()
    (log,) = again
    assert [key for _, key, _ in records_of(log) if key and key.startswith(b"new")] == [b"new%d" % i for i in range(6)]
    assert log.log_end_offset == 56
    assert log.cleaned_offset is not None
    assert log.cleaned_offset <= 56


def test_a_log_whose_beginning_is_deleted_after_it_was_examined_is_cleaned_later(
    logs: LogManager, caplog: pytest.LogCaptureFixture
) -> None:
    log = fill(logs, "t", 5, COMPACT.with_changes(cleanup_policy=("compact", "delete"), retention_ms=-1))
    log.cleaned_offset = 5000

    def delete() -> None:
        log.delete_records(100)
        logs.apply_retention(log, NOW)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: log.log_start_offset == 100, "the beginning is deleted")
        for index in range(100):
            log.append_batch(keyed([(b"%d" % (index % 5), b"v")]), leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
        log.high_watermark = log.log_end_offset
        await until(lambda: cleaner.is_uncleanable(log) or log.cleaned_offset == 200, "it is clean or given up")
        assert not cleaner.is_uncleanable(log)
        assert len(records_of(log)) == 5

    run(logs, act, workers=Interrupted(delete))
    assert "failed" not in caplog.text
