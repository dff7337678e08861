"""Record batch v2, the format of Kafka 0.11 and later (KIP-98; bytes of KIP-98's "Message Format").

All integers are big-endian. A batch is this header and then the records, or one compressed block of them:

| at | field                  | type   | meaning                                                          |
|----|------------------------|--------|------------------------------------------------------------------|
| 0  | base_offset            | int64  | offset of the first record; given by the leader                  |
| 8  | batch_length           | int32  | bytes after this field, so size - 12                             |
| 12 | partition_leader_epoch | int32  | epoch of the leader that appended it; given by the leader        |
| 16 | magic                  | int8   | 2                                                                |
| 17 | crc                    | uint32 | CRC-32C of everything from attributes on                         |
| 21 | attributes             | int16  | bits below                                                       |
| 23 | last_offset_delta      | int32  | last offset of the batch - base_offset, kept by compaction       |
| 27 | base_timestamp         | int64  | ms; what the records' deltas count from                          |
| 35 | max_timestamp          | int64  | ms; largest of the records', or the append time                  |
| 43 | producer_id            | int64  | -1 where not idempotent                                          |
| 51 | producer_epoch         | int16  | -1 where not idempotent                                          |
| 53 | base_sequence          | int32  | sequence number of the first record, -1 where not idempotent     |
| 57 | records_count          | int32  | records in the batch; fewer than offsets once it was compacted   |
| 61 | records                |        | compressed as one block where a codec is set                     |

Attributes: bits 0..2 codec; 3 timestamp type (0 CreateTime, 1 LogAppendTime: every record's timestamp is then
max_timestamp); 4 transactional; 5 control batch; 6 delete horizon (base_timestamp is then the time after
which compaction may drop the tombstones, KIP-534; deltas count from it all the same).

The leader epoch and the base offset lie before the checksum so that a leader may set them without reading
the rest. A record is, in varints (v) and varlongs (vl) of `varint.py`:

    length v · attributes int8 (unused) · timestamp_delta vl · offset_delta v · key_length v (-1 null) · key ·
    value_length v (-1 null) · value · headers_count v · headers_count × (key_length v · key UTF-8 ·
    value_length v (-1 null) · value)

A header's key is never null. `length` counts the bytes after itself.

A log that a crash cut off ends within a batch; one that a disk damaged fails the checksum. Readers stop at
the first (`iter_headers`) and raise on the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from kafkalog.records import compression
from kafkalog.records.checksum import crc32c
from kafkalog.records.compression import Buffer, Codec
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)
from kafkalog.records.varint import append_varint, int64, read_varint, read_varlong

LOG_OVERHEAD = 12
"""Bytes of base_offset and batch_length, which batch_length does not count."""
HEADER_SIZE = 61
MAGIC = 2
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
MAX_TIMESTAMP_AT = 35
PRODUCER_AT = 43

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
NO_TIMESTAMP_TYPE_FLAG = 0x4000
"""Marks batches that were made in memory of messages of format v0, which have no timestamps (`convert.py`).

Kafka's format leaves the bit unused. A reader believes it only in batches that this process converted.
"""

MIN_RECORD_SIZE = 7
"""The smallest record, its length byte included: six one-byte fields."""

HEADER = Struct(">qiibIhiqqqhii")
"""The header, in the order of `BatchHeader`'s fields."""
_PREFIX = Struct(">qiib")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_PRODUCER = Struct(">qhi")


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in their order on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record (they wrap from 2**31 - 1 to 0), -1 without an idempotent producer."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """The codec.

        Raises:
            UnsupportedCompressionTypeError: The code is one of 5..7.
        """
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            code = self.attributes & CODEC_MASK
            raise UnsupportedCompressionTypeError(f"unknown compression type {code}") from None

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def delete_horizon(self) -> int | None:
        """Time in ms after which compaction may drop the batch's tombstones; None where it has no delete horizon."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


class Record(NamedTuple):
    """One record: absolute offset, timestamp in ms, and what the producer wrote."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def check_magic(magic: int) -> None:
    """Check that `magic` is this module's.

    Raises:
        UnsupportedMagicError: It is another.
    """
    if magic != MAGIC:
        if magic in (0, 1):
            raise UnsupportedMagicError(
                f"message format v{magic}, from before Kafka 0.11, where record batch v2 is read; copy the topic into "
                "a new one with a producer of 0.11 or later (MirrorMaker does)"
            )
        raise UnsupportedMagicError(f"record batch of unknown magic {magic}")


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at `pos`; only its 61 bytes need be in the buffer.

    Raises:
        CorruptRecordError: Fewer than 61 bytes are left, or batch_length is less than a header's.
        UnsupportedMagicError: The batch is of another format.
    """
    available = len(buf) - pos
    if available > MAGIC_AT:
        _check_prefix(buf, pos)
    if available < HEADER_SIZE or pos < 0:
        raise CorruptRecordError(f"{available} bytes where a batch header of {HEADER_SIZE} should be")
    return BatchHeader._make(HEADER.unpack_from(buf, pos))


def _check_prefix(buf: Buffer, pos: int) -> int:
    """Return the size of the batch at `pos`; check its magic and length."""
    _, batch_length, _, magic = _PREFIX.unpack_from(buf, pos)
    if magic != MAGIC:
        check_magic(magic)
    if batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecordError(f"batch length {batch_length} is less than a header's")
    return LOG_OVERHEAD + int(batch_length)


def iter_headers(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of every whole batch in `buf[pos:end]`; leave out an incomplete one at the end.

    Checksums are not verified.

    Raises:
        CorruptRecordError: A batch_length is less than a header's.
        UnsupportedMagicError: A batch is of another format.
    """
    end = len(buf) if end is None else min(end, len(buf))
    while end - pos > MAGIC_AT:
        size = _check_prefix(buf, pos)
        if size > end - pos:
            return
        yield pos, BatchHeader._make(HEADER.unpack_from(buf, pos))
        pos += size


def verify_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Check that the whole batch is there and its checksum is the stated one.

    Raises:
        CorruptRecordError: The batch is cut off, or its checksum is another.
    """
    size = LOG_OVERHEAD + header.batch_length
    if pos + size > len(buf):
        raise CorruptRecordError(f"batch of {size} bytes of which {len(buf) - pos} are there")
    computed = crc32c(memoryview(buf)[pos + ATTRIBUTES_AT : pos + size])
    if computed != header.crc:
        raise CorruptRecordError(
            f"batch at offset {header.base_offset}: CRC {computed:#010x}, stored {header.crc:#010x}"
        )


def assign_offsets(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and partition leader epoch in place; the checksum does not cover them."""
    _INT64.pack_into(buf, pos, base_offset)
    _INT32.pack_into(buf, pos + LOG_OVERHEAD, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Change the batch to LogAppendTime in place: attributes, max_timestamp, checksum."""
    _set_max_timestamp(buf, pos, timestamp_ms, LOG_APPEND_TIME_FLAG)


def set_create_time(buf: bytearray | memoryview, pos: int, max_timestamp: int) -> None:
    """Change the batch to CreateTime with the given largest timestamp in place: attributes, max_timestamp, checksum."""
    _set_max_timestamp(buf, pos, max_timestamp, 0)


def set_producer(
    buf: bytearray | memoryview,
    pos: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    is_transactional: bool = False,
) -> None:
    """Set the producer's id, epoch and sequence, and the transactional flag, of the whole batch at `pos`; in place.

    The checksum is computed anew.
    """
    (attributes,) = _INT16.unpack_from(buf, pos + ATTRIBUTES_AT)
    flag = TRANSACTIONAL_FLAG if is_transactional else 0
    _INT16.pack_into(buf, pos + ATTRIBUTES_AT, attributes & ~TRANSACTIONAL_FLAG | flag)
    _PRODUCER.pack_into(buf, pos + PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    (batch_length,) = _INT32.unpack_from(buf, pos + 8)
    with memoryview(buf) as view, view[pos + ATTRIBUTES_AT : pos + LOG_OVERHEAD + batch_length] as covered:
        _UINT32.pack_into(buf, pos + CRC_AT, crc32c(covered))


def _set_max_timestamp(buf: bytearray | memoryview, pos: int, max_timestamp: int, flag: int) -> None:
    (attributes,) = _INT16.unpack_from(buf, pos + ATTRIBUTES_AT)
    (batch_length,) = _INT32.unpack_from(buf, pos + 8)
    _INT16.pack_into(buf, pos + ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME_FLAG | flag)
    _INT64.pack_into(buf, pos + MAX_TIMESTAMP_AT, max_timestamp)
    with memoryview(buf) as view, view[pos + ATTRIBUTES_AT : pos + LOG_OVERHEAD + batch_length] as covered:
        _UINT32.pack_into(buf, pos + CRC_AT, crc32c(covered))


def pack_header(header: BatchHeader, records: Buffer) -> bytearray:
    """Return a batch of `header` and the (compressed) `records`, with batch_length, magic and crc filled in."""
    batch = bytearray(HEADER_SIZE)
    batch += records
    return seal_batch(header, batch)


def seal_batch(header: BatchHeader, batch: bytearray) -> bytearray:
    """Fill in the header at the start of `batch`, before its records, as `pack_header` does."""
    batch_length = len(batch) - LOG_OVERHEAD
    if batch_length > 0x7FFFFFFF:
        raise InvalidRecordError("batch of more than 2 GiB")
    HEADER.pack_into(batch, 0, *header)
    _INT32.pack_into(batch, 8, batch_length)
    batch[MAGIC_AT] = MAGIC
    with memoryview(batch) as view, view[ATTRIBUTES_AT:] as covered:
        crc = crc32c(covered)
    _UINT32.pack_into(batch, CRC_AT, crc)
    return batch


def _append_bytes(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)
    else:
        append_varint(out, len(data))
        out += data


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytearray:
    body = bytearray(1)
    append_varint(body, int64(record.timestamp - base_timestamp))
    append_varint(body, record.offset - base_offset)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    append_varint(body, len(record.headers))
    for key, value in record.headers:
        _append_bytes(body, key.encode())
        _append_bytes(body, value)
    return body


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time: bool = False,
) -> bytearray:
    """Encode `records` as one batch; their offsets are absolute, at least `base_offset`, and increasing.

    Timestamps are ms; with `log_append_time` the largest of them becomes every record's. Without records the batch is
    empty, as compaction leaves it behind.

    Raises:
        InvalidRecordError: Offsets do not increase or do not fit.
    """
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    body = bytearray()
    previous = base_offset - 1
    for record in records:
        if not previous < record.offset <= base_offset + 0x7FFFFFFF:
            raise InvalidRecordError(f"offset {record.offset} after {previous} in a batch from {base_offset}")
        previous = record.offset
        encoded = _encode_record(record, base_offset, base_timestamp)
        append_varint(body, len(encoded))
        body += encoded
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=(
            int(codec)
            | (LOG_APPEND_TIME_FLAG if log_append_time else 0)
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
        ),
        last_offset_delta=max(previous - base_offset, 0),
        base_timestamp=base_timestamp,
        max_timestamp=max((record.timestamp for record in records), default=NO_TIMESTAMP),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    return pack_header(header, compression.compress(codec, body, level))


def records_section(
    buf: Buffer, pos: int, header: BatchHeader, max_size: int = compression.DEFAULT_MAX_SIZE
) -> tuple[Buffer, int, int]:
    """Return the batch's records uncompressed: a buffer, and the start and end of the records in it.

    The batch must be whole (`verify_crc`).

    Raises:
        RecordTooLargeError, CorruptRecordError, UnsupportedCompressionTypeError: `compression.decompress` raises them.
    """
    start, end = pos + HEADER_SIZE, pos + LOG_OVERHEAD + header.batch_length
    if not header.attributes & CODEC_MASK or start == end:
        return buf, start, end
    section = compression.decompress(header.codec, memoryview(buf)[start:end], max_size)
    return section, 0, len(section)


def decode_batch(
    buf: Buffer, pos: int = 0, *, check_crc: bool = True, max_size: int = compression.DEFAULT_MAX_SIZE
) -> tuple[BatchHeader, list[Record]]:
    """Return header and records of the batch at `pos`, control records too; the offsets may have gaps (compaction).

    `max_size` bounds the decompressed bytes.

    Raises:
        RecordsError: The batch cannot be decoded; any of its subclasses.
    """
    header = read_header(buf, pos)
    if check_crc:
        verify_crc(buf, pos, header)
    elif pos + header.size > len(buf):
        raise CorruptRecordError(f"batch of {header.size} bytes of which {len(buf) - pos} are there")
    section, at, end = records_section(buf, pos, header, max_size)
    return header, decode_records(section, at, end, header)


def decode_records(section: Buffer, at: int, end: int, header: BatchHeader) -> list[Record]:
    """Return the records of a batch with this header, from what `records_section` has returned.

    Raises:
        CorruptRecordError, InvalidRecordError: The records contradict themselves, or the header.
    """
    if not 0 <= header.records_count * MIN_RECORD_SIZE <= end - at:
        raise InvalidRecordError(f"{header.records_count} records cannot be in {end - at} bytes")
    records = []
    previous = -1
    for _ in range(header.records_count):
        record, at = _read_record(section, at, end, header)
        delta = record.offset - header.base_offset
        if not previous < delta <= header.last_offset_delta:
            raise InvalidRecordError(f"offset delta {delta} after {previous}, of {header.last_offset_delta}")
        previous = delta
        records.append(record)
    if at != end:
        raise InvalidRecordError(f"{end - at} bytes after the last of {header.records_count} records")
    return records


def _read_bytes(buf: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(buf, at, end)
    if length < 0:
        if length != -1:
            raise CorruptRecordError(f"length {length}")
        return None, at
    if length > end - at:
        raise CorruptRecordError(f"{length} bytes where {end - at} are left")
    return bytes(buf[at : at + length]), at + length


def _read_record(buf: Buffer, at: int, end: int, header: BatchHeader) -> tuple[Record, int]:
    length, at = read_varint(buf, at, end)
    if not MIN_RECORD_SIZE - 1 <= length <= end - at:
        raise CorruptRecordError(f"record of {length} bytes where {end - at} are left")
    end = at + length
    timestamp_delta, at = read_varlong(buf, at + 1, end)
    offset_delta, at = read_varint(buf, at, end)
    key, at = _read_bytes(buf, at, end)
    value, at = _read_bytes(buf, at, end)
    count, at = read_varint(buf, at, end)
    # A header takes two bytes at least.
    if not 0 <= 2 * count <= end - at:
        raise InvalidRecordError(f"{count} headers in {end - at} bytes")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(buf, at, end)
        if name is None:
            raise InvalidRecordError("header without a key")
        content, at = _read_bytes(buf, at, end)
        headers.append((name.decode(errors="replace"), content))
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes after a record's last field")
    timestamp = header.max_timestamp if header.is_log_append_time else int64(header.base_timestamp + timestamp_delta)
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), at
