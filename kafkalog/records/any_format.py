"""The batches of a log in any format: batches of v2, or entries of message sets v0 and v1 (`legacy/message_set.py`).

All formats begin with an offset and a length, and have the magic at the same place. An entry is given a `BatchHeader`,
so that code that walks over a log sees batches only. `header.magic` tells the format. The formats differ:

- A wrapper is a compressed message of v0 or v1. Its first offset and its count are not known before it is decompressed:
  `base_offset` is the last offset, and `records_count` is `message_set.UNKNOWN_COUNT`.
- v0 and v1 have no leader epoch and no producer (-1), no control batches and no headers. v0 has no timestamps (-1).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.records import batch
from kafkalog.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, BatchHeader, Record
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Buffer
from kafkalog.records.errors import CorruptRecordError
from kafkalog.records.legacy import message_set
from kafkalog.records.legacy.message_set import ENTRY_OVERHEADS, MIN_ENTRY_SIZE

HEADER_SIZES = (*ENTRY_OVERHEADS, HEADER_SIZE)
"""The least bytes of a whole batch, by magic; as many as `read_any_header` needs."""
OLD_MAGICS = (message_set.MAGIC_V0, message_set.MAGIC_V1)

NO_TIMESTAMP_TYPE = -1
CREATE_TIME = 0
LOG_APPEND_TIME = 1


def read_any_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at `pos`, of any format; `buf` must have the bytes that `HEADER_SIZES` states.

    Raises:
        CorruptRecordError: Fewer bytes are left than the header has, or a length is impossible.
        UnsupportedMagicError: The format is unknown.
    """
    if len(buf) - pos > MAGIC_AT and buf[pos + MAGIC_AT] < MAGIC:
        return message_set.read_entry(buf, pos)
    return batch.read_header(buf, pos)


def header_is_there(buf: Buffer, pos: int, end: int) -> bool:
    """Return whether `buf[pos:end]` has the bytes that `read_any_header` needs."""
    left = end - pos
    if left >= HEADER_SIZE:
        return True
    return left >= MIN_ENTRY_SIZE and left >= HEADER_SIZES[min(buf[pos + MAGIC_AT], MAGIC)]


def iter_any_headers(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of every whole batch in `buf[pos:end]`; leave out an incomplete one at the end.

    Checksums are not verified.

    Raises:
        CorruptRecordError: A length is impossible.
        UnsupportedMagicError: The format is unknown.
    """
    end = len(buf) if end is None else min(end, len(buf))
    while end - pos >= MIN_ENTRY_SIZE:
        if buf[pos + MAGIC_AT] >= MAGIC:
            if end - pos < HEADER_SIZE:
                batch.check_magic(buf[pos + MAGIC_AT])
                return
            header = batch.read_header(buf, pos)
        elif header_is_there(buf, pos, end):
            header = message_set.read_entry(buf, pos)
        else:
            return
        size = LOG_OVERHEAD + header.batch_length
        if size > end - pos:
            return
        yield pos, header
        pos += size


def verify_any_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Check that the whole batch is there and its checksum is the stated one.

    Raises:
        CorruptRecordError: The batch is cut off, or its checksum is another.
    """
    if header.magic < MAGIC:
        message_set.verify_entry(buf, pos, header)
    else:
        batch.verify_crc(buf, pos, header)


def decode_any(
    buf: Buffer, pos: int = 0, *, check_crc: bool = True, max_size: int = DEFAULT_MAX_SIZE
) -> tuple[BatchHeader, list[Record]]:
    """Return header and records of the batch at `pos`; a wrapper's header then has its first offset and count, too.

    Raises:
        RecordsError: The batch cannot be decoded; any of its subclasses.
    """
    header = read_any_header(buf, pos)
    if header.magic == MAGIC:
        return batch.decode_batch(buf, pos, check_crc=check_crc, max_size=max_size)
    records = message_set.decode_entry(buf, pos, header, check_crc=check_crc, max_size=max_size)
    return spanning(header, records), records


def spanning(header: BatchHeader, records: list[Record]) -> BatchHeader:
    """Return an entry's header with the first offset and the count of the records in it.

    Raises:
        CorruptRecordError: The offsets of the records contradict the entry's own.
    """
    first = records[0].offset
    if first < 0 or not 0 <= header.base_offset - first <= 0x7FFFFFFF:
        raise CorruptRecordError(f"message at offset {header.base_offset} has offsets from {first} on within")
    return header._replace(base_offset=first, last_offset_delta=header.base_offset - first, records_count=len(records))


def timestamp_type(header: BatchHeader) -> int:
    """Return the id of Kafka's TimestampType, as Spark shows it: -1 (v0 has none), 0 CreateTime, 1 LogAppendTime."""
    return NO_TIMESTAMP_TYPE if header.magic == message_set.MAGIC_V0 else int(header.is_log_append_time)
