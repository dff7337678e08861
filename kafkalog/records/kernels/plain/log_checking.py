"""The checking kernel's twin in plain Python: for small logs, and as the oracle of the compiled one."""

from __future__ import annotations

from typing import Any

from kafkalog.records.compression import Buffer
from kafkalog.records.kernels.abi import check_layout as c
from kafkalog.records.kernels.abi import status as s
from kafkalog.records.kernels.plain.reading import Fields, _StopError


def check_records(data: Buffer, start: int, end: int, count: int, last_delta: int, counts: Any) -> tuple[int, int]:
    """Return a status and the index of the record it is about; add to `counts` as `compiled/log_checking.py` does."""
    at, previous = start, -1
    for index in range(count):
        try:
            record = Fields(data, at, end)
        except _StopError as stop:
            return stop.status, index
        if not previous < record.offset_delta <= last_delta:
            return s.BAD_DELTA, index
        previous = record.offset_delta
        at = record.next
        for (first, behind), null, total, largest in (
            (record.key, c.NULL_KEYS, c.KEY_BYTES, c.LARGEST_KEY),
            (record.value, c.NULL_VALUES, c.VALUE_BYTES, c.LARGEST_VALUE),
        ):
            if behind < first:
                counts[null] += 1
            else:
                counts[total] += behind - first
                counts[largest] = max(counts[largest], behind - first)
        for key_start, key_end, value_start, value_end in record.headers:
            counts[c.HEADERS] += 1
            counts[c.HEADER_BYTES] += key_end - key_start + max(value_end - value_start, 0)
        counts[c.RECORDS] += 1
    return (s.TOO_MANY, count) if at != end else (s.OK, count)
