"""Test that the least recently used segments close their files at the limit, and that files in use stay open."""

from __future__ import annotations

import gc
import os
import socket
import sys
from pathlib import Path

import pytest

from broker.log.files.open_files import OpenFiles
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.resources import LogResources
from peers.process import free_port
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import NOW, batch, open_log
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch as produced
from tests.support.wire import create_topic, exchange, fetch, produce_request

FEW = 16


class Opened:
    def __init__(self) -> None:
        self.used = False
        self.open = True

    def close_idle(self) -> None:
        self.open = False


@pytest.fixture
def few() -> LogResources:
    """A budget of `FEW` descriptors."""
    return LogResources(open_files=OpenFiles(FEW))


def test_the_longest_unused_closes_first() -> None:
    pool = OpenFiles(3)
    holders = [Opened() for _ in range(3)]
    for holder in holders:
        pool.admit(holder)
        holder.used = False
    holders[0].used = True
    pool.admit(newest := Opened())
    assert [holder.open for holder in holders] == [True, False, True]
    assert newest.open
    assert len(pool) == 3


def test_where_all_are_in_use_some_close_all_the_same() -> None:
    pool = OpenFiles(20)
    holders = [Opened() for _ in range(40)]
    for holder in holders:
        pool.admit(holder)
    assert sum(holder.open for holder in holders) == len(pool) == 20
    assert holders[-1].open


def test_what_is_gone_takes_no_place() -> None:
    pool = OpenFiles(3)
    for _ in range(100):
        pool.admit(Opened())
    gc.collect()
    assert len(pool) == 0
    holders = [Opened() for _ in range(3)]
    for holder in holders:
        pool.admit(holder)
    assert all(holder.open for holder in holders)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_many_segments_are_read_through_few_descriptors(tmp_path: Path, few: LogResources) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=0), resources=few)
    count = 400
    for _ in range(count):
        log.append_batch(batch(5, size=100), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    assert len(log.segments) > 3 * FEW
    gc.collect()
    before = descriptors()
    kept = log.read(0, 1)
    expected = kept.read()
    for round_ in range(2):
        for offset in range(0, log.log_end_offset, 5):
            found = log.read(offset + round_, 1)
            assert int.from_bytes(found.read()[:8], "big") == offset
            assert found_by_time(log, NOW) is not None
    assert descriptors() < before + FEW + 4
    # A slice keeps what its segment let go of, and shares it with the next reader.
    assert kept.read() == expected
    assert log.segments[0].file is kept.slices[0].file
    log.close()


def test_writers_of_more_logs_than_descriptors(tmp_path: Path, few: LogResources) -> None:
    homes = [tmp_path / str(i) for i in range(3 * FEW)]
    for home in homes:
        home.mkdir()
    logs = [open_log(home, LogConfig(index_interval_bytes=0), resources=few) for home in homes]
    for _ in range(5):
        for log in logs:
            log.append_batch(batch(3), leader_epoch=0, now_ms=NOW)
    for log in logs:
        log.high_watermark = log.log_end_offset
        log.flush()
        assert log.recovery_point == log.log_end_offset == 15
        log.close()
    for log in logs:
        again = open_log(log.dir.parent)
        assert again.log_end_offset == 15
        again.close()


def test_two_brokers_in_a_process_share_nothing(tmp_path: Path) -> None:
    """Descriptors and flushes of one count for that one alone."""
    managers = [LogManager([tmp_path / name], LogConfig(), clock=lambda: NOW) for name in ("a", "b")]
    busy, idle = managers
    log = busy.create("t", 0)
    log.append_batch(batch(3), leader_epoch=0, now_ms=NOW)
    log.flush()
    assert (len(busy.resources.open_files), busy.resources.flush_stats.count) == (1, 1)
    assert (len(idle.resources.open_files), idle.resources.flush_stats.count) == (0, 0)
    for manager in managers:
        manager.shutdown()


def fetch_all(wire: socket.socket, topic: str, partitions: range, offset: int) -> dict[int, bytes]:
    """Fetch from all partitions; what the broker has no descriptors for at the moment is asked for again."""
    found: dict[int, bytes] = {}
    for _ in partitions:
        wanted = dict.fromkeys(set(partitions) - found.keys(), offset)
        answer = fetch(wire, topic, wanted, partition_max_bytes=1 << 20)
        got = {index: bytes(data.records) for index, data in answer.items() if len(data.records)}
        assert got
        found |= got
        if len(found) == len(partitions):
            break
    assert len(found) == len(partitions)
    return found


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_a_broker_with_fewer_descriptors_than_partitions(tmp_path: Path) -> None:
    broker = KafkalogBroker(tmp_path, {"log.segment.bytes": "2000", "background.threads": "2"})
    broker.prefix = ["bash", "-c", 'ulimit -n 256; exec "$0" "$@"']
    broker.address = f"127.0.0.1:{free_port()}"
    partitions = 300
    with broker, broker.connect() as wire:
        topic = "many"
        create_topic(wire, topic, partitions=partitions)
        for number in range(3):
            value = bytes([65 + number]) * 900
            for first in range(0, partitions, 50):
                data = {index: produced([value]) for index in range(first, first + 50)}
                answer = exchange(wire, produce_request(topic, data), 9)
                assert {result.error_code for result in answer.responses[0].partition_responses} == {0}
        for first in range(0, partitions, 50):
            found = fetch_all(wire, topic, range(first, first + 50), 0)
            assert all(len(records) > 1900 for records in found.values())
        # All in one request. What one response held open must be free for the next request.
        for _ in range(10):
            assert len(fetch_all(wire, topic, range(partitions), 0)) == partitions
        assert len(os.listdir(f"/proc/{broker.pid}/fd")) < 256
        assert broker.stop() == 0
    assert "Too many open files" not in broker.logged()
    assert "offline" not in broker.logged()
    # And it opens all of them again.
    with broker, broker.connect() as wire:
        found = fetch_all(wire, topic, range(50), 2)
        assert all(b"C" * 900 in records for records in found.values())
