"""A segment whose offsets span more than its indexes can hold, as old brokers left them, is split."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.cleaner.job import CleaningAbortedError
from broker.log.files.file_ops import FileOps
from broker.log.log import Log
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET
from tests.broker.log.cleaner.support import COMPACT, clean, records_of
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log
from tests.crash.lossy_disk import NoSync

CONFIG = COMPACT.with_changes(segment_bytes=1 << 20, index_interval_bytes=1, file_delete_delay_ms=0)
FAR = 1 << 33
BASES = [0, 1, 2, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1, MAX_RELATIVE_OFFSET + 2, FAR, FAR + 1, FAR + 2]
"""The offsets of the batches in the segment, each of which has one record."""
EXPECTED = [0, MAX_RELATIVE_OFFSET + 1, FAR]
"""The segments into which it is split."""
END = FAR + 100
PRODUCER = 7


def one(offset: int, **options: object) -> bytes:
    key = b"k%d" % (offset % 2)
    return bytes(batch([b"%d" % offset], key=key, base_offset=offset, leader_epoch=0, **options))  # type: ignore[arg-type]


def write_segment(directory: Path, base: int, batches: list[bytes]) -> None:
    """Write a segment of an old broker, with indexes that have no entries."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind, data in ((names.LOG, b"".join(batches)), (names.INDEX, b""), (names.TIME_INDEX, b"")):
        (directory / names.segment_name(base, kind)).write_bytes(data)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The directory of a log with such a segment, and an active segment after it."""
    directory = tmp_path / "old" / "t-0"
    write_segment(directory, 0, [one(offset) for offset in BASES])
    write_segment(directory, END, [one(END)])
    return directory


def opened(directory: Path, *, clean: bool, ops: FileOps | None = None) -> Log:
    log = open_log(directory.parent, CONFIG, clean=clean, ops=ops or NoSync())
    log.high_watermark = log.log_end_offset
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def check_whole(log: Log) -> None:
    """Check that no record is lost, and that each is found by its offset."""
    assert [offset for offset, _, _ in records_of(log)] == [*BASES, END]
    assert log.log_end_offset == END + 1
    for offset in BASES:
        assert log.read(offset, 1).read()[:8] == offset.to_bytes(8, "big")
    assert not [path for path in log.dir.iterdir() if path.suffix in names.LEFTOVERS]


def test_a_cleaning_splits_it_and_the_next_one_cleans_the_log(old: Path) -> None:
    log = opened(old, clean=True)
    with pytest.raises(CleaningAbortedError, match=r"00000000000000000000\.log span too much; its segments were split"):
        clean(log)
    assert bases(log) == [*EXPECTED, END]
    check_whole(log)
    clean(log)
    # The last records of both keys, and the last record of a segment that is not cleaned.
    assert [offset for offset, _, _ in records_of(log)] == [FAR + 1, FAR + 2, END]


@pytest.mark.parametrize("kind", [names.INDEX, names.TIME_INDEX])
def test_its_indexes_can_be_rebuilt_as_long_as_it_is_not_split(old: Path, kind: str) -> None:
    (old / names.segment_name(0, kind)).unlink()
    log = opened(old, clean=True)
    check_whole(log)
    segment = log.segments[0]
    assert segment.time_index.items() == [(NOW, 0)]
    assert [offset for offset, _ in segment.offset_index.items()] == BASES[1:4]
    assert (segment.rebuilt, segment.largest_timestamp()) == (True, NOW)


def test_a_recovery_splits_it(old: Path) -> None:
    log = opened(old, clean=False)
    assert bases(log) == [*EXPECTED, END]
    check_whole(log)
    assert clean(log) is not None


def test_a_recovery_splits_the_last_segment_and_cuts_off_its_incomplete_end(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [*(one(offset) for offset in BASES), one(FAR + 3)[:-1]])
    log = opened(directory, clean=False)
    assert bases(log) == EXPECTED
    assert [offset for offset, _, _ in records_of(log)] == BASES
    assert log.log_end_offset == FAR + 3


@pytest.mark.parametrize("after", [(), (2 * FAR + 1,)], ids=["at the end", "before others"])
def test_a_recovery_makes_no_segment_of_a_batch_with_a_wrong_checksum(tmp_path: Path, after: tuple[int, ...]) -> None:
    """The segment would stay without records, and the log would go on at the offset that the batch states."""
    directory = tmp_path / "t-0"
    damaged = bytearray(one(2 * FAR))
    damaged[-1] ^= 1
    batches = [*(one(offset) for offset in BASES), bytes(damaged), *(one(offset) for offset in after)]
    write_segment(directory, 0, batches)
    log = opened(directory, clean=False)
    assert bases(log) == EXPECTED
    assert log.log_end_offset == FAR + 3


def test_the_first_segment_keeps_its_name_even_if_no_batch_stays_in_it(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [one(FAR), one(FAR + 1)])
    log = opened(directory, clean=False)
    assert bases(log) == [0, FAR]
    assert [offset for offset, _, _ in records_of(log)] == [FAR, FAR + 1]


@pytest.mark.parametrize("after", [[2, 3], []], ids=["the next batch", "the next segment"])
def test_a_batch_with_a_damaged_offset_is_cut_off(tmp_path: Path, after: list[int]) -> None:
    """The checksum does not cover the offset. What follows shows that it is wrong."""
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [one(0), one(FAR), *map(one, after)])
    write_segment(directory, 4, [one(4)])
    log = opened(directory, clean=False)
    assert [offset for offset, _, _ in records_of(log)] == [0]
    assert log.log_end_offset == 1


def test_without_gaps_in_the_log_such_a_batch_is_damaged(old: Path) -> None:
    log = open_log(old.parent, dataclasses.replace(CONFIG, cleanup_policy=("delete",)), clean=False)
    assert [offset for offset, _, _ in records_of(log)] == BASES[:4]


def test_each_part_has_its_aborted_transactions(tmp_path: Path) -> None:
    config = CONFIG.with_changes(segment_bytes=200)
    log = open_log(tmp_path / "new", config)
    for number in range(2):
        sent = batch(
            [b"v"], key=b"k", producer_id=PRODUCER, producer_epoch=0, base_sequence=number, is_transactional=True
        )
        log.append_batch(sent, leader_epoch=0, now_ms=NOW, in_transaction=True)
        log.append_batch(marker(PRODUCER), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    whole = b"".join(Path(segment.path(names.LOG)).read_bytes() for segment in log.segments)
    log.close()
    # The second transaction lies far behind the first one.
    half = len(whole) // 2
    far = bytearray(whole[half:])
    size = 12 + int.from_bytes(far[8:12], "big")
    far[0:8], far[size : size + 8] = (offset.to_bytes(8, "big") for offset in (FAR, FAR + 1))
    directory = tmp_path / "old" / "t-0"
    write_segment(directory, 0, [whole[:half], bytes(far)])
    write_segment(directory, END, [one(END)])
    recovered = opened(directory, clean=False)
    expected = [(0, 1), (FAR, FAR + 1)]
    assert rows_of(recovered) == expected
    # Put it together again, with the index of an old broker.
    rows = b"".join(Path(segment.path(names.TXN_INDEX)).read_bytes() for segment in recovered.segments[:2])
    shutil.rmtree(directory)
    write_segment(directory, 0, [whole[:half], bytes(far)])
    write_segment(directory, END, [one(END)])
    (directory / names.segment_name(0, names.TXN_INDEX)).write_bytes(rows)
    cleaned = opened(directory, clean=True)
    with pytest.raises(CleaningAbortedError):
        clean(cleaned)
    assert bases(cleaned) == [0, FAR, END]
    assert rows_of(cleaned) == expected
    assert [len(segment.aborted.index.items()) for segment in cleaned.segments] == [1, 1, 0]


def rows_of(log: Log) -> list[tuple[int, int]]:
    found = log.aborted_transactions(0, log.log_end_offset)
    return [(row.first_offset, row.last_offset) for row in found]


class Interrupted(FaultyOps):
    """File operations that fail from a chosen one on; nothing needs to be forced, for the machine goes on."""

    __slots__ = ()

    def fsync(self, fd: int) -> None:
        self._maybe_fail("fsync", fd)

    def fsync_dir(self, path: str) -> None:
        self._maybe_fail("fsync_dir", path)


def by_cleaning(directory: Path, ops: Interrupted, at: int) -> None:
    log = opened(directory, clean=True, ops=ops)
    log.flush()
    ops.fail_at = at
    with pytest.raises(CleaningAbortedError):
        clean(log, ops=ops)


def by_recovering(directory: Path, ops: Interrupted, at: int) -> None:
    ops.fail_at = at
    opened(directory, clean=False, ops=ops)


@pytest.mark.parametrize("split", [by_cleaning, by_recovering])
def test_a_crash_at_any_operation_loses_nothing(
    old: Path, tmp_path: Path, split: Callable[[Path, Interrupted, int], None]
) -> None:
    at = 0
    while True:
        at += 1
        directory = tmp_path / "crashed" / "t-0"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(old, directory)
        ops = Interrupted()
        ops.persists = True
        try:
            split(directory, ops, at)
            break
        except (OSError, KafkaStorageError):
            log = opened(directory, clean=False)
            assert bases(log) == [*EXPECTED, END]
            check_whole(log)
    assert at > 40
