"""Tests of appends, rolls and reads: offsets, slices, byte limits, duplicates."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.append.append_info import AppendInfo
from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import (
    CorruptMessageError,
    InvalidProducerEpochError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumberError,
)
from kafkalog.records.batch import decode_batch, iter_headers, read_header
from kafkalog.storage import names
from tests.broker.log.support import NOW, batch, marker, open_log, stored, temporary_directory

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=1200)


def append(log: Log, count: int = 1, *, timestamp: int = NOW, now_ms: int = NOW, size: int = 20) -> int:
    data = batch(count, size=size, timestamp=timestamp)
    return log.append_batch(data, leader_epoch=0, now_ms=now_ms).first_offset


def test_a_batch_is_stored_as_it_came_but_for_offset_and_leader_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append(log, 3) == 0
    sent = batch(2, step=5)
    expected = bytearray(sent)
    info = log.append_batch(sent, leader_epoch=7, now_ms=NOW)
    assert (info.first_offset, info.last_offset, info.next_offset, info.max_timestamp) == (3, 4, 5, NOW + 5)
    assert (info.log_append_time, info.log_start_offset, info.duplicate) == (-1, 0, False)
    expected[:8] = (3).to_bytes(8, "big")
    expected[12:16] = (7).to_bytes(4, "big")
    assert log.read(3, 1 << 20).read() == expected
    assert log.log_end_offset == 5
    assert log.size == log.read(0, 1 << 20).size


def test_the_first_batch_is_whole_however_small_the_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(20):
        append(log, 3)
    one = batch(3).nbytes
    for offset in (0, 1, 2, 30, 59):
        result = log.read(offset, 1)
        assert result.size == one
        header = read_header(result.read())
        assert header.base_offset <= offset <= header.last_offset
        assert log.read(offset, 0, min_one=False).size == 0
        assert log.read(offset, one - 1, min_one=False).size == 0, "a piece is no use, as in Kafka since Fetch 3"
        assert log.read(offset, one + 10).size <= one + 10


def test_a_read_goes_on_into_the_next_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(40):
        append(log)
    assert len(log.segments) > 3
    result = log.read(0, 1 << 20)
    assert len(result.slices) == len(log.segments)
    assert [header.base_offset for _, header in iter_headers(result.read())] == list(range(40))
    assert log.read(0, 1500).size == 1500


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 17, 39, 40, 1000])
def test_nothing_at_or_after_the_limit_is_returned(tmp_path: Path, limit: int) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(20):
        append(log, 2)
    data = log.read(0, 1 << 20, max_offset=limit).read()
    found = [header.last_offset for _, header in iter_headers(data)]
    assert found == [last for last in range(1, 40, 2) if last < limit]


def test_offsets_outside_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    append(log, 5)
    assert log.read(5, 100).size == 0
    for offset in (-1, 6):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 100)
    log.high_watermark = 5
    log.delete_records(3)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100)
    assert log.read(3, 100).size > 0


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    append(log, 2)
    before = log.read(0, 1 << 20)
    expected = before.read()
    log.truncate_fully_and_start_at(100, now_ms=NOW)
    assert before.read() == expected
    assert before.slices[0].fd >= 0


def test_a_batch_damaged_on_disk_is_a_corrupt_message(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(3):
        append(log)
    log.close()
    path = Path(log.active_segment.path(names.LOG))
    data = bytearray(path.read_bytes())
    data[8:12] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    again = open_log(tmp_path, SMALL, clean=True)
    with pytest.raises(CorruptMessageError):
        again.read(0, 100)


# -- rolling -------------------------------------------------------------------------------------------------


def test_roll_by_size(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=3 * batch(1).nbytes))
    for _ in range(7):
        append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    files = sorted(path.name for path in log.dir.glob("*.log"))
    assert files == [f"{base:020d}.log" for base in (0, 3, 6)]


def test_roll_by_the_time_of_the_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 1000, now_ms=NOW + 900_000)
    assert len(log.segments) == 1, "the clock does not count where records have timestamps"
    append(log, timestamp=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    append(log, timestamp=NOW - 5000)
    assert len(log.segments) == 2


def test_roll_by_time_after_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000)
    log = open_log(tmp_path, config)
    append(log, timestamp=NOW)
    log.close()
    log = open_log(tmp_path, config, clean=True, now_ms=NOW + 5000)
    append(log, timestamp=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_records_without_timestamps_roll_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, timestamp=-1)
    append(log, timestamp=-1, now_ms=NOW + 1000)
    assert len(log.segments) == 1
    append(log, timestamp=-1, now_ms=NOW + 1001)
    assert len(log.segments) == 2


def test_jitter_takes_less_than_it_may_and_differs_by_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000, segment_jitter_ms=500, segment_bytes=200))
    for _ in range(20):
        append(log)
    jitters = {segment.jitter_ms for segment in log.segments}
    assert len(jitters) > 5
    assert all(0 <= jitter < 500 for jitter in jitters)


def test_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1, segment_index_bytes=5 * 12))
    for i in range(20):
        append(log, timestamp=NOW + i)
    assert len(log.segments) > 3
    assert all(segment.time_index.entries <= 5 for segment in log.segments)
    assert [row.base_offset for row in stored(log)] == list(range(20))


def test_an_empty_segment_does_not_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.roll(NOW)
    assert len(log.segments) == 1
    append(log)
    log.roll(NOW)
    log.roll(NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_preallocation_gives_back_what_was_not_used(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=1 << 20, preallocate=True))
    append(log)
    path = Path(log.active_segment.path(names.LOG))
    assert path.stat().st_size == 1 << 20
    assert log.size == batch(1).nbytes
    crashed = open_log(tmp_path, LogConfig(segment_bytes=1 << 20, preallocate=True))
    assert crashed.log_end_offset == 1
    append(crashed)
    crashed.close()
    assert path.stat().st_size == 2 * batch(1).nbytes


# -- as a follower -------------------------------------------------------------------------------------------


def test_a_follower_keeps_the_bytes_of_the_leader(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "a", SMALL)
    for epoch in range(10):
        leader.append_batch(batch(2), leader_epoch=epoch, now_ms=NOW)
    follower = open_log(tmp_path / "b", SMALL)
    data = leader.read(0, 1 << 20).read()
    cut_off = memoryview(bytearray(data[:-5]))
    info = follower.append_as_follower(cut_off, now_ms=NOW)
    assert info is not None
    assert (info.first_offset, info.last_offset) == (0, 17)
    rest = leader.read(follower.log_end_offset, 1 << 20).read()
    follower.append_as_follower(memoryview(bytearray(rest)), now_ms=NOW)
    assert follower.read(0, 1 << 20).read() == data
    assert follower.epochs.entries() == leader.epochs.entries()
    assert follower.append_as_follower(memoryview(bytearray()), now_ms=NOW) is None


def test_a_follower_refuses_damage_and_offsets_that_it_has(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    good = batch(2, base_offset=10, leader_epoch=3)
    assert log.append_as_follower(good, now_ms=NOW) is not None
    assert log.log_end_offset == 12, "a gap is the leader's affair"
    with pytest.raises(OffsetOutOfRangeError):
        log.append_as_follower(good, now_ms=NOW)
    damaged = bytearray(batch(2, base_offset=12))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        log.append_as_follower(memoryview(damaged), now_ms=NOW)
    assert log.log_end_offset == 12


# -- any log -------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=40),
    segment_bytes=st.integers(2000, 6000),
    interval=st.integers(0, 2000),
    reads=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4000), st.floats(0, 1.1)), max_size=25),
)
def test_reads_agree_with_a_list_of_batches(
    sizes: list[tuple[int, int]], segment_bytes: int, interval: int, reads: list[tuple[float, int, float]]
) -> None:
    with temporary_directory() as directory:
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, segment_index_bytes=240)
        log = open_log(directory, config)
        model: list[bytes] = []
        for count, size in sizes:
            sent = batch(count, size=size)
            log.append_batch(sent, leader_epoch=1, now_ms=NOW)
            model.append(bytes(sent))
        spans = [(header.base_offset, header.last_offset) for header in map(read_header, model)]
        end = log.log_end_offset
        for share, max_bytes, limit_share in reads:
            offset, limit = int(share * end), int(limit_share * end)
            at = next((i for i, (_, last) in enumerate(spans) if last >= offset), len(spans))
            if offset >= limit:
                assert log.read(offset, max_bytes, max_offset=limit).size == 0
                continue
            readable = [raw for raw, (_, last) in zip(model[at:], spans[at:], strict=True) if last < limit]
            everything = b"".join(readable)
            got = log.read(offset, max_bytes, max_offset=limit).read()
            wanted = max(max_bytes, len(readable[0])) if readable else 0
            # A piece of a batch follows the last whole one only within a segment.
            whole = max(total for total in itertools.accumulate(map(len, readable), initial=0) if total <= wanted)
            assert len(got) >= whole
            assert everything[:wanted].startswith(got)
            for position, _ in iter_headers(got):
                decode_batch(got, position)


@pytest.mark.parametrize("interval", [0, 500])
def test_aborted_transactions_of_what_was_read(tmp_path: Path, interval: int) -> None:
    """All that touch the batches read, and none that begins after the next entry of the index."""
    log = open_log(tmp_path, LogConfig(segment_bytes=1500, index_interval_bytes=interval))
    aborted: list[tuple[int, int]] = []
    for producer_id in range(40):
        first = log.log_end_offset
        for sequence in range(2):
            data = batch(
                1, size=100, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
            )
            log.append_batch(data, leader_epoch=0, now_ms=NOW, in_transaction=True)
        commit = producer_id % 3 == 0
        log.append_batch(marker(producer_id, commit=commit), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
        if not commit:
            aborted.append((producer_id, first))
    end = log.log_end_offset
    for start in range(0, end, 5):
        result = log.read(start, 700, max_offset=end)
        read_to = max(header.next_offset for _, header in iter_headers(result.read()))
        told = [(row.producer_id, row.first_offset) for row in log.aborted_within(start, result, end)]
        assert told == [row for row in aborted if row[1] + 2 >= start and row in told], "in order"
        assert {row for row in aborted if row[1] < read_to and row[1] + 2 >= start} <= set(told)
        # Three offsets a transaction; an index entry at least every 500 bytes, which two transactions do not fit.
        assert all(first < read_to + (3 if interval == 0 else 9) for _, first in told)
    assert log.aborted_within(end, log.read(end, 700, max_offset=end), end) == []


# -- idempotent producers ------------------------------------------------------------------------------------


def produce(log: Log, sequence: int, count: int = 1, *, epoch: int = 0) -> AppendInfo:
    data = batch(count, size=50, producer_id=3, producer_epoch=epoch, base_sequence=sequence)
    return log.append_batch(data, leader_epoch=0, now_ms=NOW)


def test_a_duplicate_is_answered_with_its_first_offsets_and_not_appended(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    first = [produce(log, sequence, 5) for sequence in range(0, 100, 5)]
    assert len(log.segments) > 1
    size = log.size
    for info, sequence in zip(first[-5:], range(75, 100, 5), strict=True):
        again = produce(log, sequence, 5)
        assert again.duplicate
        assert (again.first_offset, again.last_offset, again.max_timestamp) == (
            info.first_offset, info.last_offset, info.max_timestamp,
        )  # fmt: skip
    assert (log.size, log.log_end_offset) == (size, 100)
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(log, 70, 5)
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(log, 95, 4)
    assert log.log_end_offset == 100


def test_sequences_wrap_in_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 2**31 - 3, 2)
    assert produce(log, 2**31 - 1, 4).first_offset == 2
    assert produce(log, 2**31 - 1, 4).duplicate
    assert produce(log, 3).first_offset == 6
    log.close()
    again = open_log(tmp_path, clean=True)
    assert produce(again, 3).duplicate
    assert produce(again, 4).first_offset == 7


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 0, epoch=4)
    with pytest.raises(InvalidProducerEpochError):
        produce(log, 1, epoch=3)
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(log, 1, epoch=5)
    assert produce(log, 0, epoch=5).first_offset == 1
    assert log.log_end_offset == 2


def test_a_refused_batch_leaves_log_and_state_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(max_message_bytes=300))
    produce(log, 0)
    with pytest.raises(MessageTooLargeError):
        produce(log, 1, 20)
    assert produce(log, 1).first_offset == 1
