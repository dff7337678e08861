"""A consumer that does nothing with what it gets: Fetch requests over one socket, in bytes written by hand.

It shows what the broker can do when no client library is the bottleneck. Fetch v4 of one partition (KIP-98):

| request | | response | |
|--|--|--|--|
| int32 | length | int32 | length |
| int16, int16, int32, string | api key 1, version 4, correlation, client id | int32 | correlation |
| int32 | replica -1 | int32 | throttle time |
| int32, int32, int32 | max wait, min bytes, max bytes | int32, string | 1 topic: name |
| int8 | isolation | int32, int32 | 1 partition: number |
| int32, string | 1 topic: name | int16, int64, int64 | error, high watermark, last stable offset |
| int32, int32, int64, int32 | 1 partition: number, offset, max bytes | int32 | aborted transactions: 0 or -1 |
| | | int32 + n | record batches, the last one perhaps cut off |
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

MAX_BYTES = 1 << 20
_CLIENT_ID = b"raw"
_BATCH_HEAD = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


def drain(bootstrap: str, topic: str, ends: Sequence[int]) -> int:
    """Fetch every partition to its end, one request of 1 MiB in flight; return the bytes of record batches."""
    return sum(sum(stream(bootstrap, topic, partition, end)) for partition, end in enumerate(ends))


def stream(bootstrap: str, topic: str, partition: int, end: int) -> Iterator[int]:
    """Fetch a partition to its end in the same way; yield the bytes of record batches of each answer."""
    host, _, port = bootstrap.rpartition(":")
    buffer = bytearray(MAX_BYTES + (1 << 20))
    offset = 0
    with socket.create_connection((host, int(port)), 60) as sock:
        while offset < end:
            sock.sendall(_request(topic.encode(), partition, offset))
            records = _records(sock, buffer, len(topic))
            offset = _next_offset(records, offset)
            yield len(records)


def _request(topic: bytes, partition: int, offset: int) -> bytes:
    body = struct.pack(">hhih", 1, 4, 1, len(_CLIENT_ID)) + _CLIENT_ID
    body += struct.pack(">iiiibi", -1, 500, 1, 50 << 20, 0, 1)
    body += struct.pack(">h", len(topic)) + topic + struct.pack(">iiqi", 1, partition, offset, MAX_BYTES)
    return struct.pack(">i", len(body)) + body


def _records(sock: socket.socket, buffer: bytearray, topic_length: int) -> memoryview:
    _read(sock, memoryview(buffer)[:4])
    (size,) = struct.unpack_from(">i", buffer)
    view = memoryview(buffer)[:size]
    _read(sock, view)
    at = 4 + 4 + 4 + 2 + topic_length + 4
    _, error, _, _, aborted, length = struct.unpack_from(">ihqqii", view, at)
    if error or aborted > 0 or length <= 0:
        raise RuntimeError(f"fetch failed: error code {error}, {aborted} aborted transactions, {length} bytes")
    at += struct.calcsize(">ihqqii")
    return view[at : at + length]


def _read(sock: socket.socket, view: memoryview) -> None:
    got = 0
    while got < len(view):
        count = sock.recv_into(view[got:])
        if not count:
            raise ConnectionError("the broker closed the connection")
        got += count


def _next_offset(records: memoryview, offset: int) -> int:
    """Return the offset after the last whole batch."""
    at = 0
    while at + 61 <= len(records):
        base, length = _BATCH_HEAD.unpack_from(records, at)
        if at + 12 + length > len(records):
            break
        offset = base + _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0] + 1
        at += 12 + length
    if not at:
        raise RuntimeError("fetched no whole batch")
    return offset
