"""Tests of cleaning a log: what it keeps, the resulting log, old formats, and readers during the cleaning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.log.cleaner.clean import LogCleaning
from broker.log.cleaner.job import facts_of, make_job
from broker.log.cleaner.selection import examine
from broker.log.cleaner.throttle import Throttle
from kafkalog.records.batch import DELETE_HORIZON_FLAG, Record
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from kafkalog.storage import names
from tests.broker.log.by_time import found_by_time, found_latest
from tests.broker.log.cleaner.support import (
    COMPACT,
    SMALL,
    append,
    batches_of,
    clean,
    clean_whole,
    keyed,
    offsets,
    records_of,
    table_of,
)
from tests.broker.log.support import NOW, append_any, open_log


@pytest.mark.parametrize("codec", list(Codec))
def test_of_each_key_the_latest_record_stays_at_its_offset(tmp_path: Path, codec: Codec) -> None:
    log = open_log(tmp_path, COMPACT)
    for round_ in range(30):
        append(
            log, *((b"k%d" % key, b"%d" % round_ + b"v" * 30) for key in range(round_ % 7)), (b"z", b"y"), codec=codec
        )
    expected = table_of(log)
    end = log.log_end_offset
    stats = clean_whole(log)
    assert stats is not None
    assert stats.records_written == len(expected) == len(records_of(log))
    assert table_of(log) == expected
    assert (log.log_end_offset, log.cleaned_offset) == (end, end)
    found = {offset: (key, value) for offset, key, value in records_of(log)}
    assert sorted(found) == list(found)
    again = open_log(tmp_path, COMPACT, log_start_offset=0, recovery_point=log.recovery_point)
    assert {offset: (key, value) for offset, key, value in records_of(again)} == found
    assert again.log_end_offset == end


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_records_without_timestamps_are_as_young_as_their_file(tmp_path: Path, magic: int) -> None:
    """As with `largestTimestamp` of Kafka's `LogSegment`, which falls back to the time of the last change."""
    log = open_log(tmp_path, COMPACT.with_changes(message_format=magic, min_compaction_lag_ms=1000))
    for number in range(2):
        if magic == 2:
            sent = keyed([(b"k", b"%d" % number)], timestamp=-1)
        else:
            sent = memoryview(encode_message_set([Record(0, -1, b"k", b"%d" % number)], magic=magic))
        append_any(log, sent, leader_epoch=0, now_ms=NOW)
        os.utime(log.active_segment.path(names.LOG), ns=(NOW * 1_000_000, NOW * 1_000_000))
        log.roll(NOW)
    log.high_watermark = log.log_end_offset
    assert clean(log, now_ms=NOW + 999) is None
    assert clean(log, now_ms=NOW + 1000) is not None
    assert [value for _, _, value in records_of(log)] == [b"1"]


def test_a_cleaned_segment_has_the_settings_that_the_log_has_by_then(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(preallocate=True))
    append(log, (b"a", b"1"))
    log.roll(NOW)
    changed = log.config.with_changes(segment_ms=1234)
    clean(log, flushed=lambda: setattr(log, "config", changed))
    assert [segment.config for segment in log.segments] == [changed, changed]


def test_the_active_segment_is_not_cleaned(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    log.roll(NOW)
    append(log, (b"b", b"2"))
    append(log, (b"b", b"3"))
    append(log, (b"a", b"4"))
    clean(log)
    # Nor does what it holds make anything superfluous.
    assert offsets(log) == [0, 1, 2, 3]
    assert log.cleaned_offset == 1


def test_nothing_past_the_high_watermark_is_cleaned(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    log.roll(NOW)
    log.append_batch(keyed([(b"a", b"2")]), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    clean(log)
    assert offsets(log) == [0, 1]
    log.high_watermark = 2
    clean(log)
    assert offsets(log) == [1]


def test_small_segments_become_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    for index in range(6):
        append(log, (b"%d" % (index % 5), b"v"))
        log.roll(NOW)
    before = len(log.segments)
    clean(log)
    assert (before, len(log.segments)) == (7, 2)
    assert offsets(log) == [1, 2, 3, 4, 5]
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert log.producers.snapshot_offsets == [6]


def test_a_segment_whose_records_all_went_leaves_no_hole(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(segment_bytes=100))
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    append(log, (b"a", b"3"))
    clean_whole(log)
    assert offsets(log) == [2]
    assert log.read(0, 1000).read() == log.read(2, 1000).read()
    assert [log.segments[0].base_offset, log.log_start_offset] == [0, 0]


# -- tombstones


def test_a_tombstone_stays_for_its_time_and_then_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"), (b"b", b"2"))
    append(log, (b"a", None))
    clean_whole(log)
    assert records_of(log) == [(1, b"b", b"2"), (2, b"a", None)]
    headers = [header for header, _ in batches_of(log)]
    assert [header.delete_horizon for header in headers] == [None, NOW + 1000]
    assert [record.timestamp for _, records in batches_of(log) for record in records] == [NOW, NOW]
    append(log, (b"c", b"3"))
    clean_whole(log, now_ms=NOW + 999)
    assert offsets(log) == [1, 2, 3]
    append(log, (b"d", b"4"))
    clean_whole(log, now_ms=NOW + 1000)
    assert offsets(log) == [1, 3, 4]


# -- indexes and look-ups


def test_look_ups_agree_with_the_batches_afterwards(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(segment_bytes=20_000))
    for index in range(200):
        append(log, (b"%d" % (index % 90), b"v" * 40), (b"x", b"y"), timestamp=NOW + index)
    clean_whole(log)
    segment = log.segments[0]
    segment.release()
    assert segment.offset_index.entries > 10
    positions = {}
    position = 0
    for header, _ in batches_of(log):
        if header.base_offset < log.segments[1].base_offset:
            positions[header.base_offset] = position
            position += header.size
    for offset, position in segment.offset_index.items():
        assert positions[offset - 1] == position
    for header, records in batches_of(log):
        assert log.read(header.base_offset, 1).read()[:8] == header.base_offset.to_bytes(8, "big")
        found = found_by_time(log, records[0].timestamp)
        assert found is not None
        assert found.offset == records[0].offset
    largest = found_latest(log)
    assert largest is not None
    assert largest.timestamp == NOW + 199


def test_the_file_keeps_its_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"), timestamp=-1)
    append(log, (b"a", b"2"), timestamp=-1)
    log.roll(NOW)
    os.utime(log.segments[0].path(names.LOG), ns=(10**18, 10**18))
    clean(log)
    assert log.segments[0].retention_timestamp() == 10**12


# -- old formats


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_stay_in_their_format(tmp_path: Path, magic: int, codec: Codec) -> None:
    config = COMPACT.with_changes(message_format=magic)
    log = open_log(tmp_path, config)
    for index in range(3):
        pairs = [(b"a", b"%d" % index), (b"b%d" % index, b"v"), (b"c", None)]
        found = [Record(at, NOW if magic else -1, key, value) for at, (key, value) in enumerate(pairs)]
        append_any(log, memoryview(encode_message_set(found, magic=magic, codec=codec)), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    clean_whole(log)
    assert records_of(log) == [(1, b"b0", b"v"), (4, b"b1", b"v"), (6, b"a", b"2"), (7, b"b2", b"v"), (8, b"c", None)]
    found_batches = list(batches_of(log))
    assert {header.magic for header, _ in found_batches} == {magic}
    assert {header.attributes & 7 for header, _ in found_batches} == {codec}
    assert not any(header.attributes & DELETE_HORIZON_FLAG for header, _ in found_batches)
    # Their tombstones go when what is clean is old enough.
    log.config = config.with_changes(delete_retention_ms=0)
    append_any(
        log, memoryview(encode_message_set([Record(0, NOW if magic else -1, b"z", b"v")], magic=magic)),
        leader_epoch=0, now_ms=NOW,
    )  # fmt: skip
    clean_whole(log)
    assert (8, b"c", None) not in records_of(log)


def test_a_log_of_several_formats(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(message_format=0))
    append_any(log, memoryview(encode_message_set([Record(0, -1, b"a", b"1")], magic=0)), leader_epoch=0, now_ms=NOW)
    log.config = COMPACT
    append(log, (b"b", b"2"))
    append(log, (b"a", b"3"))
    clean_whole(log)
    assert records_of(log) == [(1, b"b", b"2"), (2, b"a", b"3")]


# -- readers


def test_who_reads_a_segment_reads_it_to_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(file_delete_delay_ms=500))
    for index in range(40):
        append(log, (b"a", b"%d" % index + b"v" * 40))
    reading = log.read(0, 10_000)
    before = reading.read()
    clean_whole(log)
    assert list(log.dir.glob("*.deleted"))
    assert log.remove_deleted(NOW + 499) == 0
    assert log.remove_deleted(NOW + 500) > 0
    assert not list(log.dir.glob("*.deleted"))
    assert reading.read() == before
    assert offsets(log) == [39]


def test_files_may_go_while_the_next_segments_are_cleaned(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(file_delete_delay_ms=0))
    for _ in range(3):
        for index in range(60):
            append(log, (b"%d" % index, b"v" * 40))
        expected = table_of(log)
        stats = clean_whole(log)
        assert stats is not None
        assert stats.segments_after > 1
        assert table_of(log) == expected
    assert len(records_of(log)) == 60


def test_a_flush_beside_a_replacement_does_no_harm(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    clean_whole(log)
    log._flusher.flush_segment(log.segments[0], log.truncations)
    log._flusher.recovery_point = 0
    log.flush()
    assert log.offline is None


# -- configuration and truncation


def test_a_truncated_log_forgets_what_was_clean(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"), (b"a", b"2"))
    clean_whole(log)
    log.truncate_fully_and_start_at(1, now_ms=NOW)
    assert log.cleaned_offset == 1


def test_a_compacted_segment_is_left_when_its_first_record_is_as_old_as_may_be(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(max_compaction_lag_ms=100))
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"), timestamp=NOW + 100)
    assert len(log.segments) == 1
    append(log, (b"a", b"3"), timestamp=NOW + 101)
    assert len(log.segments) == 2


def test_reading_and_writing_are_throttled(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(segment_bytes=1 << 20))
    for index in range(200):
        append(log, (b"%d" % index, b"v" * 500))
    log.roll(NOW)
    size = log.segments[0].size
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    job = make_job(log, examine(facts_of(log), NOW), NOW, lambda: False)

    def swap(new: object, old: object) -> None:
        now[0] += 1

    # The clock moves a little with each look at it, or no interval would ever end.
    def tick() -> float:
        now[0] += 0.31
        return now[0]

    throttle = Throttle(1000.0, clock=tick)
    LogCleaning(job, SMALL, throttle, swap, sleep=sleep).run()
    # Read twice, written once.
    assert now[0] == pytest.approx(3 * size / 1000, rel=0.1)
