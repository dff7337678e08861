"""Test walks over the batches of a `.log` file, with any contents and any way of reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import batch_walk
from kafkalog.storage.batch_walk import Read, ReadInto


def reading(data: bytes) -> Read:
    return lambda size, position: memoryview(data)[position : position + size]


def reading_into(data: bytes) -> ReadInto:
    def read_into(view: memoryview, position: int) -> int:
        part = data[position : position + len(view)]
        view[: len(part)] = part
        return len(part)

    return read_into


def log_of(sizes: list[int]) -> tuple[bytes, list[int]]:
    """A log with a batch of one record for each size, and where the batches begin."""
    data, starts = b"", []
    for offset, size in enumerate(sizes):
        starts.append(len(data))
        data += encode_batch([Record(offset, 1, None, bytes(size))], base_offset=offset)
    return data, starts


sizes = st.lists(st.integers(0, 300), min_size=1, max_size=6)
chunks = st.integers(HEADER_SIZE, 600)


@given(sizes, chunks, st.integers(0, 200), st.integers(0, HEADER_SIZE))
def test_every_whole_batch_is_met_wherever_chunks_end(values: list[int], chunk: int, verified: int, cut: int) -> None:
    data, starts = log_of(values)
    ends = [*starts[1:], len(data)]
    data = data[: max(len(data) - cut, 0)]
    whole = [start for start, end in zip(starts, ends, strict=True) if end <= len(data)]
    # A batch that is verified must fit into what is read at a time.
    met = batch_walk.headers(reading(data), 0, len(data), chunk_bytes=max(chunk, verified), verified_bytes=verified)
    assert [(at, header.base_offset) for at, header in met] == list(zip(whole, range(len(whole)), strict=True))


@given(sizes, st.data())
def test_a_flipped_bit_is_found_where_checksums_are_verified(values: list[int], data: st.DataObject) -> None:
    log, starts = log_of(values)
    spoiled = data.draw(st.integers(0, len(starts) - 1))
    end = [*starts[1:], len(log)][spoiled]
    # From the attributes on, which the checksum covers.
    at = data.draw(st.integers(starts[spoiled] + 21, end - 1))
    damaged = bytearray(log)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    met: list[int] = []
    walk = batch_walk.headers(reading(bytes(damaged)), 0, len(damaged), verified_bytes=4096)
    with pytest.raises(CorruptRecordError):
        met.extend(at for at, _ in walk)
    assert met == starts[:spoiled]
    found: list[int] = []
    batches = batch_walk.verified_batches(reading_into(bytes(damaged)), 0, len(damaged))
    with pytest.raises(CorruptRecordError):
        found.extend(at for at, _, _ in batches)
    assert found == starts[:spoiled]


@given(sizes, st.data())
def test_a_file_that_became_shorter_than_said_is_corrupt(sizes: list[int], draw: st.DataObject) -> None:
    data, starts = log_of(sizes)
    left = draw.draw(st.integers(0, len(data) - 1))
    found: list[int] = []
    batches = batch_walk.verified_batches(reading_into(data[:left]), 0, len(data))
    with pytest.raises(CorruptRecordError):
        found.extend(at for at, _, _ in batches)
    assert found == [start for start, end in zip(starts, [*starts[1:], len(data)], strict=True) if end <= left]


@given(st.binary(max_size=300), st.integers(0, 50), st.integers(0, 200))
def test_a_walk_over_anything_ends(data: bytes, offset: int, verified: int) -> None:
    last = -1
    try:
        for at, header in batch_walk.headers(reading(data), 0, len(data), verified_bytes=verified):
            assert last < at
            assert at + header.size <= len(data)
            last = at
    except RecordsError:
        pass
    try:
        found = batch_walk.find_batch(reading(data), 0, len(data), offset)
        assert found is None or found[1] + found[2] <= len(data)
    except RecordsError:
        pass
    assert 0 <= batch_walk.batch_size(reading(data), 0, len(data)) <= len(data)
    assert batch_walk.is_zero(reading(data), 0, len(data)) == (not any(data))


@given(sizes)
def test_each_offset_is_found_in_its_batch(values: list[int]) -> None:
    data, starts = log_of(values)
    ends = [*starts[1:], len(data)]
    for offset, (start, end) in enumerate(zip(starts, ends, strict=True)):
        assert batch_walk.find_batch(reading(data), 0, len(data), offset) == (offset, start, end - start)
        assert batch_walk.batch_size(reading(data), start, len(data)) == end - start
        assert batch_walk.stated_size(data[start:]) == end - start
    assert batch_walk.find_batch(reading(data), 0, len(data), len(values)) is None
