"""Rows in Arrow columns, cut and joined into chunks of a good size for several partitions. Needs pyarrow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.client.producer.batches.record_encoding import (
    HEADER_OVERHEAD,
    KEY_OVERHEAD,
    PLAIN_OVERHEAD,
    TIMESTAMP_OVERHEAD,
)
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.records.arrow import encode_arrow
from kafkalog.records.arrow.grouping import Int64s, headers_lengths, lengths
from kafkalog.records.batch import HEADER_SIZE

CHUNK_BYTES = 4 << 20
"""The bytes of rows that are divided among partitions at a time: enough for a batch of good size for each of many
partitions."""
MEMORY_SHARE = 4
"""A chunk takes at most one MEMORY_SHARE-th of buffer.memory, so that the next chunk is encoded while one is being
sent."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Places(Protocol):
    """The indexes of the columns in a batch; None for a column that is missing."""

    @property
    def value(self) -> int: ...
    @property
    def key(self) -> int | None: ...
    @property
    def topic(self) -> int | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def headers(self) -> int | None: ...
    @property
    def timestamp(self) -> int | None: ...


@dataclass(frozen=True)
class Chunk:
    """The columns of some rows; None for a column that is missing."""

    values: pa.Array
    """Binary; so are the keys."""
    keys: pa.Array | None = None
    topics: pa.Array | None = None
    """Strings."""
    partitions: pa.Array | None = None
    """int32."""
    headers: pa.Array | None = None
    """Rows in the form that `kafkalog.records.arrow.encode_arrow` takes."""
    timestamps: pa.Array | None = None
    """int64, in ms; None for the present time."""

    def __len__(self) -> int:
        return len(self.values)

    def record_sizes(self) -> Int64s:
        """Return the maximum of bytes that each row's record takes in a batch."""
        sizes = lengths(self.values) + PLAIN_OVERHEAD
        if self.keys is not None:
            sizes += lengths(self.keys) + KEY_OVERHEAD
        if self.headers is not None:
            count, data = headers_lengths(self.headers)
            sizes += count * HEADER_OVERHEAD + data
        if self.timestamps is not None:
            sizes += TIMESTAMP_OVERHEAD
        return sizes

    def encode(self, rows: Int64s, config: ProducerConfig) -> list[bytearray]:
        """Encode some rows as record batches, for `Producer.send_batch`."""
        return encode_arrow(
            self.keys,
            self.values,
            int(time.time() * 1000) if self.timestamps is None else self.timestamps,
            self.headers,
            order=None if len(rows) == len(self) else rows,
            codec=config.compression,
            level=config.compression_level,
            max_batch_bytes=config.batch_limit,
            max_single_bytes=config.max_request_size + HEADER_SIZE,
        )


def chunk_bytes(config: ProducerConfig) -> int:
    """Return how many bytes of rows a chunk should have."""
    return max(min(CHUNK_BYTES, config.buffer_memory // MEMORY_SHARE), 1)


def chunks(batches: Iterable[pa.RecordBatch], columns: Places, size: int) -> Iterator[Chunk]:
    """Divide rows into chunks of about `size` bytes; the last one is smaller, and there is none without rows.

    A chunk has at least one row, and less than twice as many bytes, unless rows differ much in size.
    """
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        for part in _cut(batch, size):
            waiting.append(part)
            waiting_bytes += part.nbytes
            if waiting_bytes >= size:
                yield _join(waiting, columns)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield _join(waiting, columns)


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts with equal numbers of rows and about `size` bytes at most; no part without rows."""
    rows = batch.num_rows
    parts = min(-(-batch.nbytes // size), rows)
    if rows and parts <= 1:
        yield batch
        return
    for part in range(parts):
        start, end = rows * part // parts, rows * (part + 1) // parts
        yield batch.slice(start, end - start)


def _join(batches: Sequence[pa.RecordBatch], columns: Places) -> Chunk:
    def column(place: int | None, kind: pa.DataType) -> pa.Array | None:
        if place is None:
            return None
        arrays = [batch.column(place) for batch in batches]
        array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return array if array.type == kind else pc.cast(array, kind)

    return Chunk(
        values=column(columns.value, pa.binary()),
        keys=column(columns.key, pa.binary()),
        topics=column(columns.topic, pa.string()),
        partitions=column(columns.partition, pa.int32()),
        headers=column(columns.headers, _HEADERS),
        timestamps=column(columns.timestamp, pa.int64()),
    )
