"""Tests that a producer may send its last five batches again after a restart or a truncation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.producer_state.producer_entry import SEQUENCE_MASK, BatchMetadata
from broker.log.recovery import producer_recall
from kafkalog.protocol.errors import OutOfOrderSequenceNumberError
from kafkalog.storage import names
from tests.broker.log.support import NOW, FaultyOps, batch, open_log, temporary_directory

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=1, segment_index_bytes=1200, file_delete_delay_ms=0)
LARGE = LogConfig(index_interval_bytes=100)
DAY_S = 86_400


def produce(log: Log, sequence: int, count: int = 1, *, producer: int = 9, epoch: int = 0) -> int | None:
    """Append a batch; return its first offset, or None for a duplicate."""
    data = batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    info = log.append_batch(data, leader_epoch=0, now_ms=NOW)
    return None if info.duplicate else info.first_offset


def remembered(log: Log) -> dict[int, list[BatchMetadata]]:
    return {producer: entry.batches for producer, entry in log.producers.producers.items()}


def reopened(log: Log, config: LogConfig) -> Log:
    log.close()
    return open_log(log.dir.parent, config, clean=True)


@pytest.mark.parametrize("config", [CONFIG, LARGE], ids=["several segments", "one segment"])
def test_the_last_five_batches_are_known_after_a_restart(tmp_path: Path, config: LogConfig) -> None:
    log = open_log(tmp_path, config)
    for sequence in range(40):
        assert produce(log, sequence) == sequence
    before = remembered(log)
    again = reopened(log, config)
    assert remembered(again) == before
    assert [produce(again, sequence) for sequence in range(35, 40)] == [None] * 5
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(again, 34)
    assert produce(again, 40) == 40


def test_the_indexes_of_a_segment_that_a_truncation_has_read_are_forced_to_the_device(tmp_path: Path) -> None:
    """The recovery point vouches for them, and only a crash before it has them built anew."""
    ops = FaultyOps()
    log = open_log(tmp_path, CONFIG, ops=ops)
    for sequence in range(40):
        produce(log, sequence)
    closed, last = log.segments[-2:]
    paths = {closed.path(kind) for kind in (names.LOG, names.INDEX, names.TIME_INDEX)}
    log.truncate_to(last.base_offset + 1, now_ms=NOW)
    ops.calls.clear()
    log.flush()
    assert log.recovery_point > last.base_offset
    assert paths <= {path for call, path in ops.calls if call == "fsync"}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 3), st.integers(1, 12)),
        st.tuples(st.just("new epoch"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.sampled_from(["restart", "crash"]), st.just(0), st.just(0)),
        st.tuples(st.just("truncate"), st.just(0), st.integers(0, 6)),
    ),
    max_size=60,
)


def run(steps: list[tuple[str, int, int]], directory: Path, config: LogConfig) -> Log:
    log = open_log(directory, config)
    for step, producer, number in steps:
        entry = log.producers.producers.get(producer)
        epoch = max(entry.epoch, 0) if entry else 0
        if step == "produce":
            produce(log, entry.next_sequence if entry else 0, number, producer=producer, epoch=epoch)
        elif step == "new epoch":
            produce(log, 0, number, producer=producer, epoch=epoch + 1)
        elif step == "restart":
            log = reopened(log, config)
        elif step == "crash":
            # What is before the last segment was forced to the device.
            log = open_log(directory, config, recovery_point=log.active_segment.base_offset)
        else:
            log.truncate_to(max(log.log_end_offset - number, 0), now_ms=NOW)
    return log


def replayed(log: Log, directory: Path, config: LogConfig) -> dict[int, list[BatchMetadata]]:
    """Return what a replay of the whole log gives."""
    for snapshot in (directory / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    return remembered(open_log(directory, config))


@given(STEPS, st.sampled_from([CONFIG, LARGE]))
def test_the_state_is_that_of_a_replay_of_the_whole_log(steps: list[tuple[str, int, int]], config: LogConfig) -> None:
    with temporary_directory() as directory:
        log = run(steps, directory, config)
        found = remembered(log)
        assert found == replayed(log, directory, config)
        log.close()


@given(STEPS, st.sampled_from([CONFIG, LARGE]), st.integers(1, 1500), st.integers(1, 3000), st.integers(1, 20))
def test_with_fewer_bytes_it_is_the_end_of_that(
    steps: list[tuple[str, int, int]], config: LogConfig, first: int, most: int, batches: int
) -> None:
    with temporary_directory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_recall, "FIRST_BYTES", first)
        patch.setattr(producer_recall, "MOST_BYTES", most)
        patch.setattr(producer_recall, "MOST_BATCHES", batches)
        log = run(steps, directory, config)
        found = remembered(log)
        whole = replayed(log, directory, config)
        assert found.keys() == whole.keys()
        for producer, known in found.items():
            assert known == whole[producer][len(whole[producer]) - len(known) :]
            assert bool(known) == bool(whole[producer])
        log.close()


def test_batches_of_other_epochs_and_before_a_gap_are_not_recalled(tmp_path: Path) -> None:
    log = open_log(tmp_path, LARGE)
    produce(log, 0)
    produce(log, 1)
    produce(log, 0, epoch=1)
    produce(log, 1, epoch=1)
    log.producers.producers.clear()
    # Nothing is known of the producer any more, so that it may begin anywhere.
    produce(log, 10, epoch=1)
    produce(log, 11, epoch=1)
    again = reopened(log, LARGE)
    assert [each.first_sequence for each in remembered(again)[9]] == [10, 11]


def test_sequences_that_wrap_are_recalled(tmp_path: Path) -> None:
    log = open_log(tmp_path, LARGE)
    first = SEQUENCE_MASK - 3
    for sequence in (first, first + 2, 0, 3):
        produce(log, sequence, 3 if sequence == 0 else 2)
    again = reopened(log, LARGE)
    assert [each.first_sequence for each in remembered(again)[9]] == [first, first + 2, 0, 3]


def test_a_log_that_nobody_has_written_to_for_long_is_not_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, LARGE)
    for sequence in range(5):
        produce(log, sequence)
    log.close()
    path = Path(log.active_segment.path(names.LOG))
    for age_s, known in ((DAY_S, 1), (0, 5)):
        at = NOW / 1000 - age_s
        os.utime(path, (at, at))
        assert len(remembered(open_log(tmp_path, LARGE, clean=True))[9]) == known


BATCH = batch(producer_id=9, producer_epoch=0, base_sequence=0).nbytes


@pytest.mark.parametrize(("first", "batches", "known"), [(5, 60, [5, 1]), (30, 50, [5, 2]), (30, 130, [5, 5])])
def test_only_the_last_bytes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, batches: int, known: list[int]
) -> None:
    """Twenty batches of one producer to one of the other, whose last one is nineteen batches back."""
    monkeypatch.setattr(producer_recall, "FIRST_BYTES", first * BATCH)
    monkeypatch.setattr(producer_recall, "MOST_BATCHES", batches)
    log = open_log(tmp_path, LARGE)
    for number in range(300):
        produce(log, number, producer=1)
        if number % 20 == 0:
            produce(log, number // 20, producer=2)
    again = reopened(log, LARGE)
    assert [len(batches) for _, batches in sorted(remembered(again).items())] == known


def test_bytes_behind_the_snapshot_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot is of a clean stop in the midst of a segment, and the batches lie in the segment before."""
    monkeypatch.setattr(producer_recall, "FIRST_BYTES", 10 * BATCH)
    log = open_log(tmp_path, LARGE)
    for sequence in range(40):
        produce(log, sequence)
    log.roll(now_ms=NOW)
    produce(log, 40)
    log = reopened(log, LARGE)
    for _ in range(100):
        log.append_batch(batch(), leader_epoch=0, now_ms=NOW)
    log.truncate_to(50, now_ms=NOW)
    assert [each.first_sequence for each in remembered(log)[9]] == [36, 37, 38, 39, 40]


@pytest.mark.parametrize("case", ["index is wrong", "index has no entries", "a batch is damaged", "a file is missing"])
def test_what_cannot_be_looked_up_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setattr(producer_recall, "FIRST_BYTES", 10 * BATCH)
    monkeypatch.setattr(producer_recall, "MOST_BATCHES", 20)
    config = LogConfig(index_interval_bytes=1 << 20) if case == "index has no entries" else LARGE
    log = open_log(tmp_path, config)
    for sequence in range(100):
        produce(log, sequence)
    log.roll(now_ms=NOW)
    produce(log, 100)
    log.close()
    segment = log.segments[0]
    index, file = Path(segment.path(names.INDEX)), Path(segment.path(names.LOG))
    if case == "index is wrong":
        data = bytearray(index.read_bytes())
        for at in range(7, len(data), 8):
            data[at] ^= 1
        index.write_bytes(data)
    elif case == "a batch is damaged":
        data = bytearray(file.read_bytes())
        data[98 * BATCH + 8 : 98 * BATCH + 12] = bytes(4)
        file.write_bytes(data)
    again = open_log(tmp_path, config, clean=True)
    if case == "a file is missing":
        again.append_batch(batch(), leader_epoch=0, now_ms=NOW)
        file.unlink()
        again.truncate_to(101, now_ms=NOW)
    # An index that does not fit its log is built anew.
    known = [96, 97, 98, 99, 100] if case == "index is wrong" else [100]
    assert [each.first_sequence for each in remembered(again)[9]] == known
    assert produce(again, 100) is None
    assert produce(again, 101) == 101
