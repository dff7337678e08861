"""Test that a worker, not the event loop, reads the times of segments that retention asks for after a start."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.read import segment_times
from broker.log.read.segment_times import READ_AT_ONCE, read_largest_timestamp, unknown_largest
from broker.log.retention import retention_turns
from broker.log.retention.retention_policy import SegmentFacts
from broker.log.segment.segment import UNKNOWN_TIMESTAMP, Segment
from broker.system.workers import ThreadWorkers
from kafkalog.storage import names
from tests.broker.log.support import NOW, batch, open_log

CONFIG = LogConfig(segment_bytes=batch(1).nbytes, retention_ms=1000)
SEGMENTS = 3 * READ_AT_ONCE + 7
OLD = 2 * READ_AT_ONCE + 3
"""The number of segments whose records are too old."""


def write(directory: Path, *, old: int = OLD) -> None:
    log = open_log(directory, CONFIG)
    for number in range(SEGMENTS):
        time = NOW - 2000 if number < old else NOW
        log.append_batch(batch(1, timestamp=time), leader_epoch=0, now_ms=NOW)
    log.close()


def load(directory: Path, managers: list[LogManager], high_watermark: int = SEGMENTS) -> tuple[LogManager, Log]:
    manager = LogManager([directory], CONFIG, clock=lambda: NOW)
    managers.append(manager)
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    manager.load_all()
    (log,) = manager
    log.high_watermark = high_watermark
    assert len(unknown_largest(log.segments)) == SEGMENTS
    return manager, log


def retain(manager: LogManager) -> None:
    async def work() -> None:
        workers = ThreadWorkers(1)
        try:
            await retention_turns.retain(manager, workers, NOW)
        finally:
            workers.close(wait=True)

    asyncio.run(work())


def read_by_the_loop(log: Log) -> int:
    return sum(segment.indexes.time is not None or segment.indexes.builds > 0 for segment in log.segments)


def test_the_event_loop_reads_no_time_index(tmp_path: Path, managers: list[LogManager]) -> None:
    write(tmp_path)
    # All but the first are asked about, too, but stay because they are not below the high watermark.
    manager, log = load(tmp_path, managers, high_watermark=1)
    retain(manager)
    assert log.log_start_offset == 1
    assert read_by_the_loop(log) == 0
    known = [segment.max_timestamp for segment in log.segments if segment.max_timestamp != UNKNOWN_TIMESTAMP]
    # Nothing is read past the first segment that stays for its time.
    assert known == [NOW - 2000] * (OLD - 1) + [NOW]


def test_all_segments_that_are_too_old_go(tmp_path: Path, managers: list[LogManager]) -> None:
    write(tmp_path)
    manager, log = load(tmp_path, managers)
    retain(manager)
    assert log.log_start_offset == OLD
    assert read_by_the_loop(log) == 0


def test_a_policy_of_the_users_finds_all_times_known(tmp_path: Path, managers: list[LogManager]) -> None:
    class OldestAndLast:
        def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
            assert (segments[0].largest_timestamp, segments[-1].largest_timestamp) == (NOW - 2000, NOW)
            return 1

    write(tmp_path)
    manager, log = load(tmp_path, managers)
    manager.retention_policy = OldestAndLast()
    retain(manager)
    assert log.log_start_offset == 1
    assert read_by_the_loop(log) == 0
    assert not unknown_largest(log.segments)


@pytest.mark.parametrize("content", [None, b"", bytes(12), b"\1" * 13], ids=["missing", "empty", "zeros", "torn"])
def test_missing_and_damaged_time_indexes(tmp_path: Path, managers: list[LogManager], content: bytes | None) -> None:
    write(tmp_path)
    for path in (tmp_path / "t-0").glob(f"*{names.TIME_INDEX}"):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    manager, log = load(tmp_path, managers, high_watermark=1)
    retain(manager)
    assert log.log_start_offset == (0 if content == b"" else 1)
    assert read_by_the_loop(log) == 0


def test_a_segment_whose_log_is_damaged_too_ends_the_reading(
    tmp_path: Path, managers: list[LogManager], caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path)
    manager, log = load(tmp_path, managers)
    first = log.segments[0]
    Path(first.path(names.TIME_INDEX)).unlink()
    Path(first.path(names.LOG)).write_bytes(b"\xff" * first.size)
    assert read_largest_timestamp(first) is None
    retain(manager)
    assert log.log_start_offset == 0
    assert "none of its segments is deleted" in caplog.text


def test_a_segment_that_cannot_be_read_is_read_once_in_a_check(
    tmp_path: Path, managers: list[LogManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other segments take several rounds to read."""
    read: Counter[int] = Counter()

    def counted(segment: Segment) -> tuple[int, int] | None:
        read[segment.base_offset] += 1
        return read_largest_timestamp(segment)

    monkeypatch.setattr(segment_times, "read_largest_timestamp", counted)
    write(tmp_path)
    # Nothing may be deleted, so the event loop asks for no time, and the segment stays unknown.
    manager, log = load(tmp_path, managers, high_watermark=0)
    damaged = log.segments[1]
    Path(damaged.path(names.TIME_INDEX)).unlink()
    Path(damaged.path(names.LOG)).write_bytes(b"\xff" * damaged.size)
    retain(manager)
    assert damaged.max_timestamp == UNKNOWN_TIMESTAMP
    assert read == Counter(range(OLD + 1))
    # The next check tries again.
    retain(manager)
    assert read == Counter([*range(OLD + 1), damaged.base_offset])


def test_the_event_loop_builds_the_index_of_a_damaged_segment_once(tmp_path: Path, managers: list[LogManager]) -> None:
    write(tmp_path)
    manager, log = load(tmp_path, managers)
    first = log.segments[0]
    Path(first.path(names.TIME_INDEX)).unlink()
    Path(first.path(names.LOG)).write_bytes(b"\xff" * first.size)
    for _ in range(3):
        retain(manager)
    assert first.indexes.builds == 1
