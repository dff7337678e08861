"""Test that a log whose cleaning fails for a reason that may pass is tried again, after the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.job import facts_of
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.cleaner.selection import examine
from broker.log.log import Log
from broker.log.log_manager import LogManager
from broker.system.workers import NoThreadError, T, ThreadWorkers, Ts, Workers
from tests.broker.log.cleaner.cleaning_threads import COMPACT, fill, run, until
from tests.broker.log.cleaner.support import keyed
from tests.broker.log.support import NOW


class Short(ThreadWorkers):
    """Workers that lack something to clean the log `greedy`, until `healed`."""

    def __init__(self, greedy: Log, error: Exception) -> None:
        super().__init__(2)
        self._greedy = greedy
        self._error = error
        self.tries = 0
        self.healed = False

    def pool(self, threads: int, name: str) -> Workers:
        return self

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        if self._greedy not in args or self.healed:
            return super().run(work, *args)
        self.tries += 1
        failed: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        failed.set_exception(self._error)
        return failed


@pytest.mark.parametrize(
    "error", [MemoryError("a map of the keys"), NoThreadError("a limit")], ids=["memory", "thread"]
)
def test_a_log_that_is_tried_again_keeps_no_others_waiting(tmp_path: Path, error: Exception) -> None:
    logs = LogManager([tmp_path / "log"], COMPACT, clock=lambda: NOW)
    eager = COMPACT.with_changes(min_cleanable_dirty_ratio=0.01)
    greedy, good = fill(logs, "greedy", 5, eager), fill(logs, "good", 5, eager)
    good.cleaned_offset = 30
    assert examine(facts_of(greedy), NOW).ratio > examine(facts_of(good), NOW).ratio
    workers = Short(greedy, error)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: workers.tries > 2, "it is tried again and again")
        assert good.cleaned_offset == 100
        for end in (101, 102):
            good.append_batch(keyed([(b"1", b"v")]), leader_epoch=0, now_ms=NOW)
            good.roll(NOW)
            good.high_watermark = good.log_end_offset
            tries = workers.tries
            await until(lambda end=end: good.cleaned_offset == end, "the good one is cleaned again")  # type: ignore[misc]
            await until(lambda tries=tries: workers.tries > tries, "the other one is tried again")  # type: ignore[misc]
        workers.healed = True
        await until(lambda: greedy.cleaned_offset == 100, "it is clean, too")
        await until(lambda: not cleaner._tried, "the dirtiest log comes first again")

    run(logs, act, workers=workers)


class TruncatingWorkers(ThreadWorkers):
    """Workers that have a log truncated when a cleaning of it has waited for the rate of bytes."""

    def __init__(self, log: Log) -> None:
        super().__init__(2)
        self._log = log
        self.truncated = False

    def pool(self, threads: int, name: str) -> Workers:
        return self

    def sleep(self, seconds: float) -> None:
        # The last of several waits: afterwards the worker opens the next segment.
        if seconds < 0.2 and not self.truncated:
            self.truncated = True
            self.on_loop(self._truncate())

    async def _truncate(self) -> None:
        self._log.truncate_to(5, now_ms=NOW)


def test_a_log_that_is_truncated_while_it_is_read_is_cleaned_later(tmp_path: Path) -> None:
    logs = LogManager([tmp_path / "log"], COMPACT, clock=lambda: NOW)
    log = fill(logs, "t", 5)
    workers = TruncatingWorkers(log)
    slow = CleanerConfig(backoff_ms=1, io_max_bytes_per_second=9000, dedupe_buffer_size=1 << 20)

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: workers.truncated and not log.being_cleaned, "the cleaning has ended")
        assert not cleaner.is_uncleanable(log)
        log.append_batch(keyed([(b"1", b"v")]), leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
        log.high_watermark = log.log_end_offset
        await until(lambda: log.cleaned_offset == 6, "it is clean")

    run(logs, act, slow, workers)


class WithoutThreads(ThreadWorkers):
    """Workers for which no thread can be started, until `healed`."""

    def __init__(self) -> None:
        super().__init__(2)
        self.tries = 0
        self.healed = False

    def pool(self, threads: int, name: str) -> Workers:
        return self

    def run(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        if self.healed:
            return super().run(work, *args)
        self.tries += 1
        failed: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        failed.set_exception(NoThreadError("a limit"))
        return failed


def test_a_cleaner_that_gets_no_thread_works_when_it_gets_one(tmp_path: Path) -> None:
    logs = LogManager([tmp_path / "log"], COMPACT, clock=lambda: NOW)
    log = fill(logs, "t", 5)
    # It has to be corrected, which is the first that a worker is asked for.
    log.cleaned_offset = 1000
    workers = WithoutThreads()

    async def act(cleaner: LogCleaner) -> None:
        await until(lambda: workers.tries > 3, "it is tried again")
        workers.healed = True
        await until(lambda: log.cleaned_offset == 100, "it is clean")
        assert cleaner.metrics.dead_thread_count == 0

    run(logs, act, workers=workers)
