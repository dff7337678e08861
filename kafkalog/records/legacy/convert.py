"""From one message format to another, in memory.

- `upgraded`: v0 and v1 to record batches v2, for readers of today: the kernels know v2 alone;
- `down_convert`: v2 (and v1) to v1 or v0, for consumers that ask with Fetch 0 to 3 (Kafka's RecordsUtil).

What a format has no place for is lost on the way down: headers and producers, and in v0 timestamps. Control batches are
left out. On the way up nothing is lost; that records of v0 have no timestamp type is told by a flag of our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog.records import any_format
from kafkalog.records.any_format import LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, decode_any, iter_any_headers
from kafkalog.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER,
    MAGIC,
    NO_TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Record,
    encode_batch,
    iter_headers,
    read_header,
    seal_batch,
    verify_crc,
)
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Buffer, Codec
from kafkalog.records.errors import CorruptRecordError, UnsupportedCompressionTypeError
from kafkalog.records.legacy.message_set import decode_entry, encode_message_set, iter_entries

RUN_RECORDS = 4096
"""Messages without compression stand alone; so many of them share a batch of v2 at most."""


class Upgraded(NamedTuple):
    """One record batch v2 of what were entries of v0 or v1."""

    records: bytearray
    timestamp_type: int
    """-1 where the records are of v0, which has no timestamps."""
    behind: int
    """The offset behind the last entry."""


def upgraded(
    buf: Buffer,
    pos: int = 0,
    end: int | None = None,
    *,
    check_crc: bool = True,
    max_size: int = DEFAULT_MAX_SIZE,
) -> Iterator[Upgraded]:
    """The entries of v0 and v1 in `buf[pos:end]` as uncompressed batches of v2, offsets and timestamps as they are.

    A wrapper makes one batch; messages that stand alone share one, where their timestamp types allow it. An incomplete
    entry at the end is left out. Raises any `RecordsError`.
    """
    run: list[Record] = []
    key: tuple[int, int] = (0, 0)
    for at, header in iter_entries(buf, pos, end):
        records = decode_entry(buf, at, header, check_crc=check_crc, max_size=max_size)
        kind = any_format.timestamp_type(header)
        # Of LogAppendTime a batch has but one timestamp.
        wanted = kind, header.max_timestamp if kind == LOG_APPEND_TIME else 0
        alone = header.records_count == 1
        if run and (not alone or wanted != key or len(run) >= RUN_RECORDS or not _follows(run, records[0])):
            yield _batch(run, key[0], run[-1].offset + 1)
            run = []
        if alone:
            run += records
            key = wanted
        else:
            any_format.spanning(header, records)
            yield _batch(records, kind, header.next_offset)
    if run:
        yield _batch(run, key[0], run[-1].offset + 1)


def _follows(run: list[Record], record: Record) -> bool:
    return run[-1].offset < record.offset <= run[0].offset + 0x7FFFFFFF


def _batch(records: list[Record], kind: int, behind: int) -> Upgraded:
    first = records[0].offset
    batch = encode_batch(records, base_offset=first, log_append_time=kind == LOG_APPEND_TIME)
    if kind == NO_TIMESTAMP_TYPE:
        header = read_header(batch)
        seal_batch(header._replace(attributes=header.attributes | NO_TIMESTAMP_TYPE_FLAG), batch)
    return Upgraded(batch, kind, behind)


def without_private_flag(batches: Buffer) -> bytes:
    """Copy batches of v2 that stand beside converted ones, so that `NO_TIMESTAMP_TYPE_FLAG` is of the latter alone.

    A batch with a wrong CRC keeps it.
    """
    copy = bytearray(batches)
    for at, header in iter_headers(batches):
        if not header.attributes & NO_TIMESTAMP_TYPE_FLAG:
            continue
        batch = copy[at : at + header.size]
        cleared = header._replace(attributes=header.attributes & ~NO_TIMESTAMP_TYPE_FLAG)
        try:
            verify_crc(batch, 0, header)
            seal_batch(cleared, batch)
        except CorruptRecordError:
            HEADER.pack_into(batch, 0, *cleared)
        copy[at : at + header.size] = batch
    return bytes(copy)


class Converted(NamedTuple):
    """The records of a fetch, converted to an older format."""

    records: bytearray
    converted: int
    """Records that were converted."""
    next_offset: int
    """The offset behind the last batch that was looked at."""


def down_convert(
    buf: Buffer, magic: int, first_offset: int, *, limit: int, max_size: int = DEFAULT_MAX_SIZE
) -> Converted:
    """The whole batches of `buf` with nothing above format `magic` (0 or 1), in at most `limit` bytes, or one batch.

    Codecs stay as they are. Of batches without compression records below `first_offset` are left out, as they
    become messages of their own, which some consumers take as they come; so is a compressed batch that ends below it.
    `UnsupportedCompressionTypeError` where the first batch is of zstd; one behind others ends the result.
    """
    out = bytearray()
    count = 0
    next_offset = first_offset
    for pos, header in iter_any_headers(buf):
        if header.magic == MAGIC and header.attributes & CONTROL_FLAG:
            next_offset = max(next_offset, header.next_offset)
            continue
        converted = 0
        if header.magic <= magic:
            piece: Buffer = memoryview(buf)[pos : pos + header.size]
        else:
            if header.attributes & CODEC_MASK == Codec.ZSTD:
                if out:
                    break
                raise UnsupportedCompressionTypeError("batches compressed with zstd cannot be converted to v0 or v1")
            records = _wanted(decode_any(buf, pos, max_size=max_size)[1], header, first_offset)
            converted = len(records)
            append_time = header.max_timestamp if header.is_log_append_time else None
            piece = encode_message_set(records, magic=magic, codec=header.codec, log_append_time=append_time)
        if out and len(out) + len(piece) > limit:
            break
        out += piece
        count += converted
        next_offset = max(next_offset, header.next_offset)
    return Converted(out, count, next_offset)


def _wanted(records: list[Record], header: BatchHeader, first_offset: int) -> list[Record]:
    if records and records[-1].offset < first_offset:
        return []
    if header.attributes & CODEC_MASK or not records or records[0].offset >= first_offset:
        return records
    return [record for record in records if record.offset >= first_offset]


def needs_conversion(buf: Buffer, magic: int) -> bool:
    """Return whether a whole batch of `buf` is of a later format than `magic`."""
    return any(header.magic > magic for _, header in iter_any_headers(buf))
