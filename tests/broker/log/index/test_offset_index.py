"""Tests of the offset and time indexes: format on disk, look-ups against a plain list, trimming, damage."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.files.file_ops import FileOps
from broker.log.index.index_file import CorruptIndexError, NoSpaceError
from broker.log.index.offset_index import OffsetIndex
from broker.log.index.time_index import TimeIndex
from broker.log.resources import LogResources
from tests.broker.log.support import temporary_directory

BASE = 10_000_000_000


def new_index(path: Path, *, max_bytes: int = 10 << 20, ops: FileOps | None = None) -> OffsetIndex:
    index = OffsetIndex(str(path), BASE, max_bytes, LogResources(ops or FileOps()))
    index.create()
    return index


def test_the_bytes_are_kafkas(tmp_path: Path) -> None:
    path = tmp_path / "00000000010000000000.index"
    index = new_index(path)
    index.append(BASE + 7, 4100)
    index.append(BASE + 900, 8300)
    index.trim()
    assert path.read_bytes() == bytes.fromhex("00000007 00001004 00000384 0000206c")


def test_a_new_index_is_preallocated_to_whole_entries(tmp_path: Path) -> None:
    new_index(tmp_path / "a.index", max_bytes=67)
    assert (tmp_path / "a.index").stat().st_size == 64
    TimeIndex(str(tmp_path / "a.timeindex"), BASE, 67).create()
    assert (tmp_path / "a.timeindex").stat().st_size == 60


def test_blocks_are_written_before_a_flush_but_not_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.index"
    index = new_index(path)
    for i in range(511):
        index.append(BASE + i + 1, i * 10 + 1)
    assert path.read_bytes().strip(b"\0") == b""
    index.append(BASE + 512, 6000)
    assert path.read_bytes()[:4096].count(b"\0\0\0\0\0\0\0\0") == 0
    assert path.stat().st_size == 10 << 20


class FailingWrites(FileOps):
    """Fails every write while `full`."""

    __slots__ = ("full",)

    def __init__(self) -> None:
        self.full = False

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(fd, data, position)


def test_entries_survive_a_full_disk_in_memory(tmp_path: Path) -> None:
    ops = FailingWrites()
    index = new_index(tmp_path / "a.index", ops=ops)
    ops.full = True
    for i in range(1, 2000):
        index.append(BASE + i, i * 100)
    assert index.lookup(BASE + 1500) == (BASE + 1500, 150_000)
    index.trim()
    assert (tmp_path / "a.index").stat().st_size == 0
    assert index.lookup(BASE + 1500) == (BASE + 1500, 150_000)
    with pytest.raises(NoSpaceError):
        index.sync()
    ops.full = False
    index.trim()
    assert (tmp_path / "a.index").stat().st_size == 1999 * 8
    assert index.items()[-1] == (BASE + 1999, 199_900)


def filled_index(
    path: Path, steps: Sequence[tuple[int, int]], written: int
) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    """Append an entry for each pair of steps of offset and position; write out the first `written` of them.

    Returns:
        The index, and its entries.
    """
    index = new_index(path)
    model: list[tuple[int, int]] = []
    offset, position = BASE, 0
    for number, (step, size) in enumerate(steps):
        if number == written:
            index.write_pending()
        offset, position = offset + step, position + size
        index.append(offset, position)
        model.append((offset, position))
    return index, model


entry_steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 100_000)), max_size=60)


@given(steps=entry_steps, written=st.integers(0, 60), probes=st.lists(st.integers(0, 70_000), max_size=20))
def test_lookup_finds_the_last_entry_at_or_before(
    steps: list[tuple[int, int]], written: int, probes: list[int]
) -> None:
    with temporary_directory() as directory:
        index, model = filled_index(directory / "a.index", steps, written)
        for probe in [*probes, *(o - BASE for o, _ in model)]:
            expected = max((row for row in model if row[0] <= BASE + probe), default=(BASE, 0))
            assert index.lookup(BASE + probe) == expected
        for probe in probes:
            after = min((row for row in model if row[1] >= probe), default=None)
            assert index.lookup_position_after(probe) == (after[0] if after else None)


@given(steps=entry_steps, written=st.integers(0, 60), cut=st.integers(0, 60_000), more=entry_steps)
def test_truncation_keeps_what_lies_before(
    steps: list[tuple[int, int]], written: int, cut: int, more: list[tuple[int, int]]
) -> None:
    with temporary_directory() as directory:
        index, model = filled_index(directory / "a.index", steps, written)
        offset, position = model[-1] if model else (BASE, 0)
        index.truncate_to(BASE + cut)
        model = [row for row in model if row[0] < BASE + cut]
        assert index.items() == model
        offset = max(offset, BASE + cut)
        for step, size in more:
            offset, position = offset + step, position + size
            index.append(offset, position)
            model.append((offset, position))
        index.trim()
        reopened = OffsetIndex(index.path, BASE, 10 << 20)
        reopened.load()
        assert reopened.items() == model


@pytest.mark.parametrize("cut", [None, 2500])
def test_a_file_with_more_entries_than_may_be_preallocated_keeps_them(tmp_path: Path, cut: int | None) -> None:
    """After `segment.index.bytes` was lowered."""
    index, model = filled_index(tmp_path / "a.index", [(1, 1)] * 3000, 0)
    index.trim()
    reopened = OffsetIndex(index.path, BASE, 4096)
    reopened.load()
    reopened.resize_to_max()
    if cut is not None:
        reopened.truncate_to(BASE + cut)
        model = model[: cut - 1]
    reopened.trim()
    assert reopened.items() == model
    assert reopened.lookup(BASE + 2000) == (BASE + 2000, 2000)


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 7,
        struct.pack(">iiii", 5, 4100, 0, 0),
        struct.pack(">iiii", 5, 4100, 9, 0),
        struct.pack(">ii", -5, 4100),
        struct.pack(">ii", 5, -1),
    ],
    ids=["half an entry", "zero tail", "no position", "negative offset", "negative position"],
)
def test_a_damaged_index_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.index").write_bytes(content)
    with pytest.raises(CorruptIndexError):
        OffsetIndex(str(tmp_path / "a.index"), BASE, 1024).load()


def test_an_offset_that_cannot_be_relative_is_refused(tmp_path: Path) -> None:
    index = new_index(tmp_path / "a.index")
    index.append(BASE + (1 << 31) - 1, 1)
    with pytest.raises(CorruptIndexError):
        index.append(BASE + (1 << 31), 2)
    with pytest.raises(CorruptIndexError):
        index.append(BASE - 1, 2)


def test_time_index_bytes_and_lookups(tmp_path: Path) -> None:
    path = tmp_path / "a.timeindex"
    index = TimeIndex(str(path), BASE, 1200)
    index.create()
    for timestamp, offset in [(1000, 3), (1000, 5), (900, 7), (2000, 9), (5000, 20)]:
        index.maybe_append(timestamp, BASE + offset)
    assert index.items() == [(1000, BASE + 3), (2000, BASE + 9), (5000, BASE + 20)]
    assert index.lookup(999) == (-1, BASE)
    assert index.lookup(1000) == (1000, BASE + 3)
    assert index.lookup(4999) == (2000, BASE + 9)
    assert index.lookup(1 << 60) == (5000, BASE + 20)
    index.trim()
    assert path.read_bytes() == struct.pack(">qiqiqi", 1000, 3, 2000, 9, 5000, 20)
    index.truncate_to(BASE + 9)
    assert index.last() == (1000, BASE + 3)


def test_a_time_index_keeps_a_slot_for_the_closing_entry(tmp_path: Path) -> None:
    index = TimeIndex(str(tmp_path / "a.timeindex"), 0, 36)
    index.create()
    index.maybe_append(1, 1)
    assert not index.has_no_room(1)
    index.maybe_append(2, 2)
    assert index.has_no_room(1)


@pytest.mark.parametrize("content", [b"\0" * 11, struct.pack(">qiqi", 1000, 3, 0, 0), struct.pack(">qi", 5, -1)])
def test_a_damaged_time_index_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.timeindex").write_bytes(content)
    with pytest.raises(CorruptIndexError):
        TimeIndex(str(tmp_path / "a.timeindex"), BASE, 1024).load()
