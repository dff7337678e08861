"""Test that a move interrupted by a kill or a power failure leaves one log with everything that was promised."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.log import Log
from broker.log.log_manager import LogManager
from kafkalog.storage import names
from tests.broker.log.alter_dirs.support import (
    CONFIG,
    check_whole,
    directories,
    fill,
    finished,
    make_log,
    mover_of,
    open_manager,
)
from tests.broker.log.support import NOW
from tests.crash.lossy_disk import Disk, Entry, NoSync, RecordingOps


def nothing(count: int) -> int:
    """Choose the outcome without the writes that were not forced to the device."""
    return 0


def everything(count: int) -> int:
    """Choose the outcome with all writes, also those that were not forced to the device, as after a kill."""
    return count - 1


class Life:
    """A log that is moved there and back while it is appended to, flushed and shortened; its record."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.entries: list[Entry] = []
        self.ops = RecordingOps(self.entries.append)
        self._random = random.Random(seed)
        root.mkdir()
        asyncio.run(self._live())

    async def _live(self) -> None:
        logs = open_manager(self.root, self.ops)
        log = make_log(logs)
        fill(log, self._random.randrange(40))
        # Nobody misses a log of which nothing was ever flushed.
        log.flush()
        self._note(log)
        mover = mover_of(logs)
        for target in (1, 0):
            future = mover.begin(log, logs.log_dirs[target])
            while not future.ended.is_set():
                await self._act(logs, log)
                await asyncio.sleep(0)
            await self._act(logs, log)
        await finished(mover)
        await mover.stop()
        assert log.log_dir == self.root / "one"
        check_whole(log)
        logs.unlock()

    async def _act(self, logs: LogManager, log: Log) -> None:
        match self._random.randrange(12):
            case 0:
                await asyncio.to_thread(log.flush)
            case 1:
                log.delete_records(self._random.randrange(log.log_start_offset, log.high_watermark + 1))
            case 2:
                log.config = CONFIG.with_changes(retention_bytes=3000)
                log.apply_retention(NOW)
                await asyncio.to_thread(logs.run_deletions, NOW)
            case 3:
                await asyncio.to_thread(logs.checkpoints.write_all)
            case 4:
                log.roll(NOW)
            case 5 | 6 | 7:
                fill(log, self._random.randrange(4))
            case _:
                await asyncio.sleep(0.0005)
        self._note(log)

    def _note(self, log: Log) -> None:
        self.ops.note("state", log.log_end_offset, log.recovery_point)


def told(entries: list[Entry]) -> tuple[int, int]:
    """`(log end offset, recovery point)` as they were last noted."""
    rows = [entry[2:] for entry in entries if entry[:2] == ("note", "state")]
    return (rows[-1][0], rows[-1][1]) if rows else (0, 0)


def made(entries: list[Entry]) -> int:
    """Return the number of entries before the first one that knows the log."""
    return next(at for at, entry in enumerate(entries) if entry[:2] == ("note", "state"))


def check_start(root: Path, entries: list[Entry], *, killed: bool) -> None:
    """Check that the next start finds the log once and complete, and ends a move that was under way."""
    end, flushed = told(entries)
    logs = open_manager(root, NoSync())
    log = logs.get("t", 0)
    assert log is not None, directories(root)
    log.high_watermark = log.log_end_offset
    assert log.log_end_offset >= (end if killed else flushed)
    check_whole(log)
    served = [found for rows in directories(root).values() for found in rows if found == "t-0"]
    assert len(served) == 1

    async def go_on() -> None:
        mover = mover_of(logs)
        for path in logs.futures.found.values():
            mover.resume(log, path)
        fill(log, 3)
        await finished(mover)
        await mover.stop()

    target = next((path.parent for path in logs.futures.found.values()), log.log_dir)
    asyncio.run(go_on())
    assert log.log_dir == target
    assert not (log.dir / names.MOVED_FROM).exists()
    check_whole(log)
    logs.run_deletions(NOW)
    assert sum(map(len, directories(root).values())) == 1
    assert logs.shutdown()
    again = open_manager(root, NoSync()).get("t", 0)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)
    check_whole(again)


def moments(entries: list[Entry], count: int, chance: random.Random) -> list[int]:
    """Moments to cut at: around each rename of a directory of the partition, and some others."""
    renames = [
        at for at, entry in enumerate(entries) if entry[0] == "rename" and "/t-0" not in Path(entry[1]).parent.name
    ]
    renames = [at for at in renames if Path(entries[at][1]).name.startswith("t-0")]
    near = {at + step for at in renames for step in range(-1, 6) if at + step <= len(entries)}
    others = range(made(entries) + 1, len(entries) + 1)
    return sorted(near | set(chance.sample(others, min(count, len(others)))))


def run_seed(root: Path, seed: int, count: int) -> None:
    life = Life(root, seed)
    chance = random.Random(seed)
    disk_entries = life.entries
    ways: list[tuple[Callable[[int], int], Callable[[int], int], bool]] = [
        (everything, everything, True),
        (nothing, nothing, False),
        (nothing, everything, False),
        (lambda n: chance.randrange(n), lambda n: chance.randrange(n), False),
    ]
    for at in moments(disk_entries, count, chance):
        for content, given_names, killed in ways:
            shutil.rmtree(root)
            before = disk_entries[:at]
            disk = Disk(str(root))
            disk.play(before)
            disk.image(root, content, given_names)
            try:
                check_start(root, before, killed=killed)
            except BaseException as error:
                error.add_note(f"seed {seed}, cut at {at} of {len(disk_entries)}: {disk_entries[max(at - 5, 0) : at]}")
                raise


def test_a_move_that_is_cut_short(tmp_path: Path) -> None:
    run_seed(tmp_path / "logs", 0, 10)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 40))
def test_a_move_that_is_cut_short_for_long(tmp_path: Path, seed: int) -> None:
    run_seed(tmp_path / "logs", seed, 40)
