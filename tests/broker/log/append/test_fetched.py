"""Test that a follower appends fetched batches together as it would append them one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.files.file_ops import Buffer, FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import CorruptMessageError, InvalidRecordError, KafkaError, OffsetOutOfRangeError
from kafkalog.records.batch import assign_offsets, read_header
from tests.broker.log.support import NOW, batch, marker, open_log, stored, temporary_directory

SMALL = LogConfig(segment_bytes=2000, segment_ms=5000, index_interval_bytes=100, segment_index_bytes=120)


class CountingOps(FileOps):
    """The system's calls; counts the writes."""

    writes = 0

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        self.writes += 1
        return super().pwrite(fd, data, offset)


@st.composite
def fetched(draw: st.DrawFn) -> list[bytes]:
    """Draw batches as a leader has them: gaps, growing epochs, transactions with their markers, any timestamps."""
    found: list[bytes] = []
    offset, epoch, sequences = 0, 0, {1: 0, 2: 0}
    for _ in range(draw(st.integers(1, 40))):
        offset += draw(st.sampled_from((0, 0, 0, 1, 7)))
        epoch += draw(st.sampled_from((0, 0, 0, 0, 1)))
        producer = draw(st.sampled_from((-1, -1, 1, 2)))
        if producer > 0 and draw(st.booleans()):
            one = marker(producer, commit=draw(st.booleans()))
        else:
            timestamp = NOW + draw(st.integers(-3000, 6000))
            how: dict[str, Any] = {}
            if producer > 0:
                how = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
                how["is_transactional"] = True
            count = draw(st.integers(1, 4))
            one = batch(count, size=draw(st.integers(1, 200)), timestamp=timestamp, **how)
            if producer > 0:
                sequences[producer] += count
        assign_offsets(one, 0, offset, epoch)
        found.append(bytes(one))
        offset = read_header(one).last_offset + 1
    return found


def append(log: Log, batches: list[bytes]) -> None:
    log.append_as_follower(memoryview(bytearray(b"".join(batches))), now_ms=NOW)


def kept(log: Log, directory: Path) -> dict[str, Any]:
    """Return what a log holds: its state, and all files after it was closed."""
    state = {
        "end": log.log_end_offset,
        "epochs": log.epochs.entries(),
        "stable": log.last_stable_offset,
        "batches": stored(log),
    }
    log.close()
    return state | {path.name: path.read_bytes() for path in sorted((directory / "t-0").iterdir())}


@given(fetched(), st.lists(st.integers(1, 12), min_size=1))
def test_sets_of_batches_give_the_same_files_as_single_batches(batches: list[bytes], sizes: list[int]) -> None:
    with temporary_directory() as directory:
        one_by_one, in_sets = open_log(directory / "a", SMALL), open_log(directory / "b", SMALL)
        for each in batches:
            append(one_by_one, [each])
        rest = batches
        for number in range(len(batches)):
            size = sizes[number % len(sizes)]
            append(in_sets, rest[:size])
            rest = rest[size:]
        assert kept(in_sets, directory / "b") == kept(one_by_one, directory / "a")


def test_batches_that_go_into_one_segment_are_written_at_once(tmp_path: Path) -> None:
    ops = CountingOps()
    log = open_log(tmp_path, LogConfig(), ops=ops)
    append(log, [bytes(batch(1, leader_epoch=0))])
    before = ops.writes
    append(log, [bytes(batch(1, base_offset=number, leader_epoch=0)) for number in range(1, 51)])
    assert log.log_end_offset == 51
    assert ops.writes == before + 1


@pytest.mark.parametrize("is_damaged", [True, False])
def test_batches_before_one_that_is_refused_are_appended(tmp_path: Path, is_damaged: bool) -> None:
    log = open_log(tmp_path)
    last = bytearray(batch(1, base_offset=3 if is_damaged else 2))
    last[-1] ^= is_damaged
    with pytest.raises(CorruptMessageError if is_damaged else OffsetOutOfRangeError):
        append(log, [*(bytes(batch(1, base_offset=number)) for number in range(3)), bytes(last)])
    assert log.log_end_offset == 3
    assert [each.base_offset for each in stored(log)] == [0, 1, 2]


def test_batches_of_a_later_epoch_than_the_one_followed_are_left_out(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    data = b"".join(bytes(batch(1, base_offset=number, leader_epoch=number // 2)) for number in range(4))
    log.append_as_follower(memoryview(bytearray(data)), now_ms=NOW, leader_epoch=0)
    assert log.log_end_offset == 2


def test_a_control_batch_that_does_not_read_is_an_error_of_its_partition(tmp_path: Path) -> None:
    """Another error would stop the fetches of all partitions from this leader."""
    log = open_log(tmp_path)
    odd = batch([b"v"], key=b"odd", producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    with pytest.raises(InvalidRecordError):
        append(log, [bytes(odd)])


def test_a_segment_that_does_not_read_is_an_error_of_its_partition(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, [bytes(batch(1, base_offset=number)) for number in range(3)])
    log.close()
    log = open_log(tmp_path, clean=True, recovery_point=3)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[16] = 9
    path.write_bytes(data)
    with pytest.raises(KafkaError):
        append(log, [bytes(batch(1, base_offset=3))])
