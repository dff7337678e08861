"""Test that slices of a log that are not in memory are sent, and delay no other client."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.log_config import LogConfig
from broker.log.read.segment_times import read_largest_timestamp, unknown_largest
from broker.system.page_cache import file_resident, pread_resident, read_in, read_in_file, resident
from tests.broker.log.by_time import found_by_time, found_latest
from tests.broker.log.support import NOW, open_log
from tests.broker.log.support import batch as log_batch
from tests.broker.system.support import drop, evict, found_cold
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, fetch, produce


def test_what_is_in_memory_is_known(disk_path: Path) -> None:
    path = disk_path / "file"
    path.write_bytes(os.urandom(3 << 20))
    if not evict(path):
        pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
    fd = os.open(path, os.O_RDONLY)
    try:
        read_in(fd, 0, 3 << 20)
        assert resident(fd, 0, 3 << 20)
        read_in(fd, 2 << 20, 5 << 20)
    finally:
        os.close(fd)


def test_cold_segments_are_served(start_broker: Callable[..., KafkalogBroker], disk_path: Path) -> None:
    topic = "cold"
    broker = start_broker(directory=disk_path)
    with broker.connect() as wire:
        create_topic(wire, topic)
        for _ in range(10):
            produce(wire, topic, batch([os.urandom(200_000)]))
        warm = fetch(wire, topic, {0: 0}, partition_max_bytes=8 << 20)[0].records
        for _ in range(3):
            if not evict(broker.log_dir / f"{topic}-0" / "00000000000000000000.log"):
                pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
            assert fetch(wire, topic, {0: 0}, partition_max_bytes=8 << 20)[0].records == warm


def test_reading_what_is_in_memory_only(disk_path: Path) -> None:
    path = disk_path / "file"
    data = os.urandom(3 << 20)
    path.write_bytes(data)
    if not evict(path):
        pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
    assert found_cold(path, lambda: not file_resident(str(path)))
    fd = os.open(path, os.O_RDONLY)

    def needs_the_disk() -> bool:
        try:
            assert pread_resident(fd, 100, 1 << 20) == data[1 << 20 :][:100]
        except BlockingIOError:
            return True
        return False

    try:
        assert found_cold(path, needs_the_disk)
        read_in_file(str(path))
        assert pread_resident(fd, 100, 1 << 20) == data[1 << 20 :][:100]
        assert file_resident(str(path))
        drop(path)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        assert len(os.pread(fd, 64 << 10, 0)) == 64 << 10
        assert file_resident(str(path), 64 << 10)
        assert not file_resident(str(path))
    finally:
        os.close(fd)
    assert file_resident(str(disk_path / "missing"))
    read_in_file(str(disk_path / "missing"))


@pytest.mark.parametrize("size", [300, 100_000])
def test_a_cold_log_is_looked_up_in_after_a_worker_has_read_it_in(disk_path: Path, size: int) -> None:
    log = open_log(disk_path, LogConfig(segment_bytes=2 << 20))
    count = 3000 if size < 1000 else 60
    for _ in range(count):
        log.append_batch(log_batch(2, size=size), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    log.close()
    log = open_log(disk_path, clean=True)
    log.high_watermark = log.log_end_offset
    files = [path for path in log.dir.iterdir() if path.suffix in (".log", ".index")]
    if not all(evict(path) for path in files if path.stat().st_size):
        pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
    cold = 0
    offsets = [0, count // 3, count // 2 + 1, count, 2 * count - 1]
    for offset in offsets * 3:
        for path in files:
            drop(path)
        steps = 0
        while (work := log.missing(offset, 1 << 20)) is not None:
            work()
            steps += 1
            assert steps < 8
        cold += bool(steps)
        found = log.read(offset, 1 << 20)
        assert int.from_bytes(found.read()[:8], "big") == offset // 2 * 2
        assert log.missing(offset, 1 << 20) is None
    assert cold
    assert log.missing(log.log_end_offset, 1 << 20) is None
    assert log.missing(log.log_end_offset + 1, 1 << 20) is None
    log.close()


def test_a_search_by_time_in_a_cold_log(disk_path: Path) -> None:
    log = open_log(disk_path, LogConfig(segment_bytes=200_000))
    count = 3000
    for i in range(count):
        log.append_batch(log_batch(2, size=300, timestamp=NOW + i * 10), leader_epoch=0, now_ms=NOW)
    log.close()
    log = open_log(disk_path, clean=True)
    files = [path for path in log.dir.iterdir() if path.suffix in (".log", ".index", ".timeindex")]
    if not evict(max(files, key=lambda path: path.stat().st_size)):
        pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
    unknown = unknown_largest(log.segments)
    assert len(unknown) == len(log.segments) > 5
    for segment in unknown:
        segment.learn(read_largest_timestamp(segment))
    assert not unknown_largest(log.segments)
    cold = 0
    for wanted in (0, 777, count - 1) * 3:
        for path in files:
            drop(path)
        steps = 0
        while (work := log.missing_for_time(NOW + wanted * 10)) is not None:
            work()
            steps += 1
            assert steps < 8
        cold += bool(steps)
        found = found_by_time(log, NOW + wanted * 10)
        assert found is not None
        assert found.offset == 2 * wanted
    assert cold
    assert log.missing_for_time(NOW + count * 10) is None
    largest = found_latest(log)
    assert largest is not None
    assert (largest.timestamp, largest.offset) == (NOW + (count - 1) * 10, 2 * (count - 1))
    assert log.missing_for_time(-3) is None
    log.close()
