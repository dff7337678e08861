"""Arrow batches as Spark hands them out, cut and joined to chunks that are worth spreading over partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.client.producer.encoding import HEADER_OVERHEAD, KEY_OVERHEAD, PLAIN_OVERHEAD
from kafkalog.records.grouping import Int64s, headers_lengths, lengths

from .schema import SinkColumns

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Chunk:
    """Columns of some rows; None for those that are not there."""

    values: pa.Array
    """Binary, as are the keys."""
    keys: pa.Array | None = None
    topics: pa.Array | None = None
    """Strings."""
    partitions: pa.Array | None = None
    """int32."""
    headers: pa.Array | None = None
    """As ``kafkalog.records.arrow.encode_arrow`` takes them."""

    def __len__(self) -> int:
        return len(self.values)

    def record_sizes(self) -> Int64s:
        """The most bytes that each row's record takes in a batch."""
        sizes = lengths(self.values) + PLAIN_OVERHEAD
        if self.keys is not None:
            sizes += lengths(self.keys) + KEY_OVERHEAD
        if self.headers is not None:
            count, data = headers_lengths(self.headers)
            sizes += count * HEADER_OVERHEAD + data
        return sizes


def chunks(batches: Iterable[pa.RecordBatch], columns: SinkColumns, size: int) -> Iterator[Chunk]:
    """The rows of `batches` in chunks of about `size` bytes, the last one of less; none where there are no rows.

    A chunk has at least one row, and less than twice as many bytes unless rows differ much in size.
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
    """The batch in parts of as many rows each, so that a part has about `size` bytes at most; none without rows."""
    rows = batch.num_rows
    parts = min(-(-batch.nbytes // size), rows)
    if rows and parts <= 1:
        yield batch
        return
    for part in range(parts):
        start, end = rows * part // parts, rows * (part + 1) // parts
        yield batch.slice(start, end - start)


def _join(batches: Sequence[pa.RecordBatch], columns: SinkColumns) -> Chunk:
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
    )
