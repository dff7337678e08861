"""Test that `dump_rows` has every batch of a file, whatever one of them holds."""

from __future__ import annotations

from pathlib import Path

from broker.log.append.validation import Origin
from broker.log.tools.dump_json import dump_rows
from kafkalog.records.batch import Record, encode_batch
from kafkalog.storage import names
from tests.broker.log.cleaner.support import COMPACT, append, clean_whole
from tests.broker.log.support import NOW, marker, open_log


def test_batches_behind_a_marker_that_compaction_has_emptied(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    log.append_batch(marker(5, epoch=1), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    append(log, (b"a", b"1"))
    for later in (0, COMPACT.delete_retention_ms + 1):
        clean_whole(log, now_ms=NOW + later)
        append(log, (b"b", b"2"))
    log.close()
    rows = list(dump_rows(log.segments[0].path(names.LOG), deep=True))
    assert [(row["last_offset"], row["records_count"]) for row in rows] == [(0, 0), (1, 1), (2, 1)]
    assert rows[0]["is_control"]
    assert "marker" not in rows[0]
    assert rows[0]["records"] == []


def test_batches_behind_a_marker_that_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / names.segment_name(0, names.LOG)
    short = encode_batch([Record(0, NOW, b"k", b"v")], producer_id=1, producer_epoch=0, is_control=True)
    path.write_bytes(short + encode_batch([Record(1, NOW, b"k", b"v")], base_offset=1))
    rows = list(dump_rows(str(path)))
    assert [row["last_offset"] for row in rows] == [0, 1]
    assert "4 bytes" in rows[0]["problem"]
    assert "problem" not in rows[1]
