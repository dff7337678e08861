"""Test look-ups of offsets by time, by epoch and by name against a walk over every record."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.log.append.validation import Origin, prepare, prepare_ahead
from broker.log.log import Log
from broker.log.log_config import LOG_APPEND_TIME, MAX_LONG, LogConfig
from broker.log.read.time_search import TimestampOffset, first_with_timestamp
from kafkalog.records.batch import (
    Record,
    decode_batch,
    encode_batch,
    iter_headers,
    read_header,
    seal_batch,
    set_log_append_time,
)
from kafkalog.records.compression import Codec
from kafkalog.records.renumbering import renumber
from kafkalog.records.varint import int64
from tests.broker.log.by_time import found_by_time, found_latest
from tests.broker.log.support import NOW, batch, open_log, temporary_directory


def every_record(log: Log) -> list[tuple[int, int]]:
    """`(offset, timestamp)` of each record from the log start offset on."""
    if log.log_start_offset == log.log_end_offset:
        return []
    data = log.read(log.log_start_offset, 1 << 30).read()
    found = [record for at, _ in iter_headers(data) for record in decode_batch(data, at)[1]]
    return [(record.offset, record.timestamp) for record in found if record.offset >= log.log_start_offset]


times = st.lists(st.integers(-20, 200), min_size=1, max_size=6)


@given(
    batches=st.lists(times, min_size=1, max_size=30),
    segment_bytes=st.integers(300, 2000),
    interval=st.sampled_from([0, 100, 500]),
    start=st.floats(0, 1),
    probes=st.lists(st.integers(-25, 205), max_size=10),
    restart=st.sampled_from(["no", "clean", "crash"]),
)
def test_times_agree_with_a_walk(
    batches: list[list[int]], segment_bytes: int, interval: int, start: float, probes: list[int], restart: str
) -> None:
    with temporary_directory() as directory:
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, segment_index_bytes=360)
        log = open_log(directory, config)
        for n, stamps in enumerate(batches):
            records = [Record(i, NOW + stamp, None, b"v" * 30, ()) for i, stamp in enumerate(stamps)]
            codec = Codec.GZIP if n % 5 == 4 else Codec.NONE
            log.append_batch(memoryview(encode_batch(records, codec=codec)), leader_epoch=n // 7, now_ms=NOW)
        log.high_watermark = log.log_end_offset
        everything = every_record(log)
        log.delete_records(int(start * log.log_end_offset))
        if restart != "no":
            if restart == "clean":
                log.close()
            log = open_log(directory, config, clean=restart == "clean", log_start_offset=log.log_start_offset)
        rows = every_record(log)
        for probe in [*probes, *(stamp - NOW for _, stamp in rows)]:
            found = found_by_time(log, NOW + probe)
            expected = next(((offset, stamp) for offset, stamp in rows if stamp >= NOW + probe), None)
            assert (None if found is None else (found.offset, found.timestamp)) == expected
            if found is not None:
                assert found.leader_epoch == log.epochs.epoch_for_offset(found.offset)
        rows = [row for row in everything if row[0] >= log.segments[0].base_offset]
        newest = max(stamp for _, stamp in rows)
        latest = found_latest(log)
        assert latest is not None
        assert (latest.offset, latest.timestamp) == next((o, t) for o, t in rows if t == newest)


def test_times_past_64_bits_wrap_around(tmp_path: Path) -> None:
    """A record states the difference to its batch's base timestamp. Apache Kafka's brokers take such batches."""
    stated = encode_batch([Record(at, delta, None, b"v", ()) for at, delta in enumerate([0, 1, MAX_LONG, -5])])
    data = seal_batch(read_header(stated)._replace(base_timestamp=MAX_LONG), stated)
    log = open_log(tmp_path)
    prepared, _ = prepare(memoryview(data), log.config, NOW, Origin.CLIENT, "t-0")
    log.append_batch(prepared, leader_epoch=0, now_ms=NOW)
    assert every_record(log) == [(0, MAX_LONG), (1, -MAX_LONG - 1), (2, -2), (3, MAX_LONG - 5)]
    assert next(iter_headers(log.read(0, 1 << 20).read()))[1].max_timestamp == MAX_LONG
    for timestamp, offset in ((0, 0), (MAX_LONG - 5, 0), (MAX_LONG, 0)):
        found = found_by_time(log, timestamp)
        assert found is not None
        assert (found.offset, found.timestamp) == (offset, MAX_LONG)


def test_records_of_times_that_wrap_around_are_not_late(tmp_path: Path) -> None:
    """The largest timestamp in the header is -1 then, as in Kafka."""
    stated = encode_batch([Record(at, delta, None, b"v", ()) for at, delta in enumerate([0, 10, 20])])
    header = read_header(stated)._replace(base_timestamp=MAX_LONG)
    made = renumber(seal_batch(header, stated), 0, header, 1)
    assert made is not None
    data = seal_batch(read_header(made.data)._replace(max_timestamp=NOW), bytearray(made.data))
    log = open_log(tmp_path)
    prepared, header = prepare(memoryview(data), log.config, NOW, Origin.CLIENT, "t-0")
    log.append_batch(prepared, leader_epoch=0, now_ms=NOW)
    assert header.max_timestamp == -1
    assert found_by_time(log, 0) is None


@given(base=st.integers(-MAX_LONG - 1, MAX_LONG), deltas=st.lists(st.integers(-MAX_LONG - 1, MAX_LONG), max_size=4),
       wanted=st.integers(-MAX_LONG - 1, MAX_LONG))  # fmt: skip
def test_the_first_record_that_is_late_enough(base: int, deltas: list[int], wanted: int) -> None:
    stated = encode_batch([Record(at, delta, None, b"v", ()) for at, delta in enumerate([0, *deltas])])
    header = read_header(stated)._replace(base_timestamp=base)
    times = [int64(base + delta) for delta in [0, *deltas]]
    expected = next((TimestampOffset(time, at, -1) for at, time in enumerate(times) if time >= wanted), None)
    assert first_with_timestamp(header, bytes(seal_batch(header, stated)), wanted, 0) == expected


def test_log_append_time_is_the_batch_s(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    for i in range(3):
        log.append_batch(batch(4, timestamp=5), leader_epoch=0, now_ms=NOW + i * 10)
    for wanted, offset in ((0, 0), (NOW, 0), (NOW + 1, 4), (NOW + 20, 8)):
        found = found_by_time(log, wanted)
        assert found is not None
        assert found.offset == offset
    assert found_by_time(log, NOW + 21) is None
    latest = found_latest(log)
    assert latest is not None
    assert latest.timestamp == NOW + 20


def test_log_append_time_does_not_decrease_for_a_batch_that_a_worker_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    checked = prepare_ahead(batch(2, timestamp=5), log.config, NOW, Origin.CLIENT, "t-0")
    log.append_batch(batch(2, timestamp=5), leader_epoch=0, now_ms=NOW + 10)
    info = log.append_batch(checked, leader_epoch=0, now_ms=NOW + 20)
    assert info.log_append_time == NOW + 20
    assert [stamp for _, stamp in every_record(log)] == [NOW + 10, NOW + 10, NOW + 20, NOW + 20]


def test_log_append_time_where_compaction_has_left_gaps(tmp_path: Path) -> None:
    """A batch keeps its first offset when its first records go, and its header when all go."""
    log = open_log(tmp_path)
    record = Record(2, NOW, b"k", b"v")
    for records, base in (([record], 0), ([], 5), ([record._replace(offset=9)], 6)):
        log.append_as_follower(memoryview(encode_batch(records, base_offset=base, log_append_time=True)), now_ms=NOW)
    assert found_by_time(log, NOW) == (NOW, 2, -1)
    empty = memoryview(encode_batch([], base_offset=10, log_append_time=True))
    set_log_append_time(empty, 0, NOW + 1)
    log.append_as_follower(empty, now_ms=NOW)
    assert found_by_time(log, NOW + 1) is None


def test_records_without_timestamps_are_not_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert found_latest(log) is None
    log.append_batch(batch(2, timestamp=-1), leader_epoch=0, now_ms=NOW)
    assert found_latest(log) is None
    assert found_by_time(log, 0) is None


def test_earliest_latest_and_ends_of_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=300))
    assert log.earliest_offset() == (-1, 0, -1)
    assert log.latest_offset() == (-1, 0, -1)
    for epoch in (2, 2, 5, 5, 5, 9):
        log.append_batch(batch(2), leader_epoch=epoch, now_ms=NOW)
    assert log.earliest_offset() == (-1, 0, 2)
    assert log.latest_offset() == (-1, 12, 9)
    assert [log.end_offset_for_epoch(epoch) for epoch in (1, 2, 4, 5, 8, 9, 10)] == [
        (1, 0), (2, 4), (2, 4), (5, 10), (5, 10), (9, 12), (-1, -1),
    ]  # fmt: skip
    log.high_watermark = 12
    log.delete_records(7)
    assert log.earliest_offset() == (-1, 7, 5)
    log.truncate_to(8, now_ms=NOW)
    assert log.latest_offset() == (-1, 8, 5)


def test_legacy_offsets_are_where_segments_begin(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=150))
    for _ in range(4):
        log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    assert log.legacy_offsets_before(-1, 10, NOW) == [4, 3, 2, 1, 0]
    assert log.legacy_offsets_before(-1, 2, NOW) == [4, 3]
    assert log.legacy_offsets_before(-2, 10, NOW) == [0]
    assert log.legacy_offsets_before(0, 10, NOW) == []
