"""A log of many gigabytes in a partition's directory, made once and shared by the brokers that are compared.

Segments and indexes are written by this package's log, in Apache Kafka's format; every broker gets hard links of them,
for a segment that is full is only read, and copies of what it writes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from struct import Struct

from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.kernels import loader

_OFFSET = Struct(">q")
NOW_MS = 1_700_000_000_000
VALUE_BYTES = 1000
SHARED = (".log", ".index", ".timeindex")


def template(batch_bytes: int) -> bytes:
    """Make a batch of 1,000-byte records of about so many bytes."""
    count = max(1, batch_bytes // (VALUE_BYTES + 10))
    value = os.urandom(VALUE_BYTES)
    return bytes(encode_batch([Record(i, NOW_MS, None, value, ()) for i in range(count)]))


def write(directory: Path, total: int, *, batch_bytes: int = 16 << 10, segment_bytes: int = 1 << 30) -> int:
    """Fill `directory`, named topic-partition, with `total` bytes of batches; return the log end offset."""
    loader.load("validation")
    log = Log.open(directory, LogConfig(segment_bytes=segment_bytes), clean=True, now_ms=NOW_MS)
    buffer = bytearray(template(batch_bytes))
    appended = 0
    while appended < total:
        _OFFSET.pack_into(buffer, 0, 0)
        log.append_batch(memoryview(buffer), leader_epoch=0, now_ms=NOW_MS)
        appended += len(buffer)
    log.roll(NOW_MS)
    end = log.log_end_offset
    log.close()
    return end


def plant(source: Path, target: Path) -> None:
    """Put the segments of `source` into a stopped broker's directory of an empty partition."""
    for path in target.iterdir():
        if path.suffix in SHARED:
            path.unlink()
    for path in source.iterdir():
        if path.suffix in SHARED and path.stat().st_size and not _is_last(path, source):
            os.link(path, target / path.name)
        elif path.suffix in (*SHARED, ".snapshot"):
            shutil.copy(path, target / path.name)


def _is_last(path: Path, directory: Path) -> bool:
    return path.stem == max(each.stem for each in directory.glob("*.log"))


def drop_from_cache(directory: Path) -> None:
    """Write the segments to the device, and have the kernel forget their pages."""
    os.sync()
    for path in directory.glob("*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def second_base_offset(directory: Path) -> int:
    """Return the offset at which the first segment ends."""
    return sorted(int(path.stem) for path in directory.glob("*.log"))[1]


def read_first_segment(directory: Path) -> None:
    """Read the first segment, so that it lies in memory."""
    with min(directory.glob("*.log")).open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
