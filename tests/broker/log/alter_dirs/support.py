"""Helpers of tests of moves: two log directories, a log in the first, and moves that run to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from broker.log.alter_dirs.future_log import FutureLog
from broker.log.alter_dirs.mover import LogMover
from broker.log.files.file_ops import OS, FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.system.workers import ThreadWorkers
from tests.broker.log.support import NOW, batch, stored

TOPIC_ID = UUID("6c1f3f0e-6c5c-4b55-9a52-8ed0d8ad5b1a")
CONFIG = LogConfig(
    segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=1200, file_delete_delay_ms=0, retention_ms=-1
)
DEADLINE_S = 60.0


def open_manager(root: Path, ops: FileOps = OS, config: LogConfig = CONFIG) -> LogManager:
    """Open and load a manager of the log directories `one` and `two`."""
    logs = LogManager([root / "one", root / "two"], config, clock=lambda: NOW, ops=ops)
    logs.load_all()
    return logs


def make_log(logs: LogManager) -> Log:
    """Create the log of t-0 in the first directory."""
    logs.futures.prefer(("t", 0), logs.log_dirs[0].path)
    return logs.create("t", 0, TOPIC_ID)


def fill(log: Log, count: int) -> None:
    """Append `count` batches of one record, whose value is its offset."""
    for _ in range(count):
        log.append_batch(batch((value(log.log_end_offset),), timestamp=NOW), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset


def value(offset: int) -> bytes:
    return b"%050d" % offset


def check_whole(log: Log) -> None:
    """Check that every offset from the log start to the log end has its record."""
    rows = stored(log)
    assert [row.base_offset for row in rows] == list(range(log.log_start_offset, log.log_end_offset))
    assert all(row.values == (value(row.base_offset),) for row in rows)


def mover_of(logs: LogManager, rate: Callable[[], float] = lambda: 1e12) -> LogMover:
    loop = asyncio.get_running_loop()
    return LogMover(logs, loop, ThreadWorkers(2), 2, rate)


async def finished(mover: LogMover, future: FutureLog | None = None) -> None:
    """Wait until the mover has nothing to do, or one move has ended."""
    async with asyncio.timeout(DEADLINE_S):
        while mover._tasks if future is None else not future.ended.is_set():
            await asyncio.sleep(0.002)


def directories(root: Path) -> dict[str, list[str]]:
    """Return the partitions' directories in each log directory, without the random parts of their names."""
    return {
        path.name: sorted(
            entry.name.partition(".")[0] + ("-" + entry.name.rpartition("-")[2] if "." in entry.name else "")
            for entry in path.iterdir()
            if entry.is_dir()
        )
        for path in sorted(root.iterdir())
    }
