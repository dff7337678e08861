"""Decoding to Arrow, with the topic and partition of the tests."""

from __future__ import annotations

from typing import Any

from kafkalog.records.arrow import decode_arrow
from tests.kafkalog.records.support import (
    ALL_COLUMNS,
)

END = 2**62


def _decode(buf: bytes, start: int = 0, end: int = END, columns: Any = ALL_COLUMNS, **options: Any) -> Any:
    return decode_arrow(buf, topic="t", partition=3, start=start, end=end, columns=columns, **options)


def _values(buf: bytes, **options: Any) -> tuple[list[bytes | None], int]:
    batch, next_offset = _decode(buf, columns=["value"], **options)
    return [] if batch is None else batch.column(0).to_pylist(), next_offset
