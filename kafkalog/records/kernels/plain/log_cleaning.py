"""The kernels of log cleaning in plain Python: used where the compiled ones are missing, and as their oracle.

They are written from the format (`batch.py`) and Kafka's rules, not from the compiled twin, and for clarity rather than
speed. Signatures, arrays and results are the same; see `compiled/key_indexing.py` and `compiled/batch_filtering.py` for
what each does. But compressed batches are always left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkalog.records.batch import HEADER_SIZE, BatchHeader, pack_header, read_header, verify_crc
from kafkalog.records.errors import RecordsError
from kafkalog.records.kernels.abi import clean_layout as c
from kafkalog.records.varint import append_varint, int64, read_varint, read_varlong

_MASK = (1 << 64) - 1


def hash_bytes(data: bytes, key: int, key_more: int) -> tuple[int, int]:
    """Hash bytes with SipHash-2-4 of 128 bits; return two signed words. `key` and `key_more` are the secret's."""
    key, key_more = key & _MASK, key_more & _MASK
    v = [
        key ^ 0x736F6D6570736575,
        key_more ^ 0x646F72616E646F6D ^ 0xEE,
        key ^ 0x6C7967656E657261,
        key_more ^ 0x7465646279746573,
    ]

    def rotate(index: int, bits: int) -> None:
        v[index] = (v[index] << bits | v[index] >> (64 - bits)) & _MASK

    def mix(first: int, second: int, bits: int, turn: bool) -> None:
        v[first] = (v[first] + v[second]) & _MASK
        rotate(second, bits)
        v[second] ^= v[first]
        if turn:
            rotate(first, 32)

    def rounds(count: int) -> None:
        for _ in range(count):
            mix(0, 1, 13, True)
            mix(2, 3, 16, False)
            mix(0, 3, 21, False)
            mix(2, 1, 17, True)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return int64(first), int64(v[0] ^ v[1] ^ v[2] ^ v[3])


class _Record(NamedTuple):
    start: int
    end: int
    after_length: int
    timestamp_delta: int
    after_timestamp: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def _records(data: Any, at: int, end: int, count: int, last: int) -> Iterator[_Record]:
    """Return the records of data[at:end].

    Raises:
        CorruptRecordError, ValueError: The number or the order of the records is wrong, or a length is impossible.
    """
    previous = -1
    for _ in range(count):
        start = at
        length, body = read_varint(data, at, end)
        if not c.MIN_RECORD_LENGTH <= length <= end - body:
            raise ValueError("record length")
        stop = body + length
        timestamp_delta, after_timestamp = read_varlong(data, body + 1, stop)
        offset_delta, at = read_varint(data, after_timestamp, stop)
        key_length, at = read_varint(data, at, stop)
        if not -1 <= key_length <= stop - at:
            raise ValueError("key length")
        key = bytes(data[at : at + key_length]) if key_length >= 0 else None
        value_length, at = read_varint(data, at + max(key_length, 0), stop)
        if not -1 <= value_length <= stop - at:
            raise ValueError("value length")
        if not previous < offset_delta <= last:
            raise ValueError("offset delta")
        previous = offset_delta
        yield _Record(start, stop, body, timestamp_delta, after_timestamp, offset_delta, key, value_length < 0)
        at = stop
    if at != end:
        raise ValueError("bytes after the last record")


def find_key(cells: Any, m: Any, key: bytes) -> tuple[int, int, int]:
    """Return the index of the key's cell, or of the empty one that it would take, and the key's hash."""
    first, more = hash_bytes(key, int(m[c.KEY]), int(m[c.KEY_MORE]))
    slots = int(m[c.SLOTS])
    slot = ((first >> 32) & 0xFFFFFFFF) * slots >> 32
    while True:
        at = slot * c.CELL
        if not cells[at + c.NEXT_OFFSET] or (cells[at], cells[at + c.HASH_MORE]) == (first, more):
            return at, first, more
        slot = (slot + 1) % slots


def put_key(cells: Any, m: Any, key: bytes, offset: int) -> bool:
    """Store `offset` as the latest one of `key`; return False where the map is full."""
    if m[c.ENTRIES] >= m[c.CAPACITY]:
        return False
    at, first, more = find_key(cells, m, key)
    if not cells[at + c.NEXT_OFFSET]:
        cells[at], cells[at + c.HASH_MORE] = first, more
        m[c.ENTRIES] += 1
    cells[at + c.NEXT_OFFSET] = offset + 1
    return True


def index_records(data: Any, start: int, end: int, count: int, base_offset: int, last: int, cells: Any, m: Any) -> int:
    try:
        for record in _records(data, start, end, count, last):
            offset = base_offset + record.offset_delta
            key = record.key if offset >= m[c.START_OFFSET] else None
            if key is not None and not put_key(cells, m, key, offset):
                return c.FULL
            m[c.INDEXED_RECORDS] += 1
    except (RecordsError, ValueError):
        return c.BAD
    return c.DONE


def _ordinary(data: Any, pos: int, end: int) -> tuple[int, BatchHeader | None]:
    """Return how a loop over batches ends here, or the header of the next ordinary batch."""
    if end - pos < HEADER_SIZE:
        return c.DONE, None
    try:
        header = read_header(data, pos)
    except RecordsError:
        return c.SPECIAL, None
    if header.size > end - pos:
        return c.DONE, None
    try:
        verify_crc(data, pos, header)
    except RecordsError:
        return c.SPECIAL, None
    if header.attributes & c.SPECIAL_FLAGS or header.records_count < 0 or header.last_offset_delta < 0:
        return c.SPECIAL, None
    return c.DONE, header


def index_batches(
    data: Any, pos: int, end: int, cells: Any, m: Any, room: Any, crc_function: int, lz4: int
) -> tuple[int, int]:
    while True:
        status, header = _ordinary(data, pos, end)
        if header is None:
            return status, pos
        status = index_records(
            data, pos + HEADER_SIZE, pos + header.size, header.records_count, header.base_offset,
            header.last_offset_delta, cells, m,
        )  # fmt: skip
        if status != c.DONE:
            return status, pos
        if header.last_offset >= m[c.START_OFFSET]:
            m[c.LATEST_OFFSET] = header.last_offset
        pos += header.size


def filter_section(
    data: Any, start: int, end: int, count: int, base_offset: int, base_timestamp: int, last: int, mode: int,
    tombstones_stay: int, cells: Any, m: Any, f: Any, flags: Any,
) -> tuple[int, int, int, int]:  # fmt: skip
    kept = tombstones = unkeyed = 0
    most = -1
    try:
        for index, record in enumerate(_records(data, start, end, count, last)):
            offset = base_offset + record.offset_delta
            if mode == c.KEEP_ALL or offset > m[c.LATEST_OFFSET]:
                stays = True
            elif record.key is None:
                unkeyed += 1
                stays = False
            else:
                latest = cells[find_key(cells, m, record.key)[0] + c.NEXT_OFFSET] - 1
                stays = offset >= latest and (not record.is_tombstone or bool(tombstones_stay))
            flags[index] = stays
            if stays:
                kept += 1
                tombstones += record.is_tombstone
                most = max(most, int64(base_timestamp + record.timestamp_delta))
    except (RecordsError, ValueError):
        return c.BAD, 0, 0, 0
    f[c.RECORDS_READ] += count
    f[c.RECORDS_KEPT] += kept
    f[c.RECORDS_WITHOUT_KEY] += unkeyed
    return c.DONE, kept, tombstones, most


def write_section(data: Any, start: int, end: int, count: int, flags: Any, shift: int, out: Any) -> int:
    if len(out) < end - start + (c.GROWTH * count if shift else 0):
        return 0
    written = bytearray()
    for index, record in enumerate(_records(data, start, end, count, (1 << 31) - 1)):
        if not flags[index]:
            continue
        if not shift:
            written += bytes(data[record.start : record.end])
            continue
        body = bytearray(bytes(data[record.after_length : record.after_length + 1]))
        append_varint(body, int64(record.timestamp_delta + shift))
        body += bytes(data[record.after_timestamp : record.end])
        append_varint(written, len(body))
        written += body
    _put(out, 0, written)
    return len(written)


def filter_batches(
    data: Any, pos: int, end: int, cells: Any, m: Any, f: Any, owners: Any, flags: Any, out: Any, rows: Any,
    room: Any, crc_function: int, lz4: int, lz4_compress: int,
) -> tuple[int, int]:  # fmt: skip
    last_offsets = {int(owners[at]): int(owners[at + 1]) for at in range(0, len(owners), 2)}
    while True:
        status, header = _ordinary(data, pos, end)
        if header is None:
            return status, pos
        count = header.records_count
        if count * (c.MIN_RECORD_LENGTH + 1) > header.size - HEADER_SIZE:
            return c.BAD, pos
        used = int(f[c.OUT_USED])
        if header.size + c.GROWTH * count > len(out) - used or f[c.INDEX_ROWS] >= len(rows):
            return c.FULL, pos
        start, stop = pos + HEADER_SIZE, pos + header.size
        horizon = header.delete_horizon
        status, kept, tombstones, most = filter_section(
            data, start, stop, count, header.base_offset, header.base_timestamp, header.last_offset_delta, c.BY_MAP,
            horizon is None or f[c.NOW] < horizon, cells, m, f, flags,
        )  # fmt: skip
        if status != c.DONE:
            return status, pos
        batch: bytes | bytearray = b""
        if kept == count and kept and not (tombstones and horizon is None):
            batch = bytes(data[pos:stop])
        elif kept:
            if not header.is_log_append_time:
                header = header._replace(max_timestamp=most)
            shift = 0
            if tombstones and horizon is None:
                base_timestamp = int(f[c.NOW] + f[c.DELETE_RETENTION])
                shift = header.base_timestamp - base_timestamp
                header = header._replace(
                    base_timestamp=base_timestamp, attributes=header.attributes | c.DELETE_HORIZON_FLAG
                )
            room = bytearray(stop - start + c.GROWTH * count)
            size = write_section(data, start, stop, count, flags, shift, room)
            batch = pack_header(header._replace(records_count=kept), room[:size])
        elif header.producer_id >= 0 and last_offsets.get(header.producer_id) == header.last_offset:
            attributes = header.attributes & ~c.DELETE_HORIZON_FLAG
            batch = pack_header(header._replace(attributes=attributes, base_timestamp=-1, records_count=0), b"")
        if batch:
            _put(out, used, batch)
            _note(f, rows, int(f[c.OUT_POSITION]) + used, len(batch), header.last_offset, header.max_timestamp)
            f[c.OUT_USED] = used + len(batch)
        pos = stop


def _put(out: Any, at: int, data: bytes | bytearray) -> None:
    memoryview(out)[at : at + len(data)] = data


def _note(f: Any, rows: Any, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
    if max_timestamp > f[c.MAX_TIMESTAMP]:
        f[c.MAX_TIMESTAMP], f[c.MAX_TIMESTAMP_OFFSET] = max_timestamp, last_offset
    if f[c.BYTES_SINCE_INDEX] > f[c.INDEX_INTERVAL]:
        rows[f[c.INDEX_ROWS]] = last_offset, position, f[c.MAX_TIMESTAMP], f[c.MAX_TIMESTAMP_OFFSET]
        f[c.INDEX_ROWS] += 1
        f[c.BYTES_SINCE_INDEX] = 0
    f[c.BYTES_SINCE_INDEX] += size
