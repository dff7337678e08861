"""The messages of a compressed set of v0 or v1 as the records of one batch of v2, in one pass over the bytes.

A wrapper of 31 KB can hold half a million messages, and making each one a record before it is written again takes
seconds. What is not sound in every message is left to `message_set.decode_entry`, which tells what is wrong.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import NamedTuple

from .batch import CODEC_MASK, LOG_OVERHEAD, MAGIC_AT, NO_TIMESTAMP, BatchHeader
from .compression import Buffer
from .message_set import MIN_SIZES
from .varint import append_varint

# A message up to the length of its key.
_HEADS = (Struct(">qiIbbi"), Struct(">qiIbbqi"))
_INT32 = Struct(">i")
_ONE_BYTE = 64
"""Lengths below it, and numbers below it that are not negative, take a byte as a varint."""


class Section(NamedTuple):
    """Records of v2, uncompressed, whose offsets count from 0."""

    body: bytearray
    records_count: int
    base_timestamp: int
    max_timestamp: int
    earliest: int
    """The least timestamp of its records that is one; -1 where there is none."""
    null_keys: int


def upgraded_section(wrapper: BatchHeader, data: Buffer, *, max_size: int) -> Section | None:
    """The records of the message set `data`, which was in `wrapper`, with CreateTime.

    None where a message is not whole, its checksum is wrong, it is compressed or of another format than the wrapper;
    where there is none; where the wrapper of v1 has an offset, not 0, before the last one within; and where the records
    would take more than `max_size` bytes.
    """
    magic = wrapper.magic
    head, least = _HEADS[magic], MIN_SIZES[magic]
    unpack, size_at, crc32 = head.unpack_from, _INT32.unpack_from, zlib.crc32
    body = bytearray()
    base = timestamp = earliest = latest = NO_TIMESTAMP
    count = null_keys = pos = offset = 0
    end = len(data)
    with memoryview(data) as view:
        while pos < end:
            if end - pos < LOG_OVERHEAD + least or len(body) > max_size:
                return None
            if magic:
                offset, size, crc, found, attributes, timestamp, key_size = unpack(view, pos)
            else:
                offset, size, crc, found, attributes, key_size = unpack(view, pos)
            after = pos + LOG_OVERHEAD + size
            if found != magic or attributes & CODEC_MASK or size < least or after > end:
                return None
            if crc32(view[pos + MAGIC_AT : after]) != crc:
                return None
            if count == 0:
                base = latest = timestamp
            elif timestamp > latest:
                latest = timestamp
            if timestamp != NO_TIMESTAMP and (earliest == NO_TIMESTAMP or timestamp < earliest):
                earliest = timestamp
            record = bytearray(1)
            append_varint(record, timestamp - base) if timestamp != base else record.append(0)
            append_varint(record, count)
            at = pos + head.size
            if key_size < 0:
                null_keys += 1
                record.append(1)
            else:
                # The value's length must be there, too.
                if key_size > after - at - 4:
                    return None
                append_varint(record, key_size)
                record += view[at : at + key_size]
                at += key_size
            (value_size,) = size_at(view, at)
            if value_size < 0:
                record.append(1)
            else:
                at += 4
                if value_size > after - at:
                    return None
                append_varint(record, value_size)
                record += view[at : at + value_size]
            record.append(0)
            size = len(record)
            append_varint(body, size) if size >= _ONE_BYTE else body.append(size << 1)
            body += record
            count += 1
            pos = after
    if magic and 0 != wrapper.base_offset < offset:
        return None
    return Section(body, count, base, latest, earliest, null_keys) if count else None
