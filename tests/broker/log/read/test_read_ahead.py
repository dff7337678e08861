"""Tests of prefetching: for which readers, how far, and that nothing remains of a reader that stops."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.read.read_ahead import AHEAD_BYTES, MAX_STREAMS, STRETCH_BYTES, ReadAhead
from broker.system import page_cache
from tests.broker.system.support import drop, evict, pages_in_memory
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, fetch, produce

MIB = 1 << 20


def test_nobody_is_read_ahead_for_who_reads_what_is_in_memory() -> None:
    ahead = ReadAhead()
    assert all(ahead.after(at, at + MIB) is None for at in range(0, 64 * MIB, MIB))


def test_single_look_ups_are_not_read_ahead_for() -> None:
    ahead = ReadAhead()
    for at in (500 * MIB, 20 * MIB, 900 * MIB, 300 * MIB, 100 * MIB):
        ahead.missed(at, at + MIB)
        assert ahead.after(at, at + MIB) is None
        # The same again, as by a client that did not like the answer.
        assert ahead.after(at, at + MIB) is None


def test_who_reads_on_finds_everything_read_in_and_nothing_is_read_twice() -> None:
    ahead = ReadAhead()
    ahead.missed(0, MIB)
    assert ahead.after(0, MIB) is None
    end = MIB
    for at in range(MIB - 1000, 100 * MIB, MIB - 1000):
        stretch = ahead.after(at, at + MIB)
        if stretch is None:
            assert end - at >= MIB
            continue
        assert stretch.position == max(end, at + MIB)
        assert stretch.length == STRETCH_BYTES
        assert ahead.after(at, at + MIB) is None, "one at a time"
        end = stretch.position + stretch.length
        assert end - at <= MIB + AHEAD_BYTES + STRETCH_BYTES
        stretch.done()
    assert end > 100 * MIB


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200), st.integers(1, 8)), max_size=60))
def test_no_more_is_read_ahead_than_agreed_whatever_readers_do(reads: list[tuple[bool, int, int]]) -> None:
    ahead = ReadAhead()
    under_way = []
    for is_missed, at, length in reads:
        begin, end = at * MIB, (at + length) * MIB
        if is_missed:
            ahead.missed(begin, end)
        stretch = ahead.after(begin, end)
        if stretch is not None:
            assert end <= stretch.position < end + AHEAD_BYTES
            under_way.append(stretch)
        assert len(under_way) <= len(reads)
        if len(under_way) > 2:
            under_way.pop(0).done()


def test_readers_of_one_file_have_a_stream_each() -> None:
    ahead = ReadAhead()
    begins = [i * 100 * MIB for i in range(MAX_STREAMS + 1)]
    for begin in begins:
        ahead.missed(begin, begin + MIB)
        assert ahead.after(begin, begin + MIB) is None
    served = [ahead.after(begin + MIB, begin + 2 * MIB) is not None for begin in begins]
    assert served == [False] + [True] * MAX_STREAMS


def test_a_client_that_reads_a_cold_log_on_and_on_gets_every_byte(
    start_broker: Callable[..., KafkalogBroker], disk_path: Path
) -> None:
    with start_broker(directory=disk_path).connect() as wire:
        check_cold_reads(disk_path / "log", wire)


def check_cold_reads(log_dir: Path, wire: socket.socket) -> None:
    topic = "cold"
    create_topic(wire, topic)
    values = [os.urandom(900_000) for _ in range(24)]
    for value in values:
        produce(wire, topic, batch([value]))
    path = log_dir / f"{topic}-0" / "00000000000000000000.log"
    if not evict(path):
        pytest.skip("this file system cannot drop pages, or cannot tell (tmpfs, macOS)")
    for offset, value in enumerate(values):
        records = fetch(wire, topic, {0: offset}, partition_max_bytes=MIB)[0].records
        assert value in bytes(records)
    # Of one answer larger than a part, too. Pages that a socket still holds stay.
    drop(path)
    whole = fetch(wire, topic, {0: 0}, max_bytes=40 << 20, partition_max_bytes=40 << 20)[0].records
    assert all(value in bytes(whole) for value in values)


def refusing(error: int) -> Callable[..., int]:
    def sendfile(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    return sendfile


@pytest.mark.parametrize(
    "how", ["a file system without sendfile", "no sendfile to files", "a small window", "as it is"]
)
def test_everything_is_read_in_by_whatever_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path = tmp_path / "file"
    size = (3 << 20) + 17
    path.write_bytes(os.urandom(size))
    can_drop = drop(path)
    if how == "a file system without sendfile":
        monkeypatch.setattr(os, "sendfile", refusing(errno.EINVAL))
    elif how == "no sendfile to files":
        monkeypatch.setattr(page_cache, "_sink", lambda: -1)
    elif how == "a small window":
        monkeypatch.setattr(page_cache, "_kernel_window", lambda device: 128 << 10)
    fd = os.open(path, os.O_RDWR)
    try:
        page_cache.read_in(fd, 0, size)
        if can_drop:
            assert pages_in_memory(fd) == -(-size // os.sysconf("SC_PAGE_SIZE"))
        assert page_cache.resident(fd, 0, size)
        page_cache.read_in(fd, size - 5, 1 << 20)
        page_cache.read_in(fd, size + 5, 1 << 20)
    finally:
        os.close(fd)


def test_an_error_of_the_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    fd = os.open(path, os.O_RDONLY)

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    try:
        monkeypatch.setattr(os, "sendfile", failing)
        monkeypatch.setattr(os, "preadv", failing, raising=False)
        monkeypatch.setattr(os, "pread", failing)
        with pytest.raises(OSError, match="Input/output"):
            page_cache.read_in(fd, 0, 4096)
    finally:
        os.close(fd)
