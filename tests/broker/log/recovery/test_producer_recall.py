"""Tests that a producer may send its last five batches again after a restart or a truncation."""

from __future__ import annotations

import os
from itertools import pairwise
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
from tests.broker.log.support import NOW, batch, open_log, temporary_directory

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


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 3), st.integers(1, 12)),
        st.tuples(st.just("new epoch"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.sampled_from(["restart", "crash"]), st.just(0), st.just(0)),
        st.tuples(st.just("truncate"), st.just(0), st.integers(0, 6)),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from([CONFIG, LARGE]))
def test_the_state_is_that_of_a_replay_of_the_whole_log(steps: list[tuple[str, int, int]], config: LogConfig) -> None:
    with temporary_directory() as directory:
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
                log = open_log(directory, config)
            else:
                log.truncate_to(max(log.log_end_offset - number, 0), now_ms=NOW)
        found = remembered(log)
        for snapshot in (directory / "t-0").glob("*.snapshot"):
            snapshot.unlink()
        assert found == remembered(open_log(directory, config))
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


def test_only_the_last_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second window is for producers of which the first has too few batches."""
    log = open_log(tmp_path, LARGE)
    for number in range(300):
        produce(log, number, producer=1)
        if number % 20 == 0:
            produce(log, number // 20, producer=2)
    log.close()
    size = log.active_segment.size // 315
    seen: list[list[int]] = []
    last_headers = producer_recall._last_headers

    def counted(*arguments: object) -> object:
        headers = list(last_headers(*arguments))  # type: ignore[arg-type]
        assert all(before.next_offset == after.base_offset for before, after in pairwise(headers))
        assert headers[-1].next_offset == log.log_end_offset
        seen.append([header.size for header in headers])
        return iter(headers)

    monkeypatch.setattr(producer_recall, "_last_headers", counted)
    for windows, known in (((10 * size, 50 * size), 2), ((10 * size, 130 * size), 5)):
        seen.clear()
        monkeypatch.setattr(producer_recall, "WINDOWS", windows)
        batches = remembered(open_log(tmp_path, LARGE, clean=True))
        assert (len(batches[1]), len(batches[2])) == (5, known)
        for window, sizes in zip(windows, seen, strict=True):
            assert window - 4 * size < sum(sizes) <= window + 4 * size


@pytest.mark.parametrize("damage", ["no entries", "positions are wrong"])
def test_an_index_that_leads_nowhere_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(producer_recall, "WINDOWS", (1000, 2000))
    log = open_log(tmp_path, LARGE)
    for sequence in range(100):
        produce(log, sequence)
    log.close()
    path = Path(log.active_segment.path(names.INDEX))
    data = bytearray(path.read_bytes())
    if damage == "no entries":
        data = data[:8]
    else:
        for at in range(7, len(data), 8):
            data[at] ^= 1
    path.write_bytes(data)
    again = open_log(tmp_path, LARGE, clean=True)
    assert produce(again, 99) is None
    assert produce(again, 100) == 100
