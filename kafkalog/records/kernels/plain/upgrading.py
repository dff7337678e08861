"""The upgrading kernel's twin in plain Python: for small sets, and as the oracle of the compiled one."""

from __future__ import annotations

import zlib
from struct import Struct

from kafkalog.records.batch import CODEC_MASK, LOG_OVERHEAD, MAGIC_AT, NO_TIMESTAMP
from kafkalog.records.compression import Buffer
from kafkalog.records.kernels.abi import upgrade_layout as u
from kafkalog.records.legacy.message_set import MIN_SIZES
from kafkalog.records.varint import append_varint

_HEADS = (Struct(">qiIbbi"), Struct(">qiIbbqi"))
"""The shortest message, up to the length of its key."""
_INT32 = Struct(">i")
_ONE_BYTE = 64
"""Lengths below it, and other non-negative numbers below it, take one byte as a varint."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def upgrade_messages(data: Buffer, magic: int, max_size: int, body: bytearray, words: list[int]) -> bool:
    """Append the messages in `data` to `body` and fill `words` as the compiled kernel does; return if all are valid."""
    head, least = _HEADS[magic], MIN_SIZES[magic]
    unpack, size_at, crc32 = head.unpack_from, _INT32.unpack_from, zlib.crc32
    base = timestamp = earliest = latest = NO_TIMESTAMP
    count = null_keys = pos = offset = 0
    end = len(data)
    with memoryview(data) as view:
        while pos < end:
            if end - pos < LOG_OVERHEAD + least or len(body) > max_size:
                return False
            if magic:
                offset, size, crc, found, attributes, timestamp, key_size = unpack(view, pos)
            else:
                offset, size, crc, found, attributes, key_size = unpack(view, pos)
            after = pos + LOG_OVERHEAD + size
            if found != magic or attributes & CODEC_MASK or size < least or after > end:
                return False
            if crc32(view[pos + MAGIC_AT : after]) != crc:
                return False
            if count == 0:
                base = latest = timestamp
            elif timestamp > latest:
                latest = timestamp
            if timestamp != NO_TIMESTAMP and (earliest == NO_TIMESTAMP or timestamp < earliest):
                earliest = timestamp
            if not _LEAST <= timestamp - base <= _MOST:
                return False
            record = bytearray(1)
            append_varint(record, timestamp - base) if timestamp != base else record.append(0)
            append_varint(record, count)
            at = pos + head.size
            if key_size < 0:
                null_keys += 1
                record.append(1)
            else:
                # The value's length must be in the message, too.
                if key_size > after - at - 4:
                    return False
                append_varint(record, key_size)
                record += view[at : at + key_size]
                at += key_size
            (value_size,) = size_at(view, at)
            if value_size < 0:
                record.append(1)
            else:
                at += 4
                if value_size > after - at:
                    return False
                append_varint(record, value_size)
                record += view[at : at + value_size]
            record.append(0)
            size = len(record)
            append_varint(body, size) if size >= _ONE_BYTE else body.append(size << 1)
            body += record
            count += 1
            pos = after
    words[u.SIZE], words[u.COUNT], words[u.NULL_KEYS], words[u.LAST_OFFSET] = len(body), count, null_keys, offset
    words[u.FIRST_TIMESTAMP], words[u.LATEST], words[u.EARLIEST] = base, latest, earliest
    return True
