"""Tests of the last records of a log, and of following what is appended."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.tools.repair import empty_batches
from broker.log.tools.tail import Tail, follow, last_records
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError
from kafkalog.storage.names import LOG, segment_name
from tests.broker.log.support import NOW, batch, open_log
from tests.broker.log.tools.damaged import BATCHES, CONFIG, SEGMENTS, flip, logs, positions

pytestmark = pytest.mark.usefixtures("each_check")


def test_the_last_records(log: Path) -> None:
    tail = Tail(str(log))
    try:
        tail.start_last(7)
        records = [record for _, record in last_records(tail.read(), 7)]
    finally:
        tail.close()
    # Before the marker at the end: two of a transaction, a marker, two, and then batches of five.
    end = SEGMENTS * (BATCHES * 5 + 6)
    assert [record.offset for record in records] == [end - 9, end - 8, end - 7, end - 6, end - 5, end - 3, end - 2]


def test_more_than_there_is(log: Path) -> None:
    tail = Tail(str(log))
    tail.start_last(10_000)
    assert len(last_records(tail.read(), 10_000)) == SEGMENTS * (BATCHES * 5 + 4)
    tail.close()


def test_batches_without_records_do_not_count(tmp_path: Path) -> None:
    """Compaction and repairs leave such batches."""
    path = tmp_path / segment_name(0, LOG)
    path.write_bytes(
        b"".join(encode_batch([Record(at, NOW, None, b"%d" % at)], base_offset=at) for at in range(3))
        + b"".join(empty_batches(3, 4, None))
        + b"".join(empty_batches(4, 5, None))
    )
    tail = Tail(str(path))
    tail.start_last(2)
    assert [record.value for _, record in last_records(tail.read(), 2)] == [b"1", b"2"]
    tail.close()


def test_what_comes_is_followed_over_rolls_and_torn_writes(tmp_path: Path) -> None:
    writer = open_log(tmp_path, CONFIG)
    writer.append_batch(batch([b"old"]), leader_epoch=0, now_ms=NOW)
    tail = Tail(str(writer.dir))
    tail.start_last(0)
    assert list(tail.read()) == []
    writer.append_batch(batch([b"a"]), leader_epoch=0, now_ms=NOW)
    writer.roll(NOW)
    writer.append_batch(batch([b"b"], codec=Codec.LZ4), leader_epoch=0, now_ms=NOW)

    def come() -> list[bytes | None]:
        return [record.value for found in tail.read() for record in found.records]

    assert come() == [b"a", b"b"]
    # A write that is half done.
    data = encode_batch([Record(3, NOW, None, b"c" * 100)], base_offset=3)
    path = logs(writer.dir)[-1]
    for end in (5, 20, 61, len(data) - 1):
        with path.open("r+b") as file:
            file.seek(writer.active_segment.size)
            file.write(data[:end])
        assert come() == []
    with path.open("r+b") as file:
        file.seek(writer.active_segment.size)
        file.write(data)
    assert come() == [b"c" * 100]
    tail.close()
    writer.close()


def test_damage_ends_a_tail(log: Path) -> None:
    path = logs(log)[0]
    rows = positions(path)
    flip(path, rows[3][0] + 65)
    tail = Tail(str(path))
    tail.start_last(10_000)
    with pytest.raises(RecordsError, match=f"position {rows[3][0]}"):
        # It might be being written: only patience tells.
        list(follow(tail, lambda: None))
    tail.close()
