"""Tests of what a leader refuses in a produced batch, and of the fields that it sets."""

from __future__ import annotations

from dataclasses import replace

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.append.rejection import RecordRules, RejectedTimestampsError
from broker.log.append.validation import TARGET_CODECS, Origin, prepare, prepare_ahead
from broker.log.log_config import LOG_APPEND_TIME, MAX_LONG, LogConfig
from kafkalog.protocol import errors
from kafkalog.protocol.errors import KafkaError
from kafkalog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    decode_batch,
    encode_batch,
    pack_header,
    read_header,
    records_section,
    verify_crc,
)
from kafkalog.records.compression import Codec, compress
from tests.broker.log.support import NOW, batch, marker

PLAIN = LogConfig()


def prepared(
    data: memoryview, config: LogConfig = PLAIN, *, origin: Origin = Origin.CLIENT, in_transaction: bool = False
) -> tuple[memoryview, BatchHeader]:
    out, header = prepare(data, config, NOW, origin, "t-0", in_transaction=in_transaction)
    verify_crc(out, 0, read_header(out))
    assert header == read_header(out)._replace(crc=header.crc)
    return out, header


def dependent_blocks() -> memoryview:
    """Return a batch in an lz4 frame as Kafka's consumers cannot read it."""
    whole = batch(3, size=50_000)
    header = read_header(whole)._replace(attributes=Codec.LZ4)
    section, start, end = records_section(whole, 0, read_header(whole), 1 << 20)
    return memoryview(pack_header(header, lz4.frame.compress(memoryview(section)[start:end], block_linked=True)))


def damaged(at: int, value: int) -> memoryview:
    data = batch(3)
    data[at] = value
    return data


REFUSED = {
    "no bytes": (memoryview(bytearray()), PLAIN, errors.InvalidRecordError),
    "short": (batch(1)[:40], PLAIN, errors.InvalidRecordError),
    "cut off": (batch(1)[:-1], PLAIN, errors.CorruptMessageError),
    "two batches": (memoryview(bytearray(batch(1)) + bytearray(batch(1))), PLAIN, errors.InvalidRecordError),
    "negative length": (damaged(8, 0xFF), PLAIN, errors.CorruptMessageError),
    "wrong CRC": (damaged(70, 0xFF), PLAIN, errors.CorruptMessageError),
    "unknown magic": (damaged(16, 9), PLAIN, errors.CorruptMessageError),
    "dependent blocks of lz4": (dependent_blocks(), PLAIN, errors.InvalidRecordError),
    "dependent blocks of lz4 for gzip": (
        dependent_blocks(), LogConfig(compression_type="gzip"), errors.InvalidRecordError,
    ),
    "base offset": (batch(1, base_offset=5), PLAIN, errors.InvalidRecordError),
    "too large": (batch(1, size=100), LogConfig(max_message_bytes=120), errors.MessageTooLargeError),
    "no room in a segment": (batch(1, size=100), LogConfig(segment_bytes=120), errors.RecordListTooLargeError),
    "no key": (batch(2), LogConfig(cleanup_policy=("compact",)), errors.InvalidRecordError),
    "no key, and the policy is not known": (batch(2), LogConfig(is_policy_known=False), errors.InvalidRecordError),
    "control": (marker(1), PLAIN, errors.InvalidRecordError),
    "no sequence": (batch(1, producer_id=3, producer_epoch=0), PLAIN, errors.InvalidRecordError),
    "no transaction": (
        batch(1, producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True), PLAIN,
        errors.InvalidTxnStateError,
    ),
    "append time": (
        memoryview(encode_batch([Record(0, NOW, None, b"v", ())], log_append_time=True)),
        LogConfig(message_timestamp_type=LOG_APPEND_TIME), errors.InvalidTimestampError,
    ),
    "append time that is not stated": (
        memoryview(encode_batch([Record(0, -1, None, b"v", ())], log_append_time=True)), PLAIN,
        errors.InvalidTimestampError,
    ),
    "append time that is too new": (
        memoryview(encode_batch([Record(0, NOW + 1001, None, b"v", ())], log_append_time=True)),
        LogConfig(message_timestamp_after_max_ms=1000), errors.InvalidTimestampError,
    ),
    "too old": (
        batch(2, timestamp=NOW - 1001, step=5000), LogConfig(message_timestamp_before_max_ms=1000),
        errors.InvalidTimestampError,
    ),
    "too new": (
        batch(2, timestamp=NOW, step=1001), LogConfig(message_timestamp_after_max_ms=1000),
        errors.InvalidTimestampError,
    ),
}  # fmt: skip


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    data, config, expected = REFUSED[case]
    before = bytes(data)
    with pytest.raises(expected):
        prepared(data, config)
    assert bytes(data) == before, "a refused batch is not touched"


def test_accepted_as_it_is() -> None:
    data = batch(3, step=10)
    before = bytes(data)
    out, header = prepared(data)
    assert bytes(out) == before
    assert (header.records_count, header.max_timestamp) == (3, NOW + 20)


@pytest.mark.parametrize("offset", [-1000, 0, 1000])
def test_timestamps_at_the_bounds_are_taken(offset: int) -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    prepared(batch(1, timestamp=NOW + offset), config)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_timestamp_of_more_than_64_bits_wraps_around(codec: Codec) -> None:
    """A record states the difference to the batch's base timestamp, and Java adds them so, too."""
    data = batch(2, step=1, codec=codec)
    header = read_header(data)
    data = memoryview(bytearray(pack_header(header._replace(base_timestamp=MAX_LONG), data[HEADER_SIZE:])))
    out, _ = prepared(data)
    assert [record.timestamp for record in decode_batch(out, 0)[1]] == [MAX_LONG, -MAX_LONG - 1]
    with pytest.raises(errors.InvalidTimestampError) as refused:
        prepared(data, LogConfig(message_timestamp_before_max_ms=MAX_LONG - 1))
    assert isinstance(refused.value, RejectedTimestampsError)
    (found,) = refused.value.rules.record_errors(data, 10)
    assert found.batch_index == 1
    assert found.message.startswith(f"Timestamp {-MAX_LONG - 1} of message with offset 1 is out of range.")
    prepared(data, LogConfig(message_timestamp_type=LOG_APPEND_TIME))


def test_a_record_without_a_timestamp_is_not_too_old() -> None:
    prepared(batch(2, timestamp=-1), LogConfig(message_timestamp_before_max_ms=1000))


def test_append_time_is_set_whatever_the_records_say() -> None:
    config = LogConfig(message_timestamp_type=LOG_APPEND_TIME, message_timestamp_before_max_ms=0)
    out, header = prepared(batch(3, timestamp=5), config)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW
    assert {record.timestamp for record in decode_batch(out, 0)[1]} == {NOW}


@pytest.mark.parametrize("codec", list(Codec))
def test_a_stated_append_time_within_bounds_becomes_a_create_time(codec: Codec) -> None:
    records = [Record(at, NOW - 5 + at, b"k", b"v", ()) for at in range(3)]
    out, header = prepared(memoryview(encode_batch(records, codec=codec, log_append_time=True)))
    assert (header.is_log_append_time, header.max_timestamp) == (False, NOW - 3)
    stored, found = decode_batch(out, 0)
    assert (stored.is_log_append_time, stored.max_timestamp, found) == (False, NOW - 3, records)


def test_a_wrong_largest_timestamp_is_put_right() -> None:
    data = batch(3, step=10)
    data[35:43] = (NOW + 999).to_bytes(8, "big")
    # With the CRC of what it says now.
    from kafkalog.records.checksum import crc32c

    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    out, header = prepared(data)
    assert header.max_timestamp == NOW + 20
    assert read_header(out).max_timestamp == NOW + 20


def test_keys_satisfy_a_compacted_topic() -> None:
    prepared(batch(2, key=b"k"), LogConfig(cleanup_policy=("compact",)))


def test_what_the_broker_itself_writes() -> None:
    prepared(marker(1), origin=Origin.COORDINATOR)
    data = batch(1, producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    prepared(data, in_transaction=True)


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("source", list(Codec))
def test_the_topics_codec(source: Codec, target: str) -> None:
    data = batch(20, codec=source, producer_id=8, producer_epoch=1, base_sequence=5, step=3)
    expected = decode_batch(data, 0)[1]
    out, header = prepared(data, LogConfig(compression_type=target))
    assert header.codec.name.lower() == target.replace("uncompressed", "none")
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 1, 5)
    assert decode_batch(out, 0)[1] == expected
    if header.codec == source:
        assert out is data


def test_a_batch_too_large_after_its_codec_changed_is_refused() -> None:
    data = batch(50, size=50, codec=Codec.GZIP)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=len(data) + 10)
    with pytest.raises(errors.MessageTooLargeError):
        prepared(data, config)


@pytest.mark.usefixtures("checked")
@given(at=st.integers(0, 60), value=st.integers(0, 255), junk=st.binary(max_size=40), codec=st.sampled_from(Codec))
def test_any_bytes_are_taken_or_refused_with_a_kafka_error(at: int, value: int, junk: bytes, codec: Codec) -> None:
    data = batch(4, codec=codec)
    data[at] = value
    for candidate in (data, memoryview(bytearray(data) + junk), memoryview(bytearray(junk)), data[: len(junk)]):
        try:
            prepared(candidate)
        except KafkaError:
            continue


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompressing_keeps_the_records_byte_for_byte(source: Codec, target: str) -> None:
    """Whatever way a producer wrote its varints; ahead of the checks or with them, the same comes out."""
    # A record of 7 bytes, with a null key and the value b"v"; its length is written in one byte more than it needs.
    body = bytes([0x80 | 7 * 2, 0x00, 0, 0, 0, 1, 2]) + b"v" + b"\0"
    header = read_header(batch(1))._replace(attributes=int(source))
    data = memoryview(pack_header(header, compress(source, body)))
    config = LogConfig(compression_type=target)
    codec = TARGET_CODECS[target]
    ahead = prepare_ahead(memoryview(bytearray(data)), config, NOW, Origin.CLIENT, "t-0")
    out, found = prepared(data, config)
    assert (bytes(out), found) == (bytes(ahead.records), ahead.header)
    assert read_header(out).codec == codec
    section, start, end = records_section(out, 0, found)
    assert bytes(memoryview(section)[start:end]) == body
    assert found._replace(attributes=0, crc=0, batch_length=0) == header._replace(attributes=0, crc=0, batch_length=0)


def test_a_record_without_key_is_told_that_the_policy_cannot_be_read() -> None:
    batch = memoryview(encode_batch([Record(0, 1000, None, b"v")]))
    config = replace(LogConfig(), is_policy_known=False)
    (error,) = RecordRules.of(config, 1000, "t-0", from_client=True).record_errors(batch, 10)
    assert error.message.startswith("The cleanup.policy of topic partition t-0 cannot be read.")
    config = replace(LogConfig(), cleanup_policy=("compact",))
    (error,) = RecordRules.of(config, 1000, "t-0", from_client=True).record_errors(batch, 10)
    assert error.message == "Compacted topic cannot accept message without key in topic partition t-0"
