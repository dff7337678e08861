"""Strategies of records, and the expected result of decoding, computed in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from kafkalog.records.batch import Record, decode_batch, iter_headers
from kafkalog.records.compression import Codec

ALL_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
CODECS = list(Codec)
MICROS_MAX = 9223372036854775000

blobs = st.none() | st.binary(max_size=40) | st.integers(0, 2000).map(lambda size: b"v" * size)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
timestamps = st.integers(0, 2**41) | st.integers(-(2**62), 2**62)


@st.composite
def record_lists(draw: Any, min_size: int = 1, max_size: int = 12) -> list[Record]:
    """Draw records at increasing offsets from 0, with gaps as compaction leaves them."""
    count = draw(st.integers(min_size, max_size))
    records = []
    offset = -1
    for _ in range(count):
        offset += draw(st.sampled_from([1, 1, 1, 2, 100, 10000]))
        records.append(Record(offset, draw(timestamps), draw(blobs), draw(blobs), draw(headers)))
    return records


def expected_columns(buf: bytes, start: int, end: int, columns: Sequence[str], topic: str, partition: int) -> Any:
    """Return the columns of all records from start to end - 1, by the reader in plain Python; timestamps in us."""
    rows = []
    for pos, header in iter_headers(buf):
        if header.base_offset >= end:
            break
        if header.last_offset < start or header.is_control:
            continue
        _, records = decode_batch(buf, pos, check_crc=False)
        rows += [
            {
                "key": record.key,
                "value": record.value,
                "topic": topic,
                "partition": partition,
                "offset": record.offset,
                "timestamp": max(min(record.timestamp * 1000, MICROS_MAX), -MICROS_MAX),
                "timestampType": int(header.is_log_append_time),
                "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
            }
            for record in records
            if start <= record.offset < end
        ]
    return {name: [row[name] for row in rows] for name in columns}


def column_values(batch: Any) -> Any:
    """Return a record batch's columns as Python values; timestamps in us, because not all fit a datetime."""
    if batch is None:
        return None
    batch.validate(full=True)
    return {
        field.name: (column.view(pa.int64()) if field.name == "timestamp" else column).to_pylist()
        for field, column in zip(batch.schema, batch.columns, strict=True)
    }
