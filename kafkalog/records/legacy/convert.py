"""Conversion between message formats, in memory.

- `upgraded`: v0 and v1 to record batches v2, for today's readers: the kernels support v2 only.
- `down_convert`: v2 (and v1) to v1 or v0, for consumers that use Fetch 0 to 3 (Kafka's RecordsUtil).

On the way down, fields that the older format lacks are lost: headers and producers, and in v0 timestamps. Control
batches are left out. On the way up nothing is lost; a private flag marks records of v0, which have no timestamp type.
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
"""The most messages without compression that share one batch of v2."""


class Upgraded(NamedTuple):
    """One record batch v2, made of one or more entries of v0 or v1."""

    records: bytearray
    timestamp_type: int
    """-1 where the records are of v0, which has no timestamps."""
    behind: int
    """The offset after the last entry."""


def upgraded(
    buf: Buffer,
    pos: int = 0,
    end: int | None = None,
    *,
    check_crc: bool = True,
    max_size: int = DEFAULT_MAX_SIZE,
) -> Iterator[Upgraded]:
    """Return the entries of v0 and v1 in `buf[pos:end]` as uncompressed batches of v2; offsets and timestamps are kept.

    A wrapper makes one batch. Messages outside of wrappers share one, where their timestamp types allow it. An
    incomplete entry at the end is left out.

    Raises:
        RecordsError: An entry cannot be decoded; any of its subclasses.
    """
    run: list[Record] = []
    key: tuple[int, int] = (0, 0)
    for at, header in iter_entries(buf, pos, end):
        records = decode_entry(buf, at, header, check_crc=check_crc, max_size=max_size)
        kind = any_format.timestamp_type(header)
        # With LogAppendTime a batch has one timestamp for all records, so messages with different ones need batches of
        # their own.
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
    """Copy batches of v2 and clear `NO_TIMESTAMP_TYPE_FLAG` in them, so that only converted batches have it.

    A batch with a wrong CRC is left as it is.
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
    """Number of records converted."""
    next_offset: int
    """The offset after the last batch that was read."""


def down_convert(
    buf: Buffer, magic: int, first_offset: int, *, limit: int, max_size: int = DEFAULT_MAX_SIZE
) -> Converted:
    """Convert the whole batches of `buf` to format `magic` (0 or 1) at most; return up to `limit` bytes, or one batch.

    Batches keep their codec. Without compression records become messages of their own, so records below `first_offset`
    are left out: some consumers take every message they are given. A compressed batch that ends below it is left out
    too. The result ends before a batch that is compressed with zstd and is not the first.

    Raises:
        UnsupportedCompressionTypeError: The first batch is compressed with zstd.
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
