"""Tests of message sets v0 and v1: round trips, other implementations' bytes, and detection of false fields."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from kafkalog.records import compression
from kafkalog.records.any_format import decode_any, iter_any_headers, timestamp_type, verify_any_crc
from kafkalog.records.batch import NO_TIMESTAMP_TYPE_FLAG, Record, encode_batch, read_header, seal_batch, verify_crc
from kafkalog.records.compression import Codec
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)
from kafkalog.records.legacy.convert import down_convert, needs_conversion, upgraded, without_private_flag
from kafkalog.records.legacy.message_set import (
    UNKNOWN_COUNT,
    append_entry,
    decode_entry,
    encode_message_set,
    iter_entries,
    read_entry,
    set_offset,
    set_timestamp,
    verify_entry,
    xxh32,
)
from tests.kafkalog.records.support import blobs, headers

MAGICS = (0, 1)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
every_codec = pytest.mark.parametrize("codec", CODECS)

times = st.just(-1) | st.integers(0, 2**62)


@st.composite
def records_of(draw: Any, min_size: int = 1) -> list[Record]:
    """Records at increasing offsets, with gaps as compaction leaves them."""
    offset = draw(st.integers(0, 2**40))
    found = []
    for _ in range(draw(st.integers(min_size, 8))):
        found.append(Record(offset, draw(times), draw(blobs), draw(blobs), draw(headers)))
        offset += draw(st.sampled_from([1, 1, 1, 2, 1000]))
    return found


def seen(records: list[Record], magic: int, append_time: int | None = None) -> list[Record]:
    """Return the records as a format keeps them: without headers, and without timestamps in format 0."""
    return [
        record._replace(
            timestamp=-1 if not magic else record.timestamp if append_time is None else append_time, headers=()
        )
        for record in records
    ]


def decoded(buf: bytes | bytearray) -> list[Record]:
    return [record for pos, _ in iter_any_headers(buf) for record in decode_any(buf, pos)[1]]


# ------------------------------------------------------------------------------------------------ round trips


@given(records_of(), st.sampled_from(MAGICS), st.sampled_from(CODECS), st.none() | st.integers(0, 2**50))
def test_what_is_encoded_is_decoded(records: list[Record], magic: int, codec: Codec, append_time: int | None) -> None:
    data = encode_message_set(records, magic=magic, codec=codec, log_append_time=append_time)
    assert decoded(data) == seen(records, magic, append_time)
    entries = list(iter_entries(data))
    assert len(entries) == (1 if codec else len(records))
    assert sum(header.size for _, header in entries) == len(data)
    for pos, header in entries:
        verify_entry(data, pos, header)
        assert (header.magic, header.codec) == (magic, codec)
        assert timestamp_type(header) == (-1 if not magic else int(append_time is not None))
        assert header.records_count == (UNKNOWN_COUNT if codec else 1)
    last = entries[-1][1]
    assert last.last_offset == records[-1].offset
    if magic and append_time is None:
        assert max(header.max_timestamp for _, header in entries) == max(record.timestamp for record in records)
    header, _ = decode_any(data)
    if codec:
        assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
        assert header.records_count == len(records)


@given(records_of(), st.sampled_from(MAGICS), st.sampled_from(CODECS), st.data())
def test_a_cut_set_ends_before_what_is_cut(records: list[Record], magic: int, codec: Codec, data: Any) -> None:
    whole = encode_message_set(records, magic=magic, codec=codec)
    ends = [pos + header.size for pos, header in iter_entries(whole)]
    cut = data.draw(st.integers(0, len(whole)))
    assert [pos + header.size for pos, header in iter_any_headers(whole[:cut])] == [end for end in ends if end <= cut]


@given(records_of(), st.sampled_from(MAGICS), st.sampled_from(CODECS), st.data())
def test_a_changed_byte_is_noticed(records: list[Record], magic: int, codec: Codec, data: Any) -> None:
    whole = encode_message_set(records, magic=magic, codec=codec)
    # The offset of an entry is not under its checksum, as leaders set it.
    at = data.draw(st.integers(8, read_entry(whole).size - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RecordsError):
        decode_entry(whole)


@every_codec
def test_no_records_are_no_bytes(codec: Codec) -> None:
    assert encode_message_set([], magic=1, codec=codec) == b""


def test_offset_and_timestamp_are_set_in_place() -> None:
    records = [Record(at, 100 + at, None, b"v") for at in range(3)]
    data = encode_message_set(records, magic=1, codec=Codec.GZIP)
    set_offset(data, 0, 1002)
    set_timestamp(data, 0, 777, log_append_time=True)
    assert decoded(data) == [Record(1000 + at, 777, None, b"v") for at in range(3)]
    set_timestamp(data, 0, 102, log_append_time=False)
    assert decoded(data) == [Record(1000 + at, 100 + at, None, b"v") for at in range(3)]


def test_the_wrappers_of_producers_that_leave_offsets_out() -> None:
    """Wrapper offset 0 is of some producers' sets: offsets count from 0 whatever is within."""
    inner = encode_message_set([Record(at, 5, None, b"%d" % at) for at in range(4)], magic=1)
    out = bytearray()
    append_entry(out, 1, Codec.GZIP, 0, 5, None, compression.compress(Codec.GZIP, inner))
    assert [record.offset for record in decode_entry(out)] == [0, 1, 2, 3]


@given(records_of(), st.sampled_from(CODECS))
def test_xxh32_as_lz4_frames_have_it(records: list[Record], codec: Codec) -> None:
    frame = compression.compress(Codec.LZ4, encode_message_set(records, magic=0, codec=codec))
    assert frame[6] == xxh32(bytes(frame[4:6])) >> 8 & 0xFF


def test_xxh32() -> None:
    assert xxh32(b"") == 0x02CC5D05
    assert xxh32(b"abc") == 0x32D153FF
    assert xxh32(b"Nobody inspects the spammish repetition") == 0xE2293B2F


def test_lz4_of_v0_has_kafkas_wrong_checksum_and_v1_the_right_one() -> None:
    """KAFKA-3160: v0's is computed over the magic number, too, and not looked at."""
    records = [Record(0, 0, None, b"v" * 100)]
    frames = []
    for magic in MAGICS:
        data = encode_message_set(records, magic=magic, codec=Codec.LZ4)
        start = (18 if not magic else 26) + 4 + 4
        frame = data[start:]
        assert frame[:4] == compression.LZ4_MAGIC
        frames.append(frame)
        frame[6] ^= 0xFF
        broken = bytearray()
        append_entry(broken, magic, Codec.LZ4, 0, 0, None, frame)
        if magic:
            with pytest.raises(CorruptRecordError):
                decode_entry(broken)
        else:
            assert decode_entry(broken) == seen(records, 0)
    old, new = frames
    assert (old[6] ^ 0xFF) == xxh32(bytes(old[:6])) >> 8 & 0xFF != xxh32(bytes(old[4:6])) >> 8 & 0xFF
    assert (new[6] ^ 0xFF) == xxh32(bytes(new[4:6])) >> 8 & 0xFF


# ------------------------------------------------------------------------------------------------ kafka-python


THEIRS = [(magic, codec) for magic in MAGICS for codec in CODECS if (magic, codec) != (0, Codec.LZ4)]
"""kafka-python wants another package for the lz4 frames of v0; Java's are in tests/golden."""


@pytest.mark.parametrize(("magic", "codec"), THEIRS)
@given(records=records_of())
def test_kafka_python_reads_ours(magic: int, codec: Codec, records: list[Record]) -> None:
    records = [record._replace(value=record.value or b"v") for record in records]
    found: list[Record] = []
    batches = MemoryRecords(bytes(encode_message_set(records, magic=magic, codec=codec)))
    while (batch := batches.next_batch()) is not None:
        assert isinstance(batch, LegacyRecordBatch)
        assert batch.validate_crc()
        for each in batch:
            stamp = -1 if each.timestamp is None else each.timestamp
            found.append(Record(each.offset, stamp, each.key, each.value))
    assert found == seen(records, magic)


@pytest.mark.parametrize(("magic", "codec"), THEIRS)
@given(records=records_of())
def test_ours_reads_kafka_python(magic: int, codec: Codec, records: list[Record]) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    # As its producer does: offsets count from 0, and there is a time.
    records = [
        record._replace(offset=at, timestamp=abs(record.timestamp), value=record.value or b"v")
        for at, record in enumerate(records)
    ]
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, [])
    data = bytes(builder.build())
    for pos, header in iter_any_headers(data):
        verify_any_crc(data, pos, header)
    if codec:
        assert decode_entry(data) == seen(records, magic)
    else:
        assert decoded(data) == seen(records, magic)


# ------------------------------------------------------------------------------------------------ hostile bytes


def sealed(body: bytes, size: int | None = None, offset: int = 0) -> bytes:
    """An entry of `body` (from magic on) with the right checksum."""
    length = len(body) + 4 if size is None else size
    return (
        offset.to_bytes(8, "big") + length.to_bytes(4, "big", signed=True) + zlib.crc32(body).to_bytes(4, "big") + body
    )


def wrapped(inner: bytes, codec: Codec = Codec.GZIP, magic: int = 1, offset: int = 0) -> bytes:
    out = bytearray()
    append_entry(out, magic, codec, offset, 0, None, compression.compress(codec, inner))
    return bytes(out)


NULL = b"\xff\xff\xff\xff"
TIME = bytes(8)
ONE = bytes(encode_message_set([Record(0, 0, None, b"v")], magic=1))

HOSTILE: dict[str, tuple[bytes, type[RecordsError]]] = {
    "size of 13": (sealed(b"\x00\x00" + NULL + NULL, 13), CorruptRecordError),
    "negative size": (sealed(b"\x00\x00" + NULL + NULL, -1), CorruptRecordError),
    "v1 of a v0's size": (sealed(b"\x01\x00" + NULL + NULL), CorruptRecordError),
    "key beyond the end": (sealed(b"\x00\x00\x00\x00\x00\x05" + NULL + b"k"), CorruptRecordError),
    "key of 2 GiB": (sealed(b"\x00\x00\x7f\xff\xff\xff" + NULL), CorruptRecordError),
    "key without a value's length": (sealed(b"\x00\x00\x00\x00\x00\x04" + b"keys"), CorruptRecordError),
    "value of 2 GiB": (sealed(b"\x01\x00" + TIME + NULL + b"\x7f\xff\xff\xff"), CorruptRecordError),
    "unknown magic": (sealed(b"\x03\x00" + TIME + NULL + NULL), UnsupportedMagicError),
    "zstd": (sealed(b"\x01\x04" + TIME + NULL + b"\x00\x00\x00\x01x"), UnsupportedCompressionTypeError),
    "codec 7": (sealed(b"\x00\x07" + NULL + b"\x00\x00\x00\x01x"), UnsupportedCompressionTypeError),
    "compressed null": (sealed(b"\x01\x01" + TIME + NULL + NULL), InvalidRecordError),
    "compressed nothing": (wrapped(b""), InvalidRecordError),
    "no gzip at all": (sealed(b"\x01\x01" + TIME + NULL + b"\x00\x00\x00\x04gzip"), CorruptRecordError),
    "compressed twice": (wrapped(wrapped(ONE)), InvalidRecordError),
    "cut off within": (wrapped(ONE + ONE[:-1]), CorruptRecordError),
    "a few bytes within": (wrapped(b"few"), CorruptRecordError),
    "a damaged one within": (wrapped(ONE[:-1] + b"w"), CorruptRecordError),
    "relative offsets beyond the wrapper's": (
        wrapped(bytes(encode_message_set([Record(9, 0, None, b"v")], magic=1)), offset=3),
        InvalidRecordError,
    ),
    "a relative offset that is too large": (
        wrapped(
            b"".join(bytes(encode_message_set([Record(at, 0, None, b"v")], magic=1)) for at in (0, 2**63 - 1, 5)),
            offset=10,
        ),
        InvalidRecordError,
    ),
    "lz4 without a header": (
        sealed(b"\x00\x03" + NULL + b"\x00\x00\x00\x07\x04\x22\x4d\x18\x68\x40\x00"),
        CorruptRecordError,
    ),
    "lz4 of three bytes": (sealed(b"\x00\x03" + NULL + b"\x00\x00\x00\x03\x04\x22\x4d"), CorruptRecordError),
    "lz4 header to the end": (
        sealed(b"\x00\x03" + NULL + b"\x00\x00\x00\x08\x04\x22\x4d\x18\x6c\x40\x00\x00"),
        CorruptRecordError,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    data, error = HOSTILE[name]
    with pytest.raises(error):
        decode_entry(data)


@every_codec
def test_decompression_is_bounded(codec: Codec) -> None:
    data = encode_message_set([Record(0, 0, None, bytes(1 << 20))], magic=1, codec=codec)
    if codec:
        with pytest.raises(RecordTooLargeError):
            decode_entry(data, max_size=1 << 16)
    assert len(decode_entry(data, max_size=1 << 21)[0].value or b"") == 1 << 20


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    readers: list[Callable[[], Any]] = [lambda: decoded(data), lambda: list(upgraded(data))]
    for reader in readers:
        with suppress(RecordsError):
            reader()


@pytest.mark.parametrize("codec", [Codec.ZSTD, 5, 7, -1])
def test_codecs_that_these_formats_do_not_have(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        encode_message_set([Record(0, 0)], magic=1, codec=codec)


def test_records_of_a_set_have_increasing_offsets() -> None:
    with pytest.raises(InvalidRecordError, match="offset 4 after 4"):
        encode_message_set([Record(4, 0), Record(4, 0)], magic=1)
    with pytest.raises(UnsupportedMagicError):
        encode_message_set([Record(4, 0)], magic=2)


def test_a_leader_minds_other_formats_within() -> None:
    data = wrapped(bytes(encode_message_set([Record(0, 0, None, b"v")], magic=0)))
    assert decode_entry(data) == [Record(0, -1, None, b"v")]
    with pytest.raises(InvalidRecordError, match="format v0 within one of v1"):
        decode_entry(data, same_magic=True)


# ------------------------------------------------------------------------------------------------ conversions


@given(st.lists(st.tuples(records_of(), st.sampled_from(MAGICS), st.sampled_from(CODECS), st.booleans()), max_size=5))
def test_upgraded_holds_the_same_records(parts: list[tuple[list[Record], int, Codec, bool]]) -> None:
    data, wanted, kinds = bytearray(), [], []
    base = 0
    for records, magic, codec, append_time in parts:
        first = records[0].offset
        records = [record._replace(offset=base + record.offset - first) for record in records]
        base = records[-1].offset + 1
        time = 12345 if append_time else None
        data += encode_message_set(records, magic=magic, codec=codec, log_append_time=time)
        wanted += seen(records, magic, time)
        kinds += [-1 if not magic else int(append_time)] * len(records)
    pieces = list(upgraded(data))
    assert [record for piece in pieces for record in decoded(piece.records)] == wanted
    found = [(piece.timestamp_type, record) for piece in pieces for record in decoded(piece.records)]
    assert [kind for kind, _ in found] == kinds
    for piece in pieces:
        [(_, header)] = iter_any_headers(piece.records)
        assert header.magic == 2
        assert header.next_offset == piece.behind


def test_only_converted_batches_have_the_private_flag() -> None:
    batch = encode_batch([Record(0, 5, None, b"v")])
    header = read_header(batch)
    flagged = seal_batch(header._replace(attributes=header.attributes | NO_TIMESTAMP_TYPE_FLAG), bytearray(batch))
    assert without_private_flag(batch + flagged) == batch * 2
    damaged = bytearray(flagged)
    damaged[-1] ^= 1
    cleared = without_private_flag(damaged)
    assert not read_header(cleared).attributes & NO_TIMESTAMP_TYPE_FLAG
    with pytest.raises(CorruptRecordError, match="CRC"):
        verify_crc(cleared, 0, read_header(cleared))


def test_upgraded_puts_lone_messages_together() -> None:
    records = [Record(at, at, None, b"v") for at in range(10_000)]
    pieces = list(upgraded(encode_message_set(records, magic=1)))
    assert [piece.behind for piece in pieces] == [4096, 8192, 10_000]


@given(records_of(), st.sampled_from(MAGICS), st.sampled_from(CODECS), st.booleans(), st.integers(0, 4))
def test_down_conversion(records: list[Record], magic: int, codec: Codec, append_time: bool, skip: int) -> None:
    batch = encode_batch(records, codec=codec, base_offset=records[0].offset, log_append_time=append_time)
    start = records[min(skip, len(records) - 1)].offset
    done = down_convert(batch, magic, start, limit=1 << 30)
    assert not needs_conversion(done.records, magic)
    kept = records if codec else [record for record in records if record.offset >= start]
    latest = max(record.timestamp for record in records)
    assert decoded(done.records) == seen(kept, magic, latest if append_time else None)
    assert (done.converted, done.next_offset) == (len(kept), records[-1].offset + 1)
    if codec:
        assert read_entry(done.records).codec is codec


def test_down_conversion_of_a_mixed_log() -> None:
    record = [Record(at, at, b"k", b"v") for at in range(6)]
    old = [encode_message_set(record[at : at + 2], magic=at // 2, codec=Codec.GZIP) for at in (0, 2)]
    marker = encode_batch([record[4]], base_offset=4, producer_id=1, is_control=True, is_transactional=True)
    data = b"".join([*old, marker, encode_batch([record[5]], base_offset=5)])
    assert down_convert(data, 1, 0, limit=1 << 20).records.startswith(b"".join(old))
    for magic, converted in ((0, 3), (1, 1)):
        done = down_convert(data, magic, 0, limit=1 << 20)
        assert [each.offset for each in decoded(done.records)] == [0, 1, 2, 3, 5]
        assert (done.converted, done.next_offset) == (converted, 6)


def test_down_conversion_keeps_to_its_limit_but_for_the_first_batch() -> None:
    batches = [encode_batch([Record(at, 0, None, bytes(100))], base_offset=at) for at in range(5)]
    data = b"".join(batches)
    one = len(down_convert(batches[0], 1, 0, limit=0).records)
    assert len(down_convert(data, 1, 0, limit=3 * one + 1).records) == 3 * one
    done = down_convert(data, 1, 0, limit=0)
    assert (len(done.records), done.next_offset) == (one, 1)


def test_down_conversion_passes_over_batches_that_end_below_the_offset() -> None:
    """Compaction may have taken a batch's last records: what is left was seen already."""
    data = encode_batch([Record(0, 0, None, b"a")], codec=Codec.GZIP) + encode_batch([Record(7, 0)], base_offset=7)
    assert [each.offset for each in decoded(down_convert(data, 1, 3, limit=1 << 20).records)] == [7]


def test_down_conversion_of_zstd() -> None:
    first = encode_batch([Record(0, 0)])
    packed = encode_batch([Record(1, 0)], base_offset=1, codec=Codec.ZSTD)
    done = down_convert(first + packed, 0, 0, limit=1 << 20)
    assert (len(decoded(done.records)), done.next_offset) == (1, 1)
    with pytest.raises(UnsupportedCompressionTypeError):
        down_convert(packed, 0, 1, limit=1 << 20)
