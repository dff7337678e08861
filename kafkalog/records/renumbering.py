"""Renumber the records of a batch v2 without decoding them: leave out the first ones, close gaps, fix their times.

A record begins with its length and the differences of its time and offset. Only these are read and written anew; key,
value and headers are copied. This takes a third of the time of decoding and encoding.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.records import compression
from kafkalog.records.batch import (
    CODEC_MASK,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    pack_header,
    records_section,
)
from kafkalog.records.compression import Buffer
from kafkalog.records.errors import CorruptRecordError, InvalidRecordError
from kafkalog.records.varint import append_varint, int64, read_varint, read_varlong

_INT64_END = 1 << 63
MIN_LENGTH = 6
"""The least length that a record states: its attributes, and five varints of a byte each."""
_AT_ONE_TIME = b"\0\0"
"""The attributes of a record, which no release uses, and a difference of time of 0."""


class Renumbered(NamedTuple):
    """A batch without a producer, and the offsets that its records had."""

    data: bytearray
    stretches: tuple[tuple[int, int], ...]
    """For each stretch of offsets without gaps the first one, and the count."""


def renumber(
    buf: Buffer,
    pos: int,
    header: BatchHeader,
    first: int,
    *,
    keep_offsets: bool = False,
    max_size: int = compression.DEFAULT_MAX_SIZE,
) -> Renumbered | None:
    """Return the records from the offset `first` on as a batch, with the same codec; None if there are none.

    Their offsets begin with 0 and have no gaps, or stay with `keep_offsets`. Records of a batch with LogAppendTime get
    its time as CreateTime. The batch must be whole (`verify_crc`), of the format v2, and expand to at most `max_size`
    bytes.

    Raises:
        RecordsError: The batch contradicts itself; any of its subclasses.
    """
    section, at, end = records_section(buf, pos, header, max_size)
    data = bytes(section[at:end])
    try:
        found = _rewrite(data, header, first, keep_offsets)
    except IndexError:
        raise CorruptRecordError("a record is cut off by the end of its batch") from None
    if found is None:
        return None
    is_stamped = header.is_log_append_time
    made = BatchHeader(
        base_offset=found.stretches[0][0] if keep_offsets else 0,
        batch_length=0,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=header.attributes & CODEC_MASK,
        last_offset_delta=found.last_delta,
        base_timestamp=header.max_timestamp if is_stamped else header.base_timestamp,
        max_timestamp=header.max_timestamp if is_stamped else max(found.latest, NO_TIMESTAMP),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=sum(count for _, count in found.stretches),
    )
    records = compression.compress(header.codec, b"".join(found.parts), None)
    return Renumbered(pack_header(made, records), tuple(found.stretches))


class _Rewritten(NamedTuple):
    parts: list[bytes]
    """The bytes of the new records."""
    latest: int
    """The largest timestamp of a record; only without LogAppendTime."""
    stretches: list[tuple[int, int]]
    last_delta: int


def _rewrite(data: bytes, header: BatchHeader, first: int, keep_offsets: bool) -> _Rewritten | None:
    parts: list[bytes] = []
    # Of each stretch, the difference of its first offset, and the number of records before it.
    begins: list[tuple[int, int]] = []
    small, is_stamped, most = _SMALL, header.is_log_append_time, header.last_offset_delta
    wanted, base = first - header.base_offset, header.base_timestamp
    latest, at, end = None, 0, len(data)
    number, previous, count = -1, -1, 0
    for _ in range(header.records_count):
        raw = data[at]
        if raw < 0x80 and not raw & 1:
            length, at = raw >> 1, at + 1
        else:
            length, at = read_varint(data, at, end)
        stop = at + length
        if length < MIN_LENGTH or stop > end:
            raise InvalidRecordError(f"a record of {length} bytes where {end - at} are left")
        raw = data[at + 1]
        if raw < 0x80:
            time, offset_at = (raw >> 1) ^ -(raw & 1), at + 2
        else:
            time, offset_at = read_varlong(data, at + 1, stop)
        raw, rest_at = data[offset_at], offset_at + 1
        if raw < 0x80 and not raw & 1:
            delta = raw >> 1
        else:
            delta, rest_at = read_varint(data, offset_at, stop)
        if not previous < delta <= most or rest_at > stop:
            raise InvalidRecordError(f"offset delta {delta} after {previous}, of {most}")
        if delta >= wanted:
            if not begins or delta != previous + 1:
                begins.append((delta, count))
            number = delta - begins[0][0] if keep_offsets else count
            count += 1
            time += base
            if not -_INT64_END <= time < _INT64_END:
                time = int64(time)
            if latest is None or time > latest:
                latest = time
            before = _AT_ONE_TIME if is_stamped else data[at:offset_at]
            told = small[number] if number < _KNOWN else _varint(number)
            size = len(before) + len(told) + stop - rest_at
            parts += (small[size] if size < _KNOWN else _varint(size), before, told, data[rest_at:stop])
        previous, at = delta, stop
    if at != end:
        raise InvalidRecordError(f"{end - at} bytes after the last of {header.records_count} records")
    if latest is None:
        return None
    return _Rewritten(parts, latest, _stretches(header.base_offset, begins, count), number)


def _stretches(base_offset: int, begins: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    ends = [before for _, before in begins[1:]] + [count]
    return [(base_offset + delta, end - before) for (delta, before), end in zip(begins, ends, strict=True)]


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


_KNOWN = 1 << 13
_SMALL = tuple(_varint(value) for value in range(_KNOWN))
"""The varints of the numbers that take one or two bytes."""
