"""Write log directories batch by batch, for logs that no broker would leave, and read them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kafkalog.records.batch import Record, encode_batch, read_header
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from spark_kafkalog.columns import source_schema
from spark_kafkalog.offline.offline_options import OfflineOptions
from spark_kafkalog.offline.offline_reader import OfflineBatchReader
from spark_kafkalog.offline.piece_reader import OfflinePartition
from tests.spark_kafkalog.without_spark import chosen, copied, read_partitions

T0_MS = 1_700_000_000_000


def batch(base: int, count: int = 1, *, codec: Codec = Codec.NONE, size: int = 10, **fields: Any) -> bytes:
    """Return records at offsets base..base+count-1; values name the offset, and timestamps grow with it."""
    records = [Record(n, T0_MS + n, None, b"%0*d" % (size, n), ()) for n in range(base, base + count)]
    return bytes(encode_batch(records, codec=codec, base_offset=base, **fields))


def marker(base: int, producer_id: int, kind: ControlRecordType) -> bytes:
    """Return the batch that ends a transaction."""
    return bytes(
        EndTransactionMarker(kind, 0).encode(
            timestamp=T0_MS + base, producer_id=producer_id, producer_epoch=0, base_offset=base
        )
    )


def write_segment(
    directory: Path, batches: Sequence[bytes], *, base: int | None = None, index_every: int = 1, suffix: str = ""
) -> Path:
    """Write a segment, and an offset index with an entry for every `index_every` batches (0: no index)."""
    directory.mkdir(parents=True, exist_ok=True)
    headers = [read_header(each) for each in batches]
    name = f"{headers[0].base_offset if base is None else base:020d}"
    log = directory / f"{name}.log{suffix}"
    log.write_bytes(b"".join(batches))
    if index_every:
        position, entries = 0, b""
        for number, header in enumerate(headers):
            if number and number % index_every == 0:
                entries += struct.pack(">ii", header.last_offset - int(name), position)
            position += header.size
        (directory / f"{name}.index{suffix}").write_bytes(entries)
    return log


def write_snapshot(directory: Path, offset: int, under_way: dict[int, int]) -> None:
    """Write a producer snapshot with these transactions (producer id to first offset)."""
    from kafkalog.storage.snapshots import SnapshotEntry, encode

    entries = [SnapshotEntry(pid, 0, 0, first, 0, T0_MS, 0, first) for pid, first in under_way.items()]
    (directory / f"{offset:020d}.snapshot").write_bytes(encode(entries))


def plan(path: Path | str, schema: StructType | None = None, /, **options: Any) -> list[OfflinePartition]:
    """Return the tasks of a query."""
    return list(reader(path, schema, **options).partitions())  # type: ignore[arg-type]


def reader(path: Path | str, schema: StructType | None = None, /, **options: Any) -> OfflineBatchReader:
    given = {"path": str(path)} | {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    parsed = OfflineOptions.parse(given)
    made: OfflineBatchReader = copied(
        OfflineBatchReader(parsed, schema or source_schema(parsed.source.include_headers))
    )
    return made


def batches(path: Path | str, schema: StructType | None = None, /, **options: Any) -> list[pa.RecordBatch]:
    """Return what a query reads, its tasks in order."""
    reading = reader(path, schema, **options)
    parsed = schema or source_schema(options.get("includeHeaders") is True)
    return read_partitions(reading, reading.partitions() or [InputPartition(None)], parsed)


def rows(path: Path | str, schema: StructType | None = None, /, **options: Any) -> list[dict[str, Any]]:
    return [row for each in batches(path, schema, **options) for row in each.to_pylist()]


def offsets(path: Path | str, **options: Any) -> list[int]:
    """Return the offsets that a query reads, in order."""
    return [row["offset"] for row in rows(path, chosen("offset"), **options)]
