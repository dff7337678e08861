"""Test that the consumer's own decoder of batches agrees with the records package, errors included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.fetch.decode import _read_records, read_batch
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.records.batch import HEADER_SIZE, Record, decode_batch, encode_batch, pack_header, read_header
from kafkalog.records.compression import Codec
from kafkalog.records.errors import InvalidRecordError, RecordsError

TP = TopicPartition("t", 3)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SHORT = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    """Batches with gaps between offsets, as compaction leaves them, and timestamps within 62 bits of each other."""
    base = draw(st.integers(0, 1 << 40))
    offset, records = base, []
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.integers(0, 20_000))
        timestamp = draw(st.integers(0, 1 << 15) | st.integers(-(1 << 61), 1 << 61))
        records.append(Record(offset, timestamp, draw(SHORT), draw(SHORT), draw(HEADERS)))
        offset += 1
    codec = draw(st.sampled_from(Codec))
    return encode_batch(records, base_offset=base, codec=codec, log_append_time=draw(st.booleans()))


def expected(batch: bytearray) -> list[ConsumerRecord]:
    header, records = decode_batch(batch)
    kind = int(header.is_log_append_time)
    return [
        ConsumerRecord("t", 3, each.offset, each.timestamp, kind, each.key, each.value, each.headers)
        for each in records
    ]


@given(batches())
def test_batches_are_read_alike(batch: bytearray) -> None:
    assert read_batch(memoryview(batch), 0, read_header(batch), TP) == expected(batch)


def test_the_fast_way_is_taken() -> None:
    records = [Record(index, index * 1000, b"k" * index, b"v" * 3 * index, (("h", None),)) for index in range(200)]
    batch = encode_batch([*records, Record(500, 0, None, None)])
    header = read_header(batch)
    assert _read_records(bytes(batch[HEADER_SIZE:]), len(batch) - HEADER_SIZE, header, TP) == expected(batch)


def test_a_negative_count_is_refused() -> None:
    batch = encode_batch([])
    damaged = pack_header(read_header(batch)._replace(records_count=-1), b"")
    with pytest.raises(InvalidRecordError, match="-1 records"):
        read_batch(memoryview(damaged), 0, read_header(damaged), TP)


@given(batches(), st.data())
def test_damaged_batches_are_read_or_refused_alike(batch: bytearray, data: st.DataObject) -> None:
    """With the checksum made good: bytes changed, inserted or taken away, and counts that lie."""
    body = bytearray(batch[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    header = read_header(batch)
    count = header.records_count + data.draw(st.integers(-1, 1))
    damaged = pack_header(header._replace(records_count=count), body)
    outcome: list[ConsumerRecord] | str
    try:
        wanted: list[ConsumerRecord] | str = expected(damaged)
    except RecordsError as error:
        wanted = str(error)
    try:
        outcome = read_batch(memoryview(damaged), 0, read_header(damaged), TP)
    except RecordsError as error:
        outcome = str(error)
    assert outcome == wanted
