"""Tests of what cannot be cleaned, of failing disks, and of cleanings that are aborted."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.log.cleaner.clean import DedupeBufferTooSmallError
from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.job import CleaningAbortedError, facts_of, make_job
from broker.log.cleaner.selection import examine
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.records.cleaning import PLAIN
from kafkalog.records.compression import Codec
from kafkalog.records.errors import CorruptRecordError
from kafkalog.storage import names
from tests.broker.log.cleaner.support import COMPACT, append, clean, clean_whole, offsets, records_of, table_of
from tests.broker.log.support import NOW, FaultyOps, open_log


def test_segments_that_changed_meanwhile_are_not_replaced(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(cleanup_policy=("compact", "delete"), retention_ms=10))
    append(log, (b"a", b"1"))
    log.roll(NOW)
    append(log, (b"a", b"2"))
    log.roll(NOW)
    append(log, (b"a", b"3"))
    old = list(log.segments[:2])
    log.apply_retention(NOW + 5000)
    assert not log.replace_segments(old[:1], old, NOW)
    assert not log.replace_segments(old[:1], [log.active_segment], NOW)
    assert log.offline is None


@pytest.mark.usefixtures("checked")
def test_damage_is_found_and_nothing_changes(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    log.roll(NOW)
    with open(log.segments[0].path(names.LOG), "r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    with pytest.raises(CorruptRecordError):
        clean(log)
    with open(log.segments[0].path(names.LOG), "r+b") as file:
        file.truncate(100)
    log.segments[0].size = 100
    with pytest.raises(CorruptRecordError, match="no whole batch"):
        clean(log)
    assert not list(log.dir.glob("*.cleaned"))


def test_a_batch_larger_than_the_buffer(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT.with_changes(segment_bytes=1 << 20))
    append(log, (b"a", b"v" * 50_000), (b"b", b"w" * 50_000))
    append(log, (b"a", b"1"))
    append(log, (b"c", None))
    clean_whole(log)
    assert offsets(log) == [1, 2, 3]


def test_a_map_that_does_not_hold_all_keys_cleans_in_several_turns(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    for index in range(100):
        append(log, (b"%d" % (index % 50), b"%d" % index))
    log.roll(NOW)
    expected = table_of(log)
    tiny = CleanerConfig(dedupe_buffer_size=24 * 20, io_buffer_size=8192)
    turns = 0
    while clean(log, config=tiny) is not None and turns < 50:
        turns += 1
        assert table_of(log) == expected
    assert turns > 3
    assert log.cleaned_offset == 100
    assert offsets(log) == list(range(50, 100))


def test_a_map_that_holds_not_even_a_batch_is_said_to_be_too_small(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, *((b"%d" % key, b"v") for key in range(30)))
    log.roll(NOW)
    with pytest.raises(DedupeBufferTooSmallError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        clean(log, config=CleanerConfig(dedupe_buffer_size=24 * 20))


def test_plain_python_cleans_as_well(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    for index in range(40):
        append(log, (b"%d" % (index % 7), b"%d" % index), codec=Codec(index % 5))
    expected = table_of(log)
    log.roll(NOW)
    clean(log, functions=PLAIN)
    assert table_of(log) == expected
    assert offsets(log) == list(range(33, 40))


@pytest.mark.parametrize("call", ["open", "pwrite", "fsync", "ftruncate"])
def test_a_disk_that_fails_while_it_is_written_leaves_the_log_as_it_was(tmp_path: Path, call: str) -> None:
    ops = FaultyOps(errno.ENOSPC)
    log = open_log(tmp_path, COMPACT, ops=ops)
    for index in range(40):
        append(log, (b"%d" % (index % 7), b"v" * 50))
    log.roll(NOW)
    log.flush()
    before, expected = records_of(log), table_of(log)
    ops.fail[call] = 1
    with pytest.raises(OSError, match="injected"):
        clean(log, ops=ops)
    ops.heal()
    assert log.offline is None
    # Segments of which nothing was left to be written may have been replaced before.
    assert set(records_of(log)) <= set(before)
    assert table_of(log) == expected
    assert not list(log.dir.glob("*.cleaned"))
    clean(log, ops=ops)
    assert len(records_of(log)) == 7


def test_a_replacement_that_fails_half_way_takes_the_log_offline(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, COMPACT, ops=ops)
    for index in range(40):
        append(log, (b"%d" % (index % 7), b"v" * 50))
    log.roll(NOW)
    expected = table_of(log)
    ops.fail["rename"] = 5
    with pytest.raises(KafkaStorageError):
        clean(log, ops=ops)
    assert log.offline is not None
    again = open_log(tmp_path, COMPACT)
    again.high_watermark = again.log_end_offset
    assert table_of(again) == expected


def test_a_job_is_aborted_by_what_changes_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"1"))
    log.roll(NOW)
    stopped = False
    cleanable = examine(facts_of(log), NOW)
    job = make_job(log, cleanable, NOW, lambda: stopped)
    job.check()
    log.config = COMPACT.with_changes(cleanup_policy=("delete",))
    with pytest.raises(Exception, match=r"cleanup\.policy"):
        job.check()
    log.config = COMPACT
    log.truncate_to(0, now_ms=NOW)
    with pytest.raises(Exception, match="truncated"):
        job.check()
    stopped = True
    with pytest.raises(Exception, match="stops"):
        job.check()


def test_a_job_never_has_the_active_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    for index in range(40):
        append(log, (b"%d" % index, b"v" * 50))
    log.roll(NOW)
    cleanable = examine(facts_of(log), NOW)
    log.truncate_to(20, now_ms=NOW)
    job = make_job(log, cleanable, NOW, lambda: False)
    assert job.segments == log.segments[:-1] != []
    assert job.ends == [segment.base_offset for segment in log.segments[1:]]
    assert job.first_uncleanable_offset == log.active_segment.base_offset
    log.truncate_to(0, now_ms=NOW)
    with pytest.raises(CleaningAbortedError):
        make_job(log, cleanable, NOW, lambda: False)
