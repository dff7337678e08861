"""Message sets of formats v0 (Kafka 0.8) and v1 (0.10, KIP-31 and KIP-32), which record batch v2 replaced.

A set is a sequence of entries, each an offset, a length and a message. All integers are big-endian:

| at | field        | type   | meaning                                                              |
|----|--------------|--------|----------------------------------------------------------------------|
| 0  | offset       | int64  | of the message; of the last one within, where it is a wrapper        |
| 8  | size         | int32  | bytes after this field                                               |
| 12 | crc          | uint32 | CRC-32 (zlib's) of everything from magic on                          |
| 16 | magic        | int8   | 0 or 1                                                               |
| 17 | attributes   | int8   | bits 0..2 codec; 3 timestamp type (v1: 0 CreateTime, 1 LogAppendTime) |
| 18 | timestamp    | int64  | v1 only: ms, -1 where none is known                                  |
|    | key length   | int32  | -1 null                                                              |
|    | key          |        |                                                                      |
|    | value length | int32  | -1 null                                                              |
|    | value        |        |                                                                      |

Without compression every message is an entry of its own. With compression, a message without a key is a wrapper: its
value is a message set, compressed as one block, whose messages are not compressed again. Within a wrapper of v0 offsets
are absolute, so a leader must compress anew to assign them. Within v1 they count from the first of the set, and the
wrapper's offset is the last one's; some producers leave it 0, whatever the set holds. The timestamp of a v1 wrapper is
the largest within, or with LogAppendTime the one of all.

The lz4 frames of v0 carry a wrong header checksum, computed over the frame's magic number too (KAFKA-3160): this module
writes it that way, and ignores it when reading. zstd came after these formats and is not allowed in them (KIP-110).

`read_entry` gives an entry a `BatchHeader`, so that code that walks over a log need not tell formats apart:
`any_format.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct

from kafkalog.records import compression
from kafkalog.records.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
)
from kafkalog.records.compression import Buffer, Codec
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)

MAGIC_V0 = 0
MAGIC_V1 = 1
MIN_SIZES = (14, 22)
"""The least value of an entry's size field, by magic: no key, no value."""
MIN_ENTRY_SIZE = LOG_OVERHEAD + MIN_SIZES[MAGIC_V0]
ENTRY_OVERHEADS = (LOG_OVERHEAD + MIN_SIZES[0], LOG_OVERHEAD + MIN_SIZES[1])
"""Bytes of an entry without its key and value, by magic."""
UNKNOWN_COUNT = -1
"""Stands for the count of records in a wrapper that was not decompressed."""

_CRC_AT = 12
_ATTRIBUTES_AT = 17
_TIMESTAMP_AT = 18
_MAX_SIZE = 0x7FFFFFFF
_MAX_OFFSET = (1 << 63) - 1
_ATTRIBUTE_MASKS = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME_FLAG)
_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

_START = Struct(">qiIbb")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_HEAD_V0 = Struct(">bbi")
_HEAD_V1 = Struct(">bbqi")
"""The fields that the CRC covers before the key: magic, attributes, (timestamp,) length of the key."""
_ENTRY = Struct(">qiI")


def read_entry(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the entry at `pos` as a batch's header; only the entry's fixed fields need be in the buffer.

    `base_offset` is the entry's offset, for a wrapper the last offset within. `last_offset_delta` is 0. `records_count`
    is 1, for a wrapper `UNKNOWN_COUNT`. Both timestamps are the entry's, -1 in v0. `batch_length` is the size field, as
    in a batch.

    Raises:
        CorruptRecordError: A length is impossible.
        UnsupportedMagicError: The entry is of another format.
    """
    if pos < 0 or len(buf) - pos < MIN_ENTRY_SIZE:
        raise CorruptRecordError(f"{len(buf) - pos} bytes where a message of {MIN_ENTRY_SIZE} should be")
    offset, size, crc, magic, attributes = _START.unpack_from(buf, pos)
    if not MAGIC_V0 <= magic <= MAGIC_V1:
        raise UnsupportedMagicError(f"magic {magic} in a message set, which is of 0 or 1")
    if size < MIN_SIZES[magic]:
        raise CorruptRecordError(f"message size {size} is less than a message's least, {MIN_SIZES[magic]}")
    timestamp = NO_TIMESTAMP
    if magic:
        if len(buf) - pos < ENTRY_OVERHEADS[MAGIC_V1]:
            raise CorruptRecordError(f"{len(buf) - pos} bytes where a message of {size} should be")
        (timestamp,) = _INT64.unpack_from(buf, pos + _TIMESTAMP_AT)
    attributes &= _ATTRIBUTE_MASKS[magic]
    count = UNKNOWN_COUNT if attributes & CODEC_MASK else 1
    return BatchHeader(offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count)


def iter_entries(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header (`read_entry`) of every whole entry in `buf[pos:end]`; wrappers stay compressed.

    An incomplete entry at the end is left out. Checksums are not verified.

    Raises:
        CorruptRecordError, UnsupportedMagicError: `read_entry` raises them.
    """
    end = len(buf) if end is None else min(end, len(buf))
    while end - pos >= MIN_ENTRY_SIZE:
        size = LOG_OVERHEAD + _INT32.unpack_from(buf, pos + 8)[0]
        # An impossible length is an error; a length beyond the end means an incomplete entry.
        if size > end - pos:
            return
        yield pos, read_entry(buf, pos)
        pos += size


def verify_entry(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Check that the whole entry is there and its checksum is the stated one.

    Raises:
        CorruptRecordError: The entry is cut off, or its checksum is another.
    """
    size = LOG_OVERHEAD + header.batch_length
    if pos + size > len(buf):
        raise CorruptRecordError(f"message of {size} bytes of which {len(buf) - pos} are there")
    computed = zlib.crc32(memoryview(buf)[pos + MAGIC_AT : pos + size])
    if computed != header.crc:
        raise CorruptRecordError(
            f"message at offset {header.base_offset}: CRC {computed:#010x}, stored {header.crc:#010x}"
        )


def codec_of(header: BatchHeader) -> Codec:
    """Return the codec of an entry.

    Raises:
        UnsupportedCompressionTypeError: The codec is zstd, or these formats lack the code.
    """
    code = header.attributes & CODEC_MASK
    if code >= len(_CODECS):
        name = "zstd" if code == Codec.ZSTD else f"compression type {code}"
        raise UnsupportedCompressionTypeError(f"{name} in a message of format v{header.magic}")
    return _CODECS[code]


def decode_entry(
    buf: Buffer,
    pos: int = 0,
    header: BatchHeader | None = None,
    *,
    check_crc: bool = True,
    max_size: int = compression.DEFAULT_MAX_SIZE,
    same_magic: bool = False,
) -> list[Record]:
    """Return the records of the whole entry at `pos`: itself, or those within a wrapper; offsets are absolute.

    Timestamps are -1 in v0. `check_crc` verifies the messages within, too. `same_magic` refuses a wrapper whose
    messages are of another format than itself, and lz4 frames of dependent blocks, as a leader does; readers accept
    both. `max_size` bounds the decompressed
    bytes.

    Raises:
        RecordsError: The entry cannot be decoded; any of its subclasses.
    """
    if header is None:
        header = read_entry(buf, pos)
    if check_crc:
        verify_entry(buf, pos, header)
    elif pos + header.size > len(buf):
        raise CorruptRecordError(f"message of {header.size} bytes of which {len(buf) - pos} are there")
    codec = codec_of(header)
    key, value = _key_and_value(buf, pos, header)
    if codec is Codec.NONE:
        return [Record(header.base_offset, header.max_timestamp, key, value)]
    if value is None:
        raise InvalidRecordError(f"compressed message at offset {header.base_offset} without a value")
    if same_magic:
        compression.refuse_dependent_blocks(codec, value)
    return _within(header, _decompress(codec, value, header.magic, max_size), check_crc, same_magic)


def entries_within(
    buf: Buffer, pos: int, header: BatchHeader, *, max_size: int = compression.DEFAULT_MAX_SIZE
) -> tuple[Buffer, list[tuple[int, BatchHeader]]]:
    """Return the message set in the wrapper at `pos`, decompressed, and position and header of each of its entries.

    Offsets are as stored. Only lengths are checked.

    Raises:
        RecordsError: The wrapper cannot be decoded; any of its subclasses.
    """
    data = wrapped_set(buf, pos, header, max_size=max_size)
    return data, list(iter_entries(data))


def wrapped_set(
    buf: Buffer,
    pos: int,
    header: BatchHeader,
    *,
    max_size: int = compression.DEFAULT_MAX_SIZE,
    takes_dependent_blocks: bool = True,
) -> Buffer:
    """Return the message set in the wrapper at `pos`, decompressed.

    Without `takes_dependent_blocks` it refuses lz4 frames of dependent blocks, as a leader does; readers accept them.

    Raises:
        RecordsError: The wrapper cannot be decoded; any of its subclasses.
    """
    _, value = _key_and_value(buf, pos, header)
    if value is None:
        raise InvalidRecordError(f"compressed message at offset {header.base_offset} without a value")
    codec = codec_of(header)
    if not takes_dependent_blocks:
        compression.refuse_dependent_blocks(codec, value)
    return _decompress(codec, value, header.magic, max_size)


def _within(wrapper: BatchHeader, data: Buffer, check_crc: bool, same_magic: bool) -> list[Record]:
    records: list[Record] = []
    append_time = wrapper.max_timestamp if wrapper.is_log_append_time else None
    pos, end = 0, len(data)
    while pos < end:
        inner = read_entry(data, pos)
        if inner.size > end - pos:
            raise CorruptRecordError(f"message of {inner.size} bytes where {end - pos} are left in its wrapper")
        if inner.attributes & CODEC_MASK:
            raise InvalidRecordError(f"compressed message within the one at offset {wrapper.base_offset}")
        if same_magic and inner.magic != wrapper.magic:
            raise InvalidRecordError(f"message of format v{inner.magic} within one of v{wrapper.magic}")
        if check_crc:
            verify_entry(data, pos, inner)
        key, value = _key_and_value(data, pos, inner)
        timestamp = inner.max_timestamp if append_time is None or not inner.magic else append_time
        records.append(Record(inner.base_offset, timestamp, key, value))
        pos += inner.size
    if not records:
        raise InvalidRecordError(f"compressed message at offset {wrapper.base_offset} with none within")
    if wrapper.magic == MAGIC_V0:
        return records
    # Some producers leave the wrapper's offset 0, whatever is within.
    base = wrapper.base_offset - records[-1].offset if wrapper.base_offset else 0
    if base < 0:
        raise InvalidRecordError(
            f"compressed message at offset {wrapper.base_offset} ends with relative offset {records[-1].offset}"
        )
    if base + max(record.offset for record in records) > _MAX_OFFSET:
        raise InvalidRecordError(f"compressed message at offset {wrapper.base_offset} has offsets beyond 64 bits")
    return [record._replace(offset=base + record.offset) for record in records] if base else records


def _key_and_value(buf: Buffer, pos: int, header: BatchHeader) -> tuple[bytes | None, bytes | None]:
    end = pos + LOG_OVERHEAD + header.batch_length
    at = pos + (26 if header.magic else 18)
    (length,) = _INT32.unpack_from(buf, at)
    at += 4
    key = None
    if length >= 0:
        # The message must have the value's length, too.
        if length > end - at - 4:
            raise CorruptRecordError(f"key of {length} bytes where {end - at} are left")
        key = bytes(buf[at : at + length])
        at += length
    (length,) = _INT32.unpack_from(buf, at)
    at += 4
    if length < 0:
        return key, None
    if length > end - at:
        raise CorruptRecordError(f"value of {length} bytes where {end - at} are left")
    return key, bytes(buf[at : at + length])


# ---------------------------------------------------------------------------------------------- writing


def encode_message_set(
    records: Sequence[Record],
    *,
    magic: int,
    codec: int = Codec.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
) -> bytearray:
    """Encode the records as entries of their own or, with a codec, as one wrapper; no records make no bytes.

    Offsets are absolute and must increase. `log_append_time` (ms, v1) becomes every timestamp and the timestamp type;
    v0 has neither. Headers of records are left out, since these formats have none.

    Raises:
        UnsupportedCompressionTypeError: The codec is zstd or unknown.
        InvalidRecordError: The offsets do not increase.
    """
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise UnsupportedMagicError(f"no message set has magic {magic}")
    if not 0 <= codec < len(_CODECS):
        name = "zstd" if codec == Codec.ZSTD else f"compression type {int(codec)}"
        raise UnsupportedCompressionTypeError(f"{name} is not supported in message format v{magic}")
    if magic == MAGIC_V0:
        log_append_time = None
    flag = 0 if log_append_time is None else LOG_APPEND_TIME_FLAG
    base = records[0].offset if codec and magic and records else 0
    out = bytearray()
    previous = -1
    for record in records:
        if record.offset <= previous:
            raise InvalidRecordError(f"offset {record.offset} after {previous} in a message set")
        previous = record.offset
        timestamp = record.timestamp if log_append_time is None else log_append_time
        append_entry(out, magic, flag, record.offset - base, timestamp, record.key, record.value)
    if not codec or not records:
        return out
    latest = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    wrapper = bytearray()
    append_entry(wrapper, magic, flag | codec, previous, latest, None, _compress(codec, out, magic, level))
    return wrapper


def append_entry(
    out: bytearray, magic: int, attributes: int, offset: int, timestamp: int, key: Buffer | None, value: Buffer | None
) -> None:
    """Append one entry to `out`; a value that is compressed already has its codec in `attributes`."""
    key_size = -1 if key is None else len(key)
    head = (
        _HEAD_V1.pack(magic, attributes, timestamp, key_size) if magic else _HEAD_V0.pack(magic, attributes, key_size)
    )
    value_size = _INT32.pack(-1 if value is None else len(value))
    body = b"".join((head, key or b"", value_size, value or b""))
    if len(body) > _MAX_SIZE - 4:
        raise InvalidRecordError("message of more than 2 GiB")
    out += _ENTRY.pack(offset, len(body) + 4, zlib.crc32(body))
    out += body


def set_offset(buf: bytearray | memoryview, pos: int, offset: int) -> None:
    """Set an entry's offset in place; the checksum does not cover it."""
    _INT64.pack_into(buf, pos, offset)


def set_timestamp(buf: bytearray | memoryview, pos: int, timestamp: int, *, log_append_time: bool) -> None:
    """Set timestamp, timestamp type and checksum of the whole v1 entry at `pos` in place."""
    (size,) = _INT32.unpack_from(buf, pos + 8)
    buf[pos + _ATTRIBUTES_AT] = buf[pos + _ATTRIBUTES_AT] & CODEC_MASK | (
        LOG_APPEND_TIME_FLAG if log_append_time else 0
    )
    _INT64.pack_into(buf, pos + _TIMESTAMP_AT, timestamp)
    with memoryview(buf) as view, view[pos + MAGIC_AT : pos + LOG_OVERHEAD + size] as covered:
        _UINT32.pack_into(buf, pos + _CRC_AT, zlib.crc32(covered))


# ---------------------------------------------------------------------------------------------- the lz4 frames of v0


def _compress(codec: int, data: Buffer, magic: int, level: int | None) -> Buffer:
    packed = compression.compress(codec, data, level)
    if codec != Codec.LZ4 or magic != MAGIC_V0:
        return packed
    end = _lz4_descriptor_end(packed)
    frame = bytearray(packed)
    frame[end] = xxh32(frame[:end]) >> 8 & 0xFF
    return frame


def _decompress(codec: Codec, data: bytes, magic: int, max_size: int) -> Buffer:
    if codec is not Codec.LZ4 or magic != MAGIC_V0:
        return compression.decompress(codec, data, max_size)
    end = _lz4_descriptor_end(data)
    frame = bytearray(data)
    frame[end] = xxh32(frame[len(compression.LZ4_MAGIC) : end]) >> 8 & 0xFF
    # The library verifies the header checksum, so the frame gets the right one first.
    return compression.decompress(codec, bytes(frame), max_size)


def _lz4_descriptor_end(frame: Buffer) -> int:
    """Return the position of the header checksum of an lz4 frame, after the flags and the fields that they announce."""
    if len(frame) < 7:
        raise CorruptRecordError("not an lz4 frame")
    end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    if end >= len(frame):
        raise CorruptRecordError("truncated lz4 frame")
    return end


_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK_32 = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    value &= _MASK_32
    return (value << bits | value >> (32 - bits)) & _MASK_32


def xxh32(data: bytes | bytearray) -> int:
    """Compute xxHash32 (seed 0) of the few bytes of an lz4 frame's header."""
    first, second, third, fourth, fifth = _PRIMES
    at, size = 0, len(data)
    if size >= 16:
        lanes = [first + second & _MASK_32, second, 0, -first & _MASK_32]
        while at + 16 <= size:
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = _rotate(lanes[lane] + word * second, 13) * first & _MASK_32
                at += 4
        value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = fifth
    value += size
    while at + 4 <= size:
        value = _rotate(value + int.from_bytes(data[at : at + 4], "little") * third, 17) * fourth
        at += 4
    for byte in data[at:]:
        value = _rotate(value + byte * fifth, 11) * first
    value &= _MASK_32
    value = (value ^ value >> 15) * second & _MASK_32
    value = (value ^ value >> 13) * third & _MASK_32
    return value ^ value >> 16
