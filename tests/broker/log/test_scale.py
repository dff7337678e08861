"""Tests of logs larger than any disk here, and of the cost of opening many of them: counted, not timed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.producer_state import producer_snapshots
from kafkalog.storage.names import segment_name
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import NOW, batch, open_log

GIB = 1 << 30
SEGMENTS = 100
OFFSETS_PER_SEGMENT = 1_000_000_000
INDEX_ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")


def sparse_segment(directory: Path, base: int) -> list[int]:
    """A segment of 1 GiB, most of it a hole, with an indexed batch of one record here and there; their offsets."""
    offsets = [base, base + 5, base + OFFSETS_PER_SEGMENT // 2, base + OFFSETS_PER_SEGMENT - 1]
    batches = [bytes(batch([b"%d" % offset], base_offset=offset, timestamp=NOW + offset)) for offset in offsets]
    positions = [0, GIB // 3, GIB // 2 + 17, GIB - len(batches[-1])]
    with (directory / segment_name(base, ".log")).open("wb") as file:
        for position, data in zip(positions, batches, strict=True):
            file.seek(position)
            file.write(data)
    with (directory / segment_name(base, ".index")).open("wb") as file:
        for offset, position in list(zip(offsets, positions, strict=True))[1:]:
            file.write(INDEX_ENTRY.pack(offset - base, position))
    with (directory / segment_name(base, ".timeindex")).open("wb") as file:
        for offset in offsets[1:]:
            file.write(TIME_ENTRY.pack(NOW + offset, offset - base))
    return offsets


class Calls:
    """Counts of the system calls that read, and of the bytes that they read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count: Counter[str] = Counter()
        self.bytes = 0
        for name in ("open", "pread", "preadv", "stat", "scandir"):
            monkeypatch.setattr(os, name, self._counting(name, getattr(os, name)))

    def _counting(self, name: str, call: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            self.count[name] += 1
            result = call(*args, **options)
            if name.startswith("pread"):
                self.bytes += len(result) if isinstance(result, bytes) else result
            return result

        return counted


def test_a_log_of_100_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    offsets = [sparse_segment(directory, i * OFFSETS_PER_SEGMENT) for i in range(SEGMENTS)]
    # A clean stop leaves the state of the producers; without it the headers of the whole log would be read for it.
    producer_snapshots.write(str(directory / segment_name(SEGMENTS * OFFSETS_PER_SEGMENT, ".snapshot")), [], sync=False)
    calls = Calls(monkeypatch)
    log = open_log(tmp_path, LogConfig(segment_bytes=GIB), clean=True)
    assert log.size == SEGMENTS * GIB
    assert log.log_end_offset == SEGMENTS * OFFSETS_PER_SEGMENT
    assert calls.bytes < 10_000
    assert calls.count["open"] < 10
    log.high_watermark = log.log_end_offset
    for wanted in offsets:
        for offset in wanted:
            data = log.read(offset, 1).read()
            assert int.from_bytes(data[:8], "big") == offset
    found = found_by_time(log, NOW + offsets[70][2])
    assert found is not None
    assert found.offset == offsets[70][2]
    # It goes on as any other.
    end = log.log_end_offset
    info = log.append_batch(batch(3), leader_epoch=0, now_ms=NOW)
    assert (info.first_offset, len(log.segments)) == (end, SEGMENTS + 1)
    assert int.from_bytes(log.read(end, 1).read()[:8], "big") == end
    log.high_watermark = log.log_end_offset
    log.config = LogConfig(segment_bytes=GIB, retention_ms=-1, retention_bytes=50 * GIB)
    assert len(log.apply_retention(NOW)) == SEGMENTS // 2
    assert log.log_start_offset == SEGMENTS // 2 * OFFSETS_PER_SEGMENT
    log.close()
    again = open_log(tmp_path, LogConfig(segment_bytes=GIB), clean=True)
    assert again.log_end_offset == end + 3
    again.close()


def opened(root: Path, monkeypatch: pytest.MonkeyPatch, *, clean: bool = True) -> Calls:
    if not clean:
        (root / ".kafka_cleanshutdown").unlink()
    with monkeypatch.context() as patch:
        calls = Calls(patch)
        manager = LogManager([root], LogConfig(), clock=lambda: NOW)
        manager.load_all()
    manager.shutdown()
    return calls


def fill(log: Log, segments: int) -> None:
    for _ in range(segments):
        for _ in range(3):
            log.append_batch(batch(10, size=100), leader_epoch=0, now_ms=NOW)
        log.roll(NOW)
    log.append_batch(batch(10, size=100), leader_epoch=0, now_ms=NOW)


def test_opening_costs_the_same_whatever_a_partition_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for segments in (0, 20):
        root = tmp_path / str(segments)
        manager = LogManager([root], LogConfig(), clock=lambda: NOW)
        manager.load_all()
        for i in range(30):
            fill(manager.create("t", i), segments)
        assert manager.shutdown()
        counts.append(opened(root, monkeypatch))
    few, many = counts
    assert few.count["open"] == many.count["open"] <= 30 * 4 + 20
    assert many.bytes == few.bytes <= 30 * 8192
    assert few.count["scandir"] == many.count["scandir"]


def test_after_a_crash_only_what_follows_the_recovery_point_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = LogManager([tmp_path / "logs"], LogConfig(), clock=lambda: NOW)
    manager.load_all()
    log = manager.create("t", 0)
    fill(log, 50)
    assert manager.shutdown()
    active = log.segments[-1].size
    calls = opened(tmp_path / "logs", monkeypatch, clean=False)
    # The last segment, with the buffer of a read ahead of it; not the fifty before.
    assert active <= calls.bytes < 2 * active + 8192 < log.size
