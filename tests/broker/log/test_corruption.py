"""Test each kind of damage to each kind of file: what is detected, reported, and served afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.directories.log_dir import LogDirUnusableError
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.read import cold_reads
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.index_entries import OFFSET_ENTRY
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log, stored

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=1200, file_delete_delay_ms=0)
BATCH = batch((b"x" * 50,)).nbytes
COUNT = 30
BLOCK = 64


def filled(directory: Path, config: LogConfig = CONFIG) -> Log:
    log = open_log(directory, config)
    for i in range(COUNT):
        log.append_batch(batch((b"%050d" % i,), timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
    return log


def offsets(log: Log) -> list[int]:
    return [row.base_offset for row in stored(log)]


def is_what_was_written(log: Log) -> None:
    for row in stored(log):
        assert row.values == (b"%050d" % row.base_offset,)
        found = found_by_time(log, NOW + row.base_offset)
        assert found is not None
        assert found.offset == row.base_offset


# -- the log itself ------------------------------------------------------------------------------------------


def lost_block(data: bytearray, at: int) -> None:
    """A block that never came to the disk: what follows has moved up."""
    del data[at : at + BLOCK]


def zeroed_block(data: bytearray, at: int) -> None:
    data[at : at + BLOCK] = bytes(len(data[at : at + BLOCK]))


def nonsense_block(data: bytearray, at: int) -> None:
    data[at : at + BLOCK] = random.Random(at).randbytes(len(data[at : at + BLOCK]))


def foreign_block(data: bytearray, at: int) -> None:
    """A block of another place of the same file."""
    data[at : at + BLOCK] = data[90 : 90 + len(data[at : at + BLOCK])]


def flipped_bit(data: bytearray, at: int) -> None:
    data[at] ^= 0x10


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("at", [0, 1, BATCH + 8, BATCH + 30, 2 * BATCH - 1, 3 * BATCH + 70])
@pytest.mark.parametrize("damage", [lost_block, zeroed_block, nonsense_block, foreign_block, flipped_bit])
def test_a_damaged_log_ends_before_its_first_bad_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytearray, int], None], at: int, number: int
) -> None:
    log = filled(tmp_path)
    segment = log.segments[number]
    path = Path(segment.path(names.LOG))
    data = bytearray(path.read_bytes())
    whole = bytes(data)
    damage(data, at)
    assert bytes(data) != whole
    path.write_bytes(data)
    first_bad = (
        segment.base_offset + next(i for i, (a, b) in enumerate(zip(data, whole, strict=False)) if a != b) // BATCH
    )
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(first_bad))
    is_what_was_written(again)
    assert str(path) in caplog.text
    assert f"from offset {first_bad} on, were no valid record batches and were cut off" in caplog.text
    later = [s for s in log.segments if s.base_offset > first_bad]
    assert not any(Path(s.path(kind)).exists() for s in later for kind in (names.LOG, names.INDEX, names.TIME_INDEX))
    assert again.append_batch(batch((b"%050d" % first_bad,)), leader_epoch=0, now_ms=NOW).first_offset == first_bad


@pytest.mark.parametrize("position", [*range(16, 61), 65, BATCH - 1])
def test_every_byte_under_the_checksum_is_checked(tmp_path: Path, position: int) -> None:
    log = filled(tmp_path)
    path = Path(log.active_segment.path(names.LOG))
    data = bytearray(path.read_bytes())
    data[BATCH + position] ^= 1
    path.write_bytes(data)
    assert open_log(tmp_path, CONFIG).log_end_offset == log.active_segment.base_offset + 1


@pytest.mark.parametrize(
    "tail", [b"\0", bytes(60), bytes(5000), b"\xff" * 333, bytes(batch(1))[:40], bytes(batch(1))[:-1]]
)
def test_a_tail_that_is_no_batch_is_cut_off_and_nothing_else(tmp_path: Path, tail: bytes) -> None:
    log = filled(tmp_path)
    path = Path(log.active_segment.path(names.LOG))
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(COUNT))
    assert path.read_bytes() == whole


def test_damage_before_the_recovery_point_is_left_to_readers(tmp_path: Path) -> None:
    """As in Kafka: what was flushed is not read again, and a reader is told of the damage, not of an end."""
    log = filled(tmp_path)
    path = Path(log.segments[0].path(names.LOG))
    data = bytearray(path.read_bytes())
    data[2 * BATCH + 70] ^= 1
    path.write_bytes(data)
    again = open_log(tmp_path, CONFIG, recovery_point=COUNT)
    assert again.log_end_offset == COUNT
    assert again.read(0, 1 << 20).size > 0


# -- indexes -------------------------------------------------------------------------------------------------


DAMAGES = ["missing", "empty", "half", "zeros", "garbage", "longer"]
INDEX_CASES = [
    *((kind, damage, clean) for kind in (names.INDEX, names.TIME_INDEX) for damage in DAMAGES for clean in (0, 1)),
    *((names.TXN_INDEX, damage, False) for damage in DAMAGES),
    # After a clean stop Kafka believes that a file is gone because there was nothing in it, or that rows are all there.
    (names.TXN_INDEX, "garbage", True),
]


@pytest.mark.parametrize(("kind", "damage", "clean"), INDEX_CASES)
def test_indexes_are_built_anew(tmp_path: Path, kind: str, damage: str, clean: bool) -> None:
    log = open_log(tmp_path, CONFIG)
    for i in range(COUNT):
        log.append_batch(
            batch((b"%050d" % i,), timestamp=NOW + i, producer_id=7, producer_epoch=0, base_sequence=i,
                  is_transactional=True),
            leader_epoch=0, now_ms=NOW, in_transaction=True,
        )  # fmt: skip
        if i % 5 == 4:
            log.append_batch(marker(7), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    log.high_watermark = log.log_end_offset
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == COUNT // 5
    rows = stored(log)
    log.close()
    for path in (tmp_path / "t-0").glob("*" + kind):
        good = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({
                "empty": b"", "half": good[: len(good) // 2 + 1], "zeros": bytes(len(good)),
                "garbage": random.Random(1).randbytes(len(good)), "longer": good + b"\x7f" * 24,
            }[damage])  # fmt: skip
    again = open_log(tmp_path, CONFIG, clean=clean)
    assert stored(again) == rows
    for row in rows:
        assert stored(again, row.base_offset)[0] == row
    again.high_watermark = again.log_end_offset
    assert again.aborted_transactions(0, again.log_end_offset) == aborted


LIES = [b"\0\0\0\1\x7f\0\0\0", b"\0\0\0\1\0\0\2\x50", b"\0\0\0\1\0\0\0\7", b"\0\0\0\0\0\0\3\0"]


@pytest.mark.parametrize("entry", LIES)
def test_an_index_that_lies_in_its_middle_is_found_out_by_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entry: bytes
) -> None:
    """Its last entry is right, so it is believed when it is opened; as a whole it would hide records."""
    log = filled(tmp_path)
    log.close()
    path = Path(log.segments[0].path(names.INDEX))
    good = path.read_bytes()
    path.write_bytes(entry * 2 + good[16:])
    again = open_log(tmp_path, CONFIG, clean=True)
    for offset in range(COUNT):
        assert stored(again, offset)[0].base_offset == offset
    assert path.read_bytes() == good or entry[:4] == bytes(4)
    assert (str(path) in caplog.text) == (path.read_bytes() == good)


@pytest.mark.parametrize("cold", [False, True], ids=["read", "by a worker"])
def test_an_index_that_has_lost_all_entries_is_built_anew(tmp_path: Path, cold: bool) -> None:
    """Its size is valid. Without entries each look-up would walk over the whole segment, on the event loop."""
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=BATCH)
    log = filled(tmp_path, config)
    log.roll(NOW)
    log.close()
    path = Path(log.segments[0].path(names.INDEX))
    good = path.read_bytes()
    assert len(good) > 8 * 5
    path.write_bytes(b"")
    again = open_log(tmp_path, config, clean=True)
    if cold:
        step = again.missing(COUNT - 1, 100)
        assert step is not None
        step()
        assert again.missing(COUNT - 1, 100) is None
    assert stored(again, COUNT - 1)[0].base_offset == COUNT - 1
    assert path.read_bytes() == good


def test_an_index_of_a_segment_that_needs_no_entry_may_be_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=BATCH))
    log.append_batch(batch(1, size=100 * BATCH), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.close()
    again = open_log(tmp_path, LogConfig(index_interval_bytes=BATCH), clean=True)
    assert len(stored(again)) == 1
    assert not again.segments[0].rebuilt


def lied_to(directory: Path, config: LogConfig) -> Log:
    """Return a log whose active segment has an index that leads look-ups of early offsets to its end."""
    log = filled(directory, config)
    log.close()
    path = Path(log.active_segment.path(names.INDEX))
    good = path.read_bytes()
    path.write_bytes(OFFSET_ENTRY.pack(1, (COUNT - 2) * BATCH) * 2 + good[16:])
    return open_log(directory, config, clean=True)


def append_one(log: Log) -> None:
    batch_of_next = batch((b"%050d" % log.log_end_offset,), timestamp=NOW + log.log_end_offset)
    log.append_batch(batch_of_next, leader_epoch=0, now_ms=NOW)


@pytest.mark.parametrize("much", [False, True], ids=["little is appended meanwhile", "much is appended meanwhile"])
def test_a_wrong_index_of_the_active_segment_is_rebuilt_by_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, much: bool
) -> None:
    """The scan of the log takes seconds for a large segment. What is appended meanwhile is not lost to the index."""
    if much:
        monkeypatch.setattr(cold_reads, "SEARCH_BYTES", 3 * BATCH)
    log = lied_to(tmp_path, LogConfig(index_interval_bytes=BATCH))
    append_one(log)
    assert log.active_segment.writable
    steps = 0
    while (step := log.missing(2, 100)) is not None:
        steps += 1
        step()
        for _ in range(5 if steps == 1 else 1):
            append_one(log)
    assert steps == 1 + much
    assert log.active_segment.rebuilt
    append_one(log)
    is_what_was_written(log)
    assert stored(log, 2)[0].base_offset == 2
    log.close()
    count = log.log_end_offset
    path = Path(log.active_segment.path(names.INDEX))
    found = path.read_bytes()
    path.unlink()
    again = open_log(tmp_path, LogConfig(index_interval_bytes=BATCH), clean=True)
    assert [row.base_offset for row in stored(again, 0)] == list(range(count))
    assert path.read_bytes()[:-16] in found


def test_a_scan_of_a_log_that_is_truncated_meanwhile_is_given_up(tmp_path: Path) -> None:
    log = lied_to(tmp_path, LogConfig(index_interval_bytes=BATCH))
    step = log.missing(2, 100)
    assert step is not None
    step()
    log.truncate_to(COUNT // 2, now_ms=NOW)
    while log.log_end_offset < COUNT + 5:
        append_one(log)
    while (step := log.missing(2, 100)) is not None:
        step()
    assert [row.base_offset for row in stored(log, 0)] == list(range(COUNT + 5))
    is_what_was_written(log)


# -- the largest timestamp -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1, 0, 7], ids=["negative", "before the log", "before the batch"])
def test_a_wrong_offset_of_the_last_batch_removes_no_other(tmp_path: Path, wrong: int) -> None:
    """After a clean stop the last batch tells where the log ends: before its start, there would be nothing to keep."""
    log = open_log(tmp_path)
    for _ in range(10):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    path = Path(log.active_segment.path(names.LOG))
    log.close()
    data = bytearray(path.read_bytes())
    last = len(data) // 10 * 9
    data[last : last + 8] = wrong.to_bytes(8, "big", signed=True)
    path.write_bytes(data)
    log = open_log(tmp_path, clean=True, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 9)
    assert [each.base_offset for each in stored(log)] == [5, 6, 7, 8]


def test_an_offset_from_before_the_segment_is_damage_of_the_log(tmp_path: Path) -> None:
    """No checksum covers base offsets, so only a rebuild of the indexes may find that one is wrong."""
    config = LogConfig(segment_bytes=4000, index_interval_bytes=100)
    log = open_log(tmp_path, config)
    for _ in range(100):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    last = log.active_segment
    assert last.base_offset > 3
    offset, position = last.offset_index.items()[1]
    log.close()
    path = Path(last.path(names.LOG))
    data = bytearray(path.read_bytes())
    data[position : position + 8] = (3).to_bytes(8, "big")
    path.write_bytes(data)
    path.with_suffix(names.INDEX).unlink()
    log = open_log(tmp_path, config, clean=True)
    assert log.log_end_offset == offset
    assert len(stored(log)) == offset


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "in the time index"])
def test_damage_that_a_rebuild_of_indexes_meets_makes_a_segment_no_older(tmp_path: Path, is_known: bool) -> None:
    """Retention would remove the segment too early, with the records that can still be read."""
    log = filled(tmp_path)
    log.close()
    again = open_log(tmp_path, CONFIG, clean=True)
    segment = again.segments[0]
    expected = NOW + segment.size // BATCH - 1
    if is_known:
        assert segment.largest_timestamp() == expected
    log_path = Path(segment.path(names.LOG))
    data = bytearray(log_path.read_bytes())
    # The magic of the third batch: no header can be read there.
    data[2 * BATCH + 16] = 77
    log_path.write_bytes(data)
    Path(segment.path(names.INDEX)).unlink()
    with pytest.raises(RecordsError):
        segment.rebuild_indexes(segment.scan_log())
    assert segment.largest_timestamp() == expected


# -- small files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [bytes(100), b"0\n2\nt 0 0\n", b"0\n1\nt 0 x\n", b"0\n1\nt 0 " + b"9" * 20])
@pytest.mark.parametrize("clean", [False, True])
def test_leader_epochs_that_do_not_read_are_begun_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, clean: bool
) -> None:
    filled(tmp_path).close()
    path = tmp_path / "t-0" / names.LEADER_EPOCH_CHECKPOINT
    path.write_bytes(content)
    again = open_log(tmp_path, CONFIG, clean=clean)
    assert str(path) in caplog.text
    assert again.epochs.entries() == ([] if clean else [(0, 0)])
    again.append_batch(batch((b"%050d" % COUNT,), timestamp=NOW + COUNT), leader_epoch=3, now_ms=NOW)
    assert again.epochs.entries()[-1] == (3, COUNT)
    is_what_was_written(again)


@pytest.mark.parametrize("clean", [False, True])
def test_leader_epochs_that_are_gone_are_begun_anew(tmp_path: Path, clean: bool) -> None:
    filled(tmp_path).close()
    (tmp_path / "t-0" / names.LEADER_EPOCH_CHECKPOINT).unlink()
    assert open_log(tmp_path, CONFIG, clean=clean).epochs.entries() == ([] if clean else [(0, 0)])


def test_a_damaged_producer_snapshot_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path).close()
    (path,) = (tmp_path / "t-0").glob(f"*{COUNT}{names.SNAPSHOT}")
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    again = open_log(tmp_path, CONFIG, clean=True)
    assert f"Removing the producer snapshot {path}" in caplog.text
    assert offsets(again) == list(range(COUNT))


STALE = [
    names.LEADER_EPOCH_CHECKPOINT + ".tmp", names.PARTITION_METADATA + ".tmp",
    names.segment_name(0, names.LOG) + names.DELETED, names.segment_name(9, names.LOG) + names.CLEANED,
    names.segment_name(9, names.INDEX) + names.CLEANED, names.segment_name(3, names.TIME_INDEX) + names.DELETED,
    names.segment_name(5, names.SNAPSHOT) + names.DELETED, names.segment_name(77, names.INDEX),
    names.segment_name(77, names.TXN_INDEX),
]  # fmt: skip


@pytest.mark.parametrize("name", STALE)
def test_what_a_crash_left_behind_changes_nothing(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    path = tmp_path / "t-0" / name
    path.write_bytes(b"left behind")
    again = open_log(tmp_path, CONFIG)
    assert offsets(again) == list(range(COUNT))
    is_what_was_written(again)
    assert not path.exists() or name.endswith(".tmp")
    again.append_batch(batch((b"%050d" % COUNT,)), leader_epoch=1, now_ms=NOW)
    again.close()
    assert open_log(tmp_path, CONFIG, clean=True).log_end_offset == COUNT + 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (names.RECOVERY_POINT_CHECKPOINT, "checked from its beginning"),
        (names.LOG_START_CHECKPOINT, "may be back"),
        (names.HIGH_WATERMARK_CHECKPOINT, "written anew"),
    ],
)
@pytest.mark.parametrize("content", [bytes(100), b"0\n2\nt 0 0\n", b"0\n1\nt 0 x\n", b"0\n1\nt 0 " + b"9" * 20])
def test_a_checkpoint_that_does_not_read_is_told_with_what_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, told: str, content: bytes
) -> None:
    logs = LogManager([tmp_path], CONFIG, clock=lambda: NOW)
    log = logs.create("t", 0)
    for i in range(COUNT):
        log.append_batch(batch((b"%050d" % i,), timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
    assert logs.shutdown()
    (tmp_path / name).write_bytes(content)
    logs = LogManager([tmp_path], CONFIG, clock=lambda: NOW)
    logs.load_all()
    assert str(tmp_path / name) in caplog.text
    assert told in caplog.text
    found = logs.get("t", 0)
    assert found is not None
    assert offsets(found) == list(range(COUNT))
    assert logs.shutdown()
    assert (tmp_path / name).read_bytes() != content


# -- a disk that fails -----------------------------------------------------------------------------------------


def life(directory: Path, ops: FaultyOps) -> int:
    """Start, write, checkpoint, stop; how many records were acknowledged."""
    logs = LogManager([directory], CONFIG, clock=lambda: NOW, num_recovery_threads=1, ops=ops)
    written = 0
    try:
        logs.load_all()
        log = logs.create("t", 0, is_new=False)
        written = log.log_end_offset
        for i in range(written, written + 12):
            log.append_batch(batch((b"%050d" % i,), timestamp=NOW + i), leader_epoch=0, now_ms=NOW)
            written += 1
        logs.run_flushes(NOW)
        logs.checkpoints.write_recovery_points()
        logs.checkpoints.write_log_start_offsets()
        logs.checkpoints.write_high_watermarks()
        logs.shutdown()
    finally:
        logs.unlock()
    return written


def calls_of_a_second_life(directory: Path) -> int:
    ops = FaultyOps()
    life(directory, ops)
    ops.calls.clear()
    life(directory, ops)
    return len(ops.calls)


def test_each_call_of_a_brokers_life_may_fail_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """EIO once, and from then on, in every file operation from the start to the stop."""
    (tmp_path / "count").mkdir()
    count = calls_of_a_second_life(tmp_path / "count")
    assert count > 40
    for at in range(1, count + 1):
        for persists in (False, True):
            directory = tmp_path / f"{at}-{persists}"
            life(directory, FaultyOps())
            ops = FaultyOps()
            ops.fail_at, ops.persists = at, persists
            written = 12
            with suppress(KafkaStorageError, LogDirUnusableError):
                written = life(directory, ops)
            logs = LogManager([directory], CONFIG, clock=lambda: NOW)
            logs.load_all()
            log = logs.get("t", 0)
            assert log is not None, f"call {at}"
            assert log.log_end_offset >= written, f"call {at}"
            is_what_was_written(log)
            logs.unlock()
