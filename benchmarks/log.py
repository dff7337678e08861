"""Costs of the log alone: append, read look-ups, opening many partitions, recovery.

Run: `python -m benchmarks.log [--dir DIR]`. Each figure is the best of several rounds, so that what else runs on the
machine disturbs it least; one thread, files in DIR (a temporary directory by default), nothing synced but where said.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct

from benchmarks.recording.findings import LOWER, Finding, rounded
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from kafkalog.records.batch import ATTRIBUTES_AT, CRC_AT, Record, encode_batch, read_header
from kafkalog.records.checksum import crc32c
from kafkalog.records.kernels import loader
from kafkalog.records.validate import check_batch

NOW = 1_700_000_000_000
CONFIG = LogConfig()
SEQUENCE, SEQUENCE_AT = Struct(">i"), 53
CRC = Struct(">I")


def best(rounds: int, act: Callable[[], float]) -> float:
    """Return the smallest of several measurements."""
    return min(act() for _ in range(rounds))


def make_batch(size: int, producer_id: int = -1) -> bytes:
    """Make a batch of 100-byte records of about `size` bytes."""
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


def append_cost(root: Path, size: int, total: int, *, idempotent: bool = False) -> float:
    """Return the seconds for one append of a batch of `size` bytes."""
    template = make_batch(size, 7 if idempotent else -1)
    log = Log.open(root / "append-0", CONFIG, clean=True, now_ms=NOW)
    count = max(1, total // len(template))
    buffers = [memoryview(bytearray(template)) for _ in range(count)]
    if idempotent:
        records = read_header(template).records_count
        for i, buffer in enumerate(buffers):
            SEQUENCE.pack_into(buffer, SEQUENCE_AT, i * records)
            CRC.pack_into(buffer, CRC_AT, crc32c(buffer[ATTRIBUTES_AT:]))
    started = time.perf_counter()
    for buffer in buffers:
        log.append_batch(buffer, leader_epoch=0, now_ms=NOW)
    spent = (time.perf_counter() - started) / count
    log.close()
    shutil.rmtree(log.dir)
    return spent


def floor_cost(root: Path, size: int, total: int) -> float:
    """Return the seconds for what an append cannot do without: check the batch, CRC and records, and write it."""
    template = make_batch(size)
    count = max(1, total // len(template))
    buffers = [memoryview(bytearray(template)) for _ in range(count)]
    path = root / "floor"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    position = 0
    started = time.perf_counter()
    for buffer in buffers:
        check_batch(buffer)
        os.pwrite(fd, buffer, position)
        position += len(buffer)
    spent = (time.perf_counter() - started) / count
    os.close(fd)
    path.unlink()
    return spent


def read_cost(log: Log, offsets: list[int], max_bytes: int) -> float:
    """Return the seconds for one look-up that gives a slice."""
    end = log.log_end_offset
    started = time.perf_counter()
    for offset in offsets:
        log.read(offset, max_bytes, max_offset=end)
    return (time.perf_counter() - started) / len(offsets)


def open_cost(root: Path, partitions: int, records: int, *, clean: bool) -> float:
    """Return the seconds to open `partitions` logs of `records` records each."""
    if not clean:
        (root / ".kafka_cleanshutdown").unlink()
    started = time.perf_counter()
    manager = LogManager([root], CONFIG, clock=lambda: NOW)
    manager.load_all()
    spent = time.perf_counter() - started
    assert len(manager) == partitions
    assert all(log.log_end_offset == records for log in manager)
    manager.shutdown()
    return spent


def fill(root: Path, partitions: int, batches: int) -> None:
    """Make `partitions` logs of so many batches of ten records each."""
    manager = LogManager([root], CONFIG, clock=lambda: NOW)
    manager.load_all()
    template = bytes(encode_batch([Record(i, NOW, None, b"x" * 100, ()) for i in range(10)]))
    for i in range(partitions):
        log = manager.create("many", i)
        for _ in range(batches):
            log.append_batch(memoryview(bytearray(template)), leader_epoch=0, now_ms=NOW)
    manager.shutdown()


class Costs:
    """The costs that were measured so far, printed as they come."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        print(f"{'what':46} {'cost':>12} {'rate':>14}")

    def add(self, what: str, seconds: float, *, unit: str = "µs", size: int = 0, of: str = "") -> None:
        """Take a cost; with the bytes that it is for also as MB/s, and as what a row shows beneath another."""
        shown = seconds * {"µs": 1e6, "ms": 1e3}[unit]
        rate = f" {size / seconds / 1e6:9.0f} MB/s" if size else ""
        print(f"{what:46} {shown:9.1f} {unit}{rate}", flush=True)
        name = f"{of}{what.strip()}"
        self.found.append(Finding(name=name, unit=unit, better=LOWER, ours=rounded(shown)))


def measure_appends(root: Path, costs: Costs) -> None:
    """Measure appends, beside what they cannot do without."""
    total = 64 << 20
    for size in (1 << 10, 16 << 10, 1000 << 10):
        actual = len(make_batch(size))
        what = f"append, batches of {actual:,} bytes"
        spent = best(5, lambda size=size: append_cost(root, size, total))  # type: ignore[misc]
        costs.add(what, spent, size=actual)
        floor = best(5, lambda size=size: floor_cost(root, size, total))  # type: ignore[misc]
        costs.add("  beyond checking and writing the batch", spent - floor, of=f"{what}: ")
    costs.add(
        "append, 16 KiB of an idempotent producer",
        best(5, lambda: append_cost(root, 16 << 10, total, idempotent=True)),
    )


def measure_reads(root: Path, costs: Costs) -> None:
    """Measure look-ups, a flush and a recovery of one log."""
    log = Log.open(root / "read-0", CONFIG, clean=True, now_ms=NOW)
    template = make_batch(16 << 10)
    per_batch = 0
    for _ in range(8192):
        info = log.append_batch(memoryview(bytearray(template)), leader_epoch=0, now_ms=NOW)
        per_batch = info.next_offset - info.first_offset
    end = log.log_end_offset
    tail = [end - per_batch * (1 + i % 32) for i in range(20_000)]
    spread = [(i * 7919 * per_batch) % end for i in range(20_000)]
    for what, offsets in (("at the tail", tail), ("anywhere in 128 MB", spread)):
        spent = best(5, lambda offsets=offsets: read_cost(log, offsets, 1 << 20))  # type: ignore[misc]
        costs.add(f"read look-up {what}", spent)
    started = time.perf_counter()
    log.flush()
    costs.add("flush of 128 MB", time.perf_counter() - started, unit="ms")
    size = log.size
    started = time.perf_counter()
    again = Log.open(log.dir, CONFIG, clean=False, now_ms=NOW)
    spent = time.perf_counter() - started
    assert again.log_end_offset == end
    costs.add("recovery of 128 MB", spent, unit="ms", size=size)


def measure_opens(root: Path, partitions: int, costs: Costs) -> None:
    """Measure starts with many partitions."""
    for what, batches in (("empty partitions", 0), ("partitions of 12 KB", 10)):
        directory = root / f"many-{batches}"
        fill(directory, partitions, batches)
        for stop, clean in (("a clean stop", True), ("a crash", False)):
            spent = best(
                3,
                lambda d=directory, n=batches * 10, c=clean: open_cost(d, partitions, n, clean=c),  # type: ignore[misc]
            )
            costs.add(f"open {partitions:,} {what} after {stop}", spent, unit="ms")


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", help="where the logs are written")
    parser.add_argument("--partitions", type=int, default=1000)
    arguments = parser.parse_args(words)
    loader.load()
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=arguments.dir))
    try:
        costs = Costs()
        measure_appends(root, costs)
        measure_reads(root, costs)
        measure_opens(root, arguments.partitions, costs)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return costs.found


if __name__ == "__main__":
    main()
