"""Encode the records of a batch, many at a time: one join instead of a growing buffer."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.records.batch import (
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    pack_header,
)
from kafkalog.records.compression import Codec, compress
from kafkalog.records.varint import append_varint

Headers = Sequence[tuple[str, bytes | None]]

PLAIN_OVERHEAD = 16
"""The maximum of bytes besides its value in a record of less than 1 MiB, without key and headers, whose timestamp is of
the same day: three for its length, one for attributes, four and three for the deltas, one for the key, three for the
value's length, one for the headers."""
KEY_OVERHEAD = 5
TIMESTAMP_OVERHEAD = 6
"""The additional bytes of a timestamp that is far from the batch's first one."""
HEADER_OVERHEAD = 10
"""The maximum of bytes of a header's two lengths."""

_CACHED = 1 << 16


class _Varints(dict[int, bytes]):
    """Zigzag varints by value; small ones are kept."""

    def __missing__(self, value: int) -> bytes:
        out = bytearray()
        append_varint(out, value)
        data = bytes(out)
        if -_CACHED < value < _CACHED:
            self[value] = data
        return data


VARINT = _Varints()
_NULL = VARINT[-1]


def encode_values(values: Sequence[bytes | None], timestamps: Sequence[int]) -> bytes:
    """Encode records without keys and headers; `timestamps` are in ms, and deltas count from the first one."""
    base = timestamps[0]
    varint = VARINT
    parts: list[bytes] = []
    # The bytes around the offset delta depend on the value's length, the timestamp and the offset delta's size.
    around: dict[tuple[int, int, int], tuple[bytes, bytes]] = {}
    for index, (value, timestamp) in enumerate(zip(values, timestamps, strict=True)):
        if value is None:
            value = b""
            size = -1
        else:
            size = len(value)
        offset = varint[index]
        kind = (size, timestamp, len(offset))
        found = around.get(kind)
        if found is None:
            delta = varint[timestamp - base]
            after = _NULL + varint[size]
            length = 2 + len(delta) + len(offset) + len(after) + len(value)
            found = around[kind] = (varint[length] + b"\0" + delta, after)
        parts += (found[0], offset, found[1], value, b"\0")
    return b"".join(parts)


def encode_records(
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    headers: Sequence[Headers],
) -> bytes:
    """Encode records with keys and headers; the sequences have the same length."""
    base = timestamps[0]
    varint = VARINT
    parts: list[bytes] = []
    for index, (value, timestamp, key, heads) in enumerate(zip(values, timestamps, keys, headers, strict=True)):
        delta = varint[timestamp - base]
        offset = varint[index]
        length = 1 + len(delta) + len(offset)
        if key is None:
            key, key_size = b"", _NULL
        else:
            key_size = varint[len(key)]
        if value is None:
            value, value_size = b"", _NULL
        else:
            value_size = varint[len(value)]
        tail = _encode_headers(heads) if heads else b"\0"
        length += len(key_size) + len(key) + len(value_size) + len(value) + len(tail)
        parts += (varint[length], b"\0", delta, offset, key_size, key, value_size, value, tail)
    return b"".join(parts)


def _encode_headers(headers: Headers) -> bytes:
    parts = [VARINT[len(headers)]]
    for name, value in headers:
        key = name.encode()
        parts += (VARINT[len(key)], key)
        parts += (_NULL,) if value is None else (VARINT[len(value)], value)
    return b"".join(parts)


def build_batch(
    records: bytes,
    timestamps: Sequence[int],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytearray:
    """Build a whole batch from encoded `records` with one timestamp each."""
    count = len(timestamps)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=int(codec) | (TRANSACTIONAL_FLAG if is_transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=count,
    )
    return pack_header(header, compress(codec, records, level))
