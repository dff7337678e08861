"""Costs of the log alone: append, read look-ups, opening many partitions, recovery.

Run: ``python benchmarks/log.py [--dir DIR]``. Each figure is the best of several rounds, so that what else runs on the
machine disturbs it least; one thread, files in DIR (a temporary directory by default), nothing synced but where said.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from broker.log.config import LogConfig
from broker.log.manager import LogManager
from broker.log.partition_log import PartitionLog
from kafkalog.records import kernels
from kafkalog.records.batch import Record, encode_batch

NOW = 1_700_000_000_000
CONFIG = LogConfig()


def best(rounds: int, act: Callable[[], float]) -> float:
    """Smallest of several measurements."""
    return min(act() for _ in range(rounds))


def make_batch(size: int, producer_id: int = -1) -> bytes:
    """A batch of 100-byte records of about ``size`` bytes."""
    count = max(1, (size - 61) // 110)
    value = b"x" * 100
    return bytes(
        encode_batch(
            [Record(i, NOW, None, value, ()) for i in range(count)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
        )
    )


def append_cost(root: Path, size: int, total: int) -> float:
    """Seconds for one append of a batch of ``size`` bytes."""
    template = make_batch(size)
    log = PartitionLog.open(root / "append-0", CONFIG, clean=True, now_ms=NOW)
    count = max(1, total // len(template))
    buffers = [memoryview(bytearray(template)) for _ in range(count)]
    started = time.perf_counter()
    for buffer in buffers:
        log.append(buffer, leader_epoch=0, now_ms=NOW)
    spent = (time.perf_counter() - started) / count
    log.delete()
    return spent


def read_cost(log: PartitionLog, offsets: list[int], max_bytes: int) -> float:
    """Seconds for one look-up that gives a slice."""
    end = log.log_end_offset
    started = time.perf_counter()
    for offset in offsets:
        log.read(offset, max_bytes, max_offset=end)
    return (time.perf_counter() - started) / len(offsets)


def open_cost(root: Path, partitions: int, *, clean: bool) -> float:
    """Seconds to open ``partitions`` small logs."""
    if not clean:
        (root / ".kafka_cleanshutdown").unlink()
    started = time.perf_counter()
    manager = LogManager([root], CONFIG, clock=lambda: NOW)
    manager.load_all()
    spent = time.perf_counter() - started
    assert len(manager) == partitions
    assert all(log.log_end_offset == 100 for log in manager)
    manager.shutdown()
    return spent


def fill(root: Path, partitions: int) -> None:
    """Make ``partitions`` logs of ten batches each."""
    manager = LogManager([root], CONFIG, clock=lambda: NOW)
    manager.load_all()
    template = bytes(encode_batch([Record(i, NOW, None, b"x" * 100, ()) for i in range(10)]))
    for i in range(partitions):
        log = manager.create("many", i)
        for _ in range(10):
            log.append(memoryview(bytearray(template)), leader_epoch=0, now_ms=NOW)
    manager.shutdown()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", help="where the logs are written")
    parser.add_argument("--partitions", type=int, default=1000)
    arguments = parser.parse_args()
    kernels.load()
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=arguments.dir))
    try:
        print(f"{'what':46} {'cost':>12} {'rate':>14}")
        for size in (1 << 10, 16 << 10, 1000 << 10):
            actual = len(make_batch(size))
            spent = best(5, lambda size=size: append_cost(root, size, 64 << 20))  # type: ignore[misc]
            print(f"{f'append, batches of {actual:,} bytes':46} {spent * 1e6:9.1f} us {actual / spent / 1e6:9.0f} MB/s")
        log = PartitionLog.open(root / "read-0", CONFIG, clean=True, now_ms=NOW)
        template = make_batch(16 << 10)
        per_batch = 0
        for _ in range(8192):
            info = log.append(memoryview(bytearray(template)), leader_epoch=0, now_ms=NOW)
            per_batch = info.next_offset - info.first_offset
        end = log.log_end_offset
        tail = [end - per_batch * (1 + i % 32) for i in range(20_000)]
        spread = [(i * 7919 * per_batch) % end for i in range(20_000)]
        for what, offsets in (("at the tail", tail), ("anywhere in 128 MB", spread)):
            spent = best(5, lambda offsets=offsets: read_cost(log, offsets, 1 << 20))  # type: ignore[misc]
            print(f"{f'read look-up {what}':46} {spent * 1e6:9.1f} us")
        started = time.perf_counter()
        log.flush()
        print(f"{'flush of 128 MB':46} {(time.perf_counter() - started) * 1e3:9.1f} ms")
        size = log.size
        started = time.perf_counter()
        again = PartitionLog.open(log.dir, CONFIG, clean=False, now_ms=NOW)
        spent = time.perf_counter() - started
        assert again.log_end_offset == end
        print(f"{'recovery of 128 MB':46} {spent * 1e3:9.1f} ms {size / spent / 1e6:9.0f} MB/s")
        many = root / "many"
        fill(many, arguments.partitions)
        for clean in (True, False):
            spent = best(3, lambda clean=clean: open_cost(many, arguments.partitions, clean=clean))  # type: ignore[misc]
            what = f"open {arguments.partitions:,} partitions after {'a clean stop' if clean else 'a crash'}"
            print(f"{what:46} {spent * 1e3:9.1f} ms")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
