"""Slices of a log that are not in memory: they arrive all the same, and nobody else waits."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from broker.net.page_cache import read_in, resident
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, fetch, produce


def evict(path: Path) -> bool:
    """Drop the file from the page cache; whether that could be done."""
    if not hasattr(os, "posix_fadvise"):
        return False
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return not resident(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def test_what_is_in_memory_is_known(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 << 20))
    if not evict(path):
        pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert not resident(fd, 0, 3 << 20)
        read_in(fd, 0, 3 << 20)
        assert resident(fd, 0, 3 << 20)
        read_in(fd, 2 << 20, 5 << 20)
    finally:
        os.close(fd)


def test_cold_segments_are_served(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    values = [os.urandom(200_000) for _ in range(10)]
    for value in values:
        produce(wire, topic, batch([value]))
    warm = fetch(wire, topic, {0: 0}, partition_max_bytes=8 << 20)[0].records
    for _ in range(3):
        evict(broker.log_dir / f"{topic}-0" / "00000000000000000000.log")
        assert fetch(wire, topic, {0: 0}, partition_max_bytes=8 << 20)[0].records == warm
