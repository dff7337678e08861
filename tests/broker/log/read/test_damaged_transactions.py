"""Test that a transaction index which is damaged while the broker runs is rebuilt, and never on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.read import cold_reads
from broker.log.read.log_reader import IndexNotReadyError
from broker.log.recovery import producer_replay, transaction_rebuild
from broker.log.segment.segment import Segment
from kafkalog.protocol.errors import CorruptMessageError, KafkaStorageError
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import ENTRY_SIZE, AbortedTransaction
from tests.broker.log.support import NOW, FaultyOps, batch, marker, open_log
from tests.broker.replica.in_process import InProcess, with_broker

COMMITTED = 1
"""The isolation level of a reader of committed records."""
ROWS = [(producer_id, 2 * producer_id) for producer_id in range(5)]
"""Producer and first offset of each transaction that `fill` aborts."""


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Tell of each walk over a log for a transaction index whether it was on the event loop's thread."""
    found: list[bool] = []
    replay = producer_replay.replay

    def told(*args: Any, **options: Any) -> None:
        found.append(threading.current_thread() is threading.main_thread())
        replay(*args, **options)

    monkeypatch.setattr(transaction_rebuild, "replay", told)
    return found


def abort(log: Log, producer_id: int) -> None:
    """Append a transaction of one record, and abort it."""
    sent = batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_batch(sent, leader_epoch=0, now_ms=NOW, in_transaction=True)
    log.append_batch(marker(producer_id), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)


def fill(log: Log) -> Path:
    """Abort some transactions, and return the path of the index."""
    for producer_id, _ in ROWS:
        abort(log, producer_id)
    log.high_watermark = log.log_end_offset
    return log.dir / f"{0:020d}{names.TXN_INDEX}"


def damage(path: Path, row: int) -> None:
    data = bytearray(path.read_bytes())
    data[row * ENTRY_SIZE : row * ENTRY_SIZE + 2] = b"\xff\xff"
    path.write_bytes(data)


def aborted(log: Log) -> list[AbortedTransaction]:
    end = log.log_end_offset
    return log.aborted_within(0, log.read(0, 1 << 20), end)


def on_worker(step: Callable[[], None] | None) -> None:
    assert step is not None
    thread = threading.Thread(target=step)
    thread.start()
    thread.join()


def rebuilt(log: Log) -> None:
    """Let workers do what a reader misses."""
    with pytest.raises(IndexNotReadyError):
        aborted(log)
    on_worker(log.missing(0, 1, committed=True))
    assert log.missing(0, 1, committed=True) is None


def test_a_fetch_leaves_the_rebuild_to_a_worker(tmp_path: Path, walks: list[bool]) -> None:
    wanted = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=COMMITTED, session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])],
    )  # fmt: skip

    async def work(broker: InProcess) -> None:
        log = (await broker.create_topic("t")).log
        damage(fill(log), 2)
        wire = await broker.connect()
        answers = [(await wire.exchange(wanted, 11)).responses[0].partitions[0] for _ in range(2)]
        assert [each.error_code for each in answers] == [0, 0]
        assert [len(each.records) for each in answers] == [0, log.size]
        told = answers[1].aborted_transactions
        assert [(each.producer_id, each.first_offset) for each in told] == ROWS
        assert walks == [False]

    with_broker(tmp_path, work)


@pytest.mark.parametrize("meanwhile", [100, cold_reads.SEARCH_BYTES + 1], ids=["little", "much"])
def test_what_is_appended_during_a_rebuild_is_indexed(tmp_path: Path, walks: list[bool], meanwhile: int) -> None:
    log = open_log(tmp_path)
    damage(fill(log), len(ROWS) - 1)
    with pytest.raises(IndexNotReadyError):
        aborted(log)
    on_worker(log.missing(0, 1, committed=True))
    abort(log, 77)
    log.append_batch(batch(1, size=meanwhile), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    if meanwhile > cold_reads.SEARCH_BYTES:
        on_worker(log.missing(0, 1, committed=True))
    assert log.missing(0, 1, committed=True) is None
    expected = [*ROWS, (77, 2 * len(ROWS))]
    assert [(each.producer_id, each.first_offset) for each in aborted(log)] == expected
    assert walks == [False]


def test_an_append_to_a_damaged_index_leaves_it_to_the_next_reader(tmp_path: Path, walks: list[bool]) -> None:
    """Its rows go on where they break off: a reader that believed it would take aborted records for committed ones."""
    log = open_log(tmp_path)
    fill(log)
    # A row that the next one cannot follow.
    log.active_segment.aborted.replace([AbortedTransaction(1, 0, 1 << 40, 0)])
    abort(log, 5)
    abort(log, 6)
    log.high_watermark = log.log_end_offset
    assert walks == []
    rebuilt(log)
    expected = [*ROWS, (5, 10), (6, 12)]
    assert [(each.producer_id, each.first_offset) for each in aborted(log)] == expected
    assert walks == [False]
    log.close()
    again = open_log(tmp_path, clean=True)
    assert [(each.producer_id, each.first_offset) for each in again.aborted_transactions(0, 14)] == expected


def test_a_spoilt_index_is_rebuilt_when_the_log_is_opened(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.active_segment.aborted.replace([AbortedTransaction(1, 0, 1 << 40, 0)])
    abort(log, 5)
    log.close()
    again = open_log(tmp_path, clean=True)
    assert [(each.producer_id, each.first_offset) for each in again.aborted_transactions(0, 12)] == [*ROWS, (5, 10)]


def test_a_rebuild_is_void_after_a_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    path = fill(log)
    damage(path, 0)
    with pytest.raises(IndexNotReadyError):
        aborted(log)
    on_worker(log.missing(0, 1, committed=True))
    log.truncate_to(4, now_ms=NOW)
    abort(log, 9)
    log.high_watermark = log.log_end_offset
    assert log.missing(0, 1, committed=True) is None
    assert [(each.producer_id, each.first_offset) for each in aborted(log)] == [*ROWS[:2], (9, 4)]


def test_a_damaged_log_is_walked_over_once(tmp_path: Path, walks: list[bool]) -> None:
    log = open_log(tmp_path)
    path = fill(log)
    data = bytearray(Path(log.active_segment.path(names.LOG)).read_bytes())
    data[8:12] = b"\xff\xff\xff\xfb"
    Path(log.active_segment.path(names.LOG)).write_bytes(data)
    damage(path, 0)
    end = log.log_end_offset
    result = log.read(0, 1 << 20)
    with pytest.raises(IndexNotReadyError):
        log.aborted_within(0, result, end)
    on_worker(log.missing(0, 1, committed=True))
    for _ in range(3):
        with pytest.raises(CorruptMessageError):
            log.aborted_within(0, result, end)
    assert walks == [False]


def test_a_disk_that_fails_is_tried_again(tmp_path: Path) -> None:
    ops = FaultyOps()
    log = open_log(tmp_path, ops=ops)
    damage(fill(log), 0)
    with pytest.raises(IndexNotReadyError):
        aborted(log)
    on_worker(log.missing(0, 1, committed=True))
    ops.fail["pwrite"] = 1
    assert log.missing(0, 1, committed=True) is None
    with pytest.raises(KafkaStorageError):
        aborted(log)
    ops.fail.clear()
    rebuilt(log)
    assert [(each.producer_id, each.first_offset) for each in aborted(log)] == ROWS


def test_one_worker_at_a_time_rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    damage(fill(log), 0)
    with pytest.raises(IndexNotReadyError):
        aborted(log)
    begun, go_on = threading.Event(), threading.Event()
    replay = producer_replay.replay

    def held(segments: list[Segment], *args: Any, **options: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        replay(segments, *args, **options)

    monkeypatch.setattr(transaction_rebuild, "replay", held)
    step = log.missing(0, 1, committed=True)
    assert step is not None
    thread = threading.Thread(target=step)
    thread.start()
    assert begun.wait(60)
    assert log.missing(0, 1, committed=True) is None
    with pytest.raises(IndexNotReadyError):
        aborted(log)
    go_on.set()
    thread.join()
    assert log.missing(0, 1, committed=True) is None
    assert [(each.producer_id, each.first_offset) for each in aborted(log)] == ROWS
