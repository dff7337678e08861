"""Tests of the batch format in plain Python: round trips, fields, and a leader's checks."""

from __future__ import annotations

from typing import Any

import pytest
from crcmod import predefined
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records import checksum
from kafkalog.records.batch import (
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    BatchHeader,
    Record,
    assign_offsets,
    decode_batch,
    encode_batch,
    iter_headers,
    read_header,
    set_create_time,
    set_log_append_time,
    set_producer,
)
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordsError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)
from kafkalog.records.validate import ValidatedBatch, check_batch
from kafkalog.records.varint import append_varint, read_varint, read_varlong, varint_size
from tests.kafkalog.records.support import CODECS, record_lists

crcmod_crc32c = predefined.mkCrcFun("crc-32c")


def _sealed(batch: bytearray) -> bytes:
    """The batch with its checksum put right by the independent implementation."""
    batch[CRC_AT : CRC_AT + 4] = crcmod_crc32c(bytes(batch[CRC_AT + 4 :])).to_bytes(4, "big")
    return bytes(batch)


def _batch(**options: Any) -> bytearray:
    records = [Record(0, 10, b"k", b"v"), Record(1, 7, b"k", None, (("h", b"x"),)), Record(2, 12, b"", b"")]
    return encode_batch(records, **options)


@given(record_lists(), st.sampled_from(CODECS), st.integers(0, 2**40))
def test_round_trip(records: list[Record], codec: Codec, base: int) -> None:
    moved = [record._replace(offset=record.offset + base) for record in records]
    batch = encode_batch(moved, codec=codec, base_offset=base)
    header, read = decode_batch(batch)
    assert read == moved
    assert (header.size, header.codec, header.base_offset) == (len(batch), codec, base)
    assert header.next_offset == moved[-1].offset + 1
    assert header.crc == crcmod_crc32c(bytes(batch[CRC_AT + 4 :]))


@given(st.binary(max_size=300), st.integers(0, 300))
def test_checksums_are_those_of_crcmod(data: bytes, cut: int) -> None:
    expected = crcmod_crc32c(data)
    assert checksum.crc32c(data) == expected
    assert checksum.crc32c(memoryview(data)[cut:], checksum.crc32c(data[:cut])) == expected
    assert checksum._crcmod_crc32c()(memoryview(data), 0) == expected


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(value: int) -> None:
    out = bytearray()
    append_varint(out, value)
    assert len(out) == varint_size(value)
    assert read_varlong(out, 0, len(out)) == (value, len(out))
    if -(2**31) <= value < 2**31:
        assert read_varint(out, 0, len(out)) == (value, len(out))
    else:
        with pytest.raises(CorruptRecordError, match=r"32 bits|5 bytes"):
            read_varint(out, 0, len(out))
    for end in range(len(out)):
        with pytest.raises(CorruptRecordError, match="cut off"):
            read_varlong(out, 0, end)


@given(st.lists(record_lists(max_size=3), max_size=3), st.data())
def test_headers_of_the_whole_batches(logs: list[list[Record]], data: st.DataObject) -> None:
    batches = [encode_batch(records) for records in logs]
    buf = b"".join(bytes(batch) for batch in batches)
    cut = data.draw(st.integers(0, len(buf)))
    ends = [sum(map(len, batches[: index + 1])) for index in range(len(batches))]
    assert [pos + header.size for pos, header in iter_headers(buf, end=cut)] == [end for end in ends if end <= cut]


@given(record_lists(), st.sampled_from(CODECS))
def test_a_leader_takes_dense_batches(records: list[Record], codec: Codec) -> None:
    dense = [record._replace(offset=index) for index, record in enumerate(records)]
    times = [record.timestamp for record in dense]
    batch = encode_batch(dense, codec=codec)
    assert check_batch(batch) == ValidatedBatch(read_header(batch), min(times), max(times))


def test_fields_set_in_place() -> None:
    batch = _batch(codec=Codec.ZSTD)
    assign_offsets(batch, 0, 1000, 4)
    set_log_append_time(batch, 0, 99)
    header, records = decode_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.max_timestamp) == (1000, 4, 99)
    assert [(record.offset, record.timestamp) for record in records] == [(1000, 99), (1001, 99), (1002, 99)]
    assert check_batch(batch)[1:] == (99, 99)
    set_create_time(batch, 0, 12)
    assert [record.timestamp for record in decode_batch(batch)[1]] == [10, 7, 12]
    set_producer(batch, 0, 1 << 40, 3, 77)
    header, records = decode_batch(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 3, 77)
    assert [record.timestamp for record in records] == [10, 7, 12]


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_an_error(codec: Codec) -> None:
    batch = bytes(_batch(codec=codec))
    for end in range(len(batch)):
        with pytest.raises(CorruptRecordError):
            check_batch(batch[:end])
        with pytest.raises(CorruptRecordError):
            decode_batch(batch[:end])


@pytest.mark.usefixtures("checked")
def test_every_flipped_bit_is_noticed() -> None:
    batch = _batch()
    for at in range(8, len(batch)):
        if 12 <= at < 16:  # the leader epoch lies outside the checksum
            continue
        for bit in range(8):
            batch[at] ^= 1 << bit
            with pytest.raises(RecordsError):
                check_batch(batch)
            batch[at] ^= 1 << bit
    check_batch(batch)


def _field(batch: bytearray, name: str, value: int) -> bytes:
    header = read_header(batch)._replace(**{name: value})
    from kafkalog.records.batch import HEADER

    HEADER.pack_into(batch, 0, *header)
    return _sealed(batch)


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("records_count", 0, InvalidRecordError),
        ("records_count", -1, InvalidRecordError),
        ("records_count", 2, InvalidRecordError),
        ("records_count", 4, InvalidRecordError),
        ("records_count", 2**31 - 1, InvalidRecordError),
        ("last_offset_delta", 1, InvalidRecordError),
        ("last_offset_delta", -1, InvalidRecordError),
        ("attributes", 5, UnsupportedCompressionTypeError),
        ("attributes", 7, UnsupportedCompressionTypeError),
        ("attributes", 4, CorruptRecordError),
        ("attributes", 0x20, InvalidRecordError),
        ("producer_id", 5, InvalidRecordError),
        ("magic", 1, UnsupportedMagicError),
        ("magic", 3, UnsupportedMagicError),
        ("batch_length", 48, CorruptRecordError),
        ("batch_length", -1, CorruptRecordError),
        ("batch_length", 2**31 - 1, CorruptRecordError),
    ],
)
def test_headers_that_lie(name: str, value: int, error: type[RecordsError]) -> None:
    with pytest.raises(error):
        check_batch(_field(_batch(), name, value))


@pytest.mark.usefixtures("checked")
def test_a_count_and_delta_that_agree_on_a_lie_take_no_memory() -> None:
    batch = _batch()
    batch[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4] = (2**31 - 2).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="cannot be in"):
        check_batch(_field(batch, "records_count", 2**31 - 1))


def test_compacted_topics_need_keys() -> None:
    keyed = encode_batch([Record(0, 0, b"", b"v")])
    check_batch(keyed, require_keys=True)
    with pytest.raises(InvalidRecordError, match="no key"):
        check_batch(encode_batch([Record(0, 0, None, b"v")]), require_keys=True)


def test_markers() -> None:
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 3).encode(timestamp=9, producer_id=8, producer_epoch=1)
    header, (record,) = decode_batch(marker)
    assert isinstance(header, BatchHeader)
    assert header.is_control
    assert EndTransactionMarker.parse(record) == (ControlRecordType.COMMIT, 3)
    assert check_batch(marker, allow_control=True).header.producer_id == 8
    with pytest.raises(InvalidRecordError, match="control batch"):
        check_batch(marker)
