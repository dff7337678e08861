"""Test that `verify` finds nothing wrong where compaction or retention has removed what transactions began with."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.directories.log_dir import LogDir
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import ENTRY_SIZE
from tests.broker.log.cleaner.support import clean, keyed, records_of
from tests.broker.log.support import NOW, marker, open_log
from tests.broker.log.tools.damaged import errors

pytestmark = pytest.mark.usefixtures("each_check")
CONFIG = LogConfig(cleanup_policy=("compact", "delete"), file_delete_delay_ms=0, delete_retention_ms=1 << 50)
PRODUCER = 7


def write(log: Log, *keys: bytes, sequence: int, transactional: bool = True) -> None:
    data = keyed(
        [(key, b"%d" % log.log_end_offset) for key in keys], producer_id=PRODUCER, sequence=sequence,
        transactional=transactional,
    )  # fmt: skip
    log.append_batch(data, leader_epoch=0, now_ms=NOW, in_transaction=True)


def write_other(log: Log, *keys: bytes) -> None:
    log.append_batch(keyed([(key, b"%d" % log.log_end_offset) for key in keys]), leader_epoch=0, now_ms=NOW)


def abort(log: Log) -> None:
    log.append_batch(marker(PRODUCER), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)


def close(log: Log) -> Path:
    log.high_watermark = log.log_end_offset
    log.close()
    top = log.log_dir
    directory = LogDir(top)
    directory.claim("cluster", 1)
    directory.write_recovery_points({("t", 0): log.log_end_offset})
    directory.write_cleaned_offsets({("t", 0): log.log_end_offset})
    directory.write_clean_shutdown()
    directory.unlock()
    return log.dir


def test_an_aborted_transaction_whose_first_batch_was_compacted_away(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    write_other(log, b"k")
    write(log, b"a", sequence=0)
    log.roll(NOW)
    write(log, b"b", sequence=1)
    abort(log)
    log.roll(NOW)
    write_other(log, b"k")
    log.high_watermark = log.log_end_offset
    clean(log)
    path = close(log)
    assert errors(path) == []
    # A row that is wrong is still found.
    (index,) = [each for each in path.glob(f"*{names.TXN_INDEX}") if each.stat().st_size]
    data = bytearray(index.read_bytes())
    assert len(data) == ENTRY_SIZE
    data[17] = 99
    index.write_bytes(data)
    assert [name for name, _ in errors(path)] == [index.name]


def test_an_aborted_transaction_whose_first_segment_was_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG.with_changes(cleanup_policy=("delete",), retention_bytes=1))
    write(log, b"a", sequence=0)
    log.roll(NOW)
    write(log, b"b", sequence=1)
    abort(log)
    log.high_watermark = log.log_end_offset
    log.apply_retention(NOW)
    assert log.log_start_offset == 1
    assert errors(close(log)) == []


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("gone", [b"a", b"b"])
def test_a_snapshot_of_batches_that_were_compacted_away(tmp_path: Path, transactional: bool, gone: bytes) -> None:
    log = open_log(tmp_path, CONFIG.with_changes(segment_bytes=1000))
    write(log, b"a", sequence=0, transactional=transactional)
    write(log, b"b", sequence=1, transactional=transactional)
    log.roll(NOW)
    if transactional:
        log.append_batch(marker(PRODUCER, commit=True), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    # So that the next segment, at whose base the snapshot is, is not merged with the first one.
    log.append_batch(keyed([(b"large", b"v" * 800)]), leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    write_other(log, gone)
    write(log, b"c", sequence=2, transactional=False)
    log.roll(NOW)
    log.high_watermark = log.log_end_offset
    clean(log)
    assert [key for offset, key, _ in records_of(log) if offset < 2] == [key for key in (b"a", b"b") if key != gone]
    path = close(log)
    assert (path / names.segment_name(2, names.SNAPSHOT)).exists()
    assert errors(path) == []
