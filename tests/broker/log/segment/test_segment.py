"""Tests of one segment: its files, its index entries, positions, and the walk over its batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.files.file_ops import FileOps
from broker.log.index.time_index import NO_TIMESTAMP
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from broker.log.segment.batch_positions import RECENT_BATCHES
from broker.log.segment.batch_scan import batch_size, find_batch, headers, verified_batches
from broker.log.segment.segment import Segment
from broker.log.segment.segment_cut import SegmentCut, find_cut
from kafkalog.records.any_format import read_any_header
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import names
from tests.broker.log.support import NOW, FaultyOps, batch, open_log, stored, temporary_directory


def make(directory: Path, config: LogConfig | None = None, base: int = 0) -> Segment:
    return Segment.create(
        str(directory),
        base,
        config or LogConfig(),
        NOW,
    )


def append(segment: Segment, first: int, count: int = 1, timestamp: int = NOW, size: int = 20) -> int:
    """Append a batch whose offsets begin at `first`; its size in bytes."""
    data = batch(count, size=size, base_offset=first, timestamp=timestamp)
    segment.append(data, first, first + count - 1, timestamp)
    return len(data)


def test_an_entry_for_the_first_batch_after_each_interval(tmp_path: Path) -> None:
    segment = make(tmp_path, LogConfig(index_interval_bytes=300), base=1000)
    sizes = [append(segment, 1000 + i, timestamp=NOW + i // 4) for i in range(20)]
    one = sizes[0]
    # 1 + 300 // one batches lie between two entries.
    every = 300 // one + 1
    expected = [(1000 + i, i * one) for i in range(every, 20, every)]
    assert segment.offset_index.items() == expected
    newest = -1
    times = []
    for offset, _ in expected:
        timestamp = NOW + (offset - 1000) // 4
        if timestamp > newest:
            # With the offset of the batch that first had it.
            times.append((timestamp, 1000 + (timestamp - NOW) * 4))
            newest = timestamp
    assert segment.time_index.items() == times


def test_the_closing_time_entry_is_the_largest_timestamp(tmp_path: Path) -> None:
    segment = make(tmp_path)
    for i, timestamp in enumerate((5, 90, 20)):
        append(segment, i, timestamp=NOW + timestamp)
    segment.finish()
    assert segment.time_index.items() == [(NOW + 90, 1)]
    assert os.stat(segment.path(names.INDEX)).st_size == 0
    segment.finish()
    assert segment.time_index.entries == 1


@pytest.mark.parametrize("interval", [0, 1000, 1 << 20])
def test_positions_of_old_and_new_batches(tmp_path: Path, interval: int) -> None:
    segment = make(tmp_path, LogConfig(index_interval_bytes=interval))
    count = RECENT_BATCHES * 3
    one = 0
    for i in range(count):
        one = append(segment, i * 3, 3)
    for i in range(0, count, 7):
        for within in range(3):
            assert segment.position_of(i * 3 + within) == i * one
    assert segment.position_of(count * 3) is None
    assert segment.limit_for(count * 3) == segment.size
    assert segment.limit_for(7) == 2 * one


def test_limits_are_forgotten_with_what_is_cut(tmp_path: Path) -> None:
    segment = make(tmp_path)
    one = append(segment, 0)
    append(segment, 1)
    append(segment, 2)
    assert segment.limit_for(2) == 2 * one
    cut = find_cut(segment, 1)
    assert cut == SegmentCut(1, one, 1, (NO_TIMESTAMP, 0), 0)
    segment.truncate_to(cut.offset, cut.position, (NOW, 0))
    assert (segment.size, segment.next_offset()) == (one, 1)
    bigger = append(segment, 1, size=50)
    append(segment, 2)
    assert segment.limit_for(2) == one + bigger


def test_files_have_kafkas_names_and_go_together(tmp_path: Path) -> None:
    segment = make(tmp_path, base=42)
    append(segment, 42)
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == [f"{42:020d}{kind}" for kind in (".index", ".log", ".timeindex")]
    segment.mark_deleted()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.deleted" for name in found]
    segment.remove()
    assert not list(tmp_path.iterdir())


def test_offsets_beyond_two_to_the_thirty_one_roll(tmp_path: Path) -> None:
    segment = make(tmp_path, base=10)
    append(segment, 10)
    assert not segment.should_roll(100, 10 + 2**31 - 1, NOW, NOW)
    assert segment.should_roll(100, 10 + 2**31, NOW, NOW)


# -- hostile bytes -------------------------------------------------------------------------------------------


def file_with(directory: Path, content: bytes) -> int:
    path = directory / "00000000000000000000.log"
    path.write_bytes(content)
    return os.open(path, os.O_RDWR)


def test_lengths_are_not_believed_before_they_are_checked(tmp_path: Path) -> None:
    content = bytearray(batch(3)) + bytearray(batch(3, base_offset=3))
    good = len(content) // 2
    content[good + 8 : good + 12] = (1 << 30).to_bytes(4, "big")
    fd = file_with(tmp_path, bytes(content))
    try:
        assert [at for at, _ in headers(fd, 0, len(content))] == [0]
        assert batch_size(fd, 0, len(content)) == good
        assert batch_size(fd, good, len(content)) == 0
        assert find_batch(fd, 0, len(content), 2) == (0, 0, good)
        assert find_batch(fd, 0, len(content), 3) is None
        walk = verified_batches(fd, 0, len(content))
        assert next(walk)[0] == 0
        with pytest.raises(CorruptRecordError, match="cut off"):
            next(walk)
    finally:
        os.close(fd)


@given(
    content=st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda at, value: bytes(batch(2)[:at]) + bytes([value]) + bytes(batch(2)[at + 1 :]),
            st.integers(0, 110), st.integers(0, 255),
        ),
        st.builds(lambda tail: bytes(batch(2)) + tail, st.binary(max_size=100)),
    )
)  # fmt: skip
def test_any_file_opens_as_its_valid_prefix(content: bytes) -> None:
    with temporary_directory() as directory:
        path = directory / "t-0" / "00000000000000000000.log"
        path.parent.mkdir()
        path.write_bytes(content)
        fd = os.open(path, os.O_RDONLY)
        try:
            for walk in (headers, verified_batches):
                try:
                    positions = [item[0] for item in walk(fd, 0, len(content))]
                except RecordsError:
                    continue
                assert positions == sorted(set(positions))
        finally:
            os.close(fd)
        log = open_log(directory)
        assert content.startswith(path.read_bytes()) or read_any_header(content).base_offset > 0
        rows = stored(log)
        assert log.append_batch(batch(1), leader_epoch=0, now_ms=NOW).first_offset == log.log_end_offset - 1
        assert len(stored(log)) == len(rows) + 1


class Interrupted(FileOps):
    """File operations; the next one that opens a file with this ending does something else first."""

    __slots__ = ("ending", "first")

    def __init__(self) -> None:
        self.ending = ""
        self.first: Callable[[], object] = bool

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        fd = super().open(path, flags, mode)
        if self.ending and path.endswith(self.ending):
            self.ending = ""
            self.first()
        return fd


@pytest.mark.parametrize("kind", [names.INDEX, names.TIME_INDEX])
def test_a_flush_writes_nothing_of_indexes_that_are_rebuilt_meanwhile(tmp_path: Path, kind: str) -> None:
    """The flush runs on a worker, and has opened the file when the event loop makes it anew."""
    ops = Interrupted()
    config = LogConfig(index_interval_bytes=0)
    segment = Segment.create(str(tmp_path), 0, config, NOW, LogResources(ops=ops))
    # Wrong entries, which the rebuild is to replace.
    segment.offset_index.append(1, 7)
    segment.time_index.maybe_append(NOW - 10, 1)
    for offset in range(5):
        append(segment, offset, timestamp=NOW + offset)
    ops.ending, ops.first = kind, lambda: segment.rebuild_indexes(segment.scan_log())
    segment.flush()
    assert not ops.ending
    assert [offset for offset, _ in segment.offset_index.items()] == [1, 2, 3, 4]
    assert segment.time_index.items() == [(NOW + offset, offset) for offset in range(1, 5)]
    again = Segment(str(tmp_path), 0, segment.size, config, NOW)
    assert again.offset_index.items() == segment.offset_index.items()
    assert again.time_index.items() == segment.time_index.items()
    assert not again.rebuilt


def test_a_flush_covers_indexes_that_are_rebuilt_meanwhile(tmp_path: Path) -> None:
    """The recovery point moves past the segment, so nobody would look whether they are on the device."""
    ops = Interrupted()
    segment = Segment.create(str(tmp_path), 0, LogConfig(index_interval_bytes=0), NOW, LogResources(ops=ops))
    for offset in range(5):
        append(segment, offset, timestamp=NOW + offset)
    ops.ending, ops.first = names.TIME_INDEX, lambda: segment.rebuild_indexes(segment.scan_log())
    segment.flush()
    assert not segment.offset_index.is_unsynced
    assert not segment.time_index.is_unsynced


def test_indexes_that_cannot_be_rebuilt_keep_their_entries(tmp_path: Path) -> None:
    ops = FaultyOps()
    segment = Segment.create(str(tmp_path), 0, LogConfig(index_interval_bytes=0), NOW, LogResources(ops=ops))
    for offset in range(5):
        append(segment, offset, timestamp=NOW + offset)
    entries = segment.offset_index.items(), segment.time_index.items()
    scan = segment.scan_log()
    scan.run()
    ops.fail["open"] = 1
    with pytest.raises(OSError, match="injected"):
        segment.rebuild_indexes(scan)
    ops.heal()
    assert (segment.offset_index.items(), segment.time_index.items()) == entries
    segment.flush()
    assert (segment.offset_index.items(), segment.time_index.items()) == entries
