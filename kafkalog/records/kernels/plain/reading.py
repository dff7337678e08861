"""The reading kernels in plain Python: used until the compiled ones are loaded, and as their oracle.

They are written from the format (`batch.py`), not from the compiled twin, and for clarity rather than speed. Signatures
and results are the same; see `compiled/reading.py` for what each does.
"""

from __future__ import annotations

from kafkalog.records.compression import Buffer
from kafkalog.records.kernels.abi import status as s
from kafkalog.records.varint import int64


class _StopError(Exception):
    """A record breaks a rule; carries the status."""

    def __init__(self, status: int) -> None:
        self.status = status


def _varint(data: Buffer, at: int, end: int, bits: int = 32) -> tuple[int, int]:
    raw = shift = 0
    while shift < bits:
        if at >= end:
            raise _StopError(s.TRUNCATED)
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                raise _StopError(s.BAD_VARINT)
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    raise _StopError(s.BAD_VARINT)


def _span(data: Buffer, at: int, end: int) -> tuple[int, int, int]:
    """Return start and end (start - 1 for null) of a length-prefixed field, and where the next field begins."""
    length, at = _varint(data, at, end)
    if length < -1:
        raise _StopError(s.BAD_LENGTH)
    if length > end - at:
        raise _StopError(s.TRUNCATED)
    return at, at + length, at + max(length, 0)


class Fields:
    """One record's fields, as positions in the buffer: `key` and others are (start, end), with end < start for null."""

    __slots__ = ("headers", "key", "next", "offset_delta", "timestamp_delta", "value")

    def __init__(self, data: Buffer, at: int, end: int) -> None:
        """Read the record at `at`, which must end by `end`."""
        if at >= end:
            raise _StopError(s.TOO_FEW)
        length, at = _varint(data, at, end)
        if length < 0:
            raise _StopError(s.BAD_LENGTH)
        if length > end - at:
            raise _StopError(s.TRUNCATED)
        end = at + length
        if length < 1:
            raise _StopError(s.TRUNCATED)
        self.timestamp_delta, at = _varint(data, at + 1, end, 64)
        self.offset_delta, at = _varint(data, at, end)
        start, stop, at = _span(data, at, end)
        self.key = (start, stop)
        start, stop, at = _span(data, at, end)
        self.value = (start, stop)
        count, at = _varint(data, at, end)
        if not 0 <= 2 * count <= end - at:
            raise _StopError(s.BAD_HEADERS)
        self.headers: list[tuple[int, int, int, int]] = []
        for _ in range(count):
            key_start, key_end, at = _span(data, at, end)
            if key_end < key_start:
                raise _StopError(s.NO_HEADER_KEY)
            start, stop, at = _span(data, at, end)
            self.headers.append((key_start, key_end, start, stop))
        if at != end:
            raise _StopError(s.RECORD_SIZE)
        self.next = at


def validate_records(
    data: Buffer, start: int, end: int, count: int, base_timestamp: int, require_keys: bool
) -> tuple[int, int, int, int]:
    """Check the `count` records in `data[start:end]`.

    Return a status, the index of the record it is about, the least and the largest timestamp.
    """
    at = start
    timestamps = []
    for index in range(count):
        try:
            record = Fields(data, at, end)
        except _StopError as stop:
            return stop.status, index, 0, 0
        if record.offset_delta != index:
            return s.BAD_DELTA, index, 0, 0
        if require_keys and record.key[1] < record.key[0]:
            return s.NO_KEY, index, 0, 0
        timestamps.append(int64(base_timestamp + record.timestamp_delta))
        at = record.next
    if at != end:
        return s.TOO_MANY, count, 0, 0
    return s.OK, count, min(timestamps, default=0), max(timestamps, default=0)
