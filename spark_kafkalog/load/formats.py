"""The formats of data files: writers of Arrow record batches.

- `parquet`: zstd; offsets and timestamps as deltas, repeated values as dictionaries. A row group has about
  ROW_GROUP_BYTES of Arrow data.
- `avro`: an object container file with snappy blocks, through `fastavro` (extra `avro`). It is written record by
  record in Python, for readers that need Avro, not for speed.
- `raw`: only the values. For each record, the length of its value as four bytes, big-endian, and the value; length -1
  is a null value. There are no separators, so a value may be any bytes.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog.records.arrow import arrow_schema
from spark_kafkalog.load.load_options import COMPRESSION_LEVEL

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
SCHEMA = arrow_schema(COLUMNS)
ROW_GROUP_BYTES = 64 << 20

_LENGTH = struct.Struct(">i")
_AVRO_SCHEMA = {
    "type": "record",
    "name": "KafkaRecord",
    "namespace": "kafkalog",
    "fields": [
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "timestampType", "type": "int"},
        {
            "name": "headers",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Header",
                        "fields": [
                            {"name": "key", "type": ["null", "string"]},
                            {"name": "value", "type": ["null", "bytes"]},
                        ],
                    },
                },
            ],
        },
    ],
}


class FormatWriter(ABC):
    """Writes record batches of SCHEMA to a file that the caller opens and closes."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Write the remaining rows."""

    @abstractmethod
    def flush(self) -> None:
        """Write the rows that wait in memory."""

    pending: int = 0
    """Bytes that wait in memory."""


class ParquetFormat(FormatWriter):
    """Writes Parquet; collects batches into row groups."""

    def __init__(self, file: IO[bytes], level: int = COMPRESSION_LEVEL) -> None:
        deltas = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
        self._writer = pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            compression_level=level,
            use_dictionary=["topic", "partition", "timestampType"],
            column_encoding=deltas,
            write_statistics=["topic", "partition", "offset", "timestamp", "timestampType"],
        )
        self._waiting: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self.pending += batch.nbytes
        if self.pending >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._waiting = []
            self.pending = 0

    def close(self) -> None:
        self.flush()
        self._writer.close()


class AvroFormat(FormatWriter):
    """One block for about a thousand records, as fastavro cuts them."""

    def __init__(self, file: IO[bytes], level: int = 0) -> None:
        from fastavro import parse_schema
        from fastavro.write import Writer

        self._writer = Writer(file, parse_schema(_AVRO_SCHEMA), codec="snappy")

    def write(self, batch: pa.RecordBatch) -> None:
        # Plain microseconds: fastavro would convert datetimes, and no datetime is before the year 1.
        at = batch.schema.get_field_index("timestamp")
        micros = batch.column(at).cast(pa.int64())
        for record in batch.set_column(at, "timestamp", micros).to_pylist():
            self._writer.write(record)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.flush()


class RawFormat(FormatWriter):
    """Writes length-prefixed values."""

    def __init__(self, file: IO[bytes], level: int = 0) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        parts: list[bytes] = []
        for value in batch.column(batch.schema.get_field_index("value")).to_pylist():
            if value is None:
                parts.append(_LENGTH.pack(-1))
            else:
                parts += (_LENGTH.pack(len(value)), value)
        self._file.write(b"".join(parts))

    def flush(self) -> None:
        """Do nothing, because no row waits."""

    def close(self) -> None:
        """Do nothing, because every value is written already."""


WRITERS: dict[str, type[Any]] = {"parquet": ParquetFormat, "avro": AvroFormat, "raw": RawFormat}
"""Writers by the name of the format, which is also the suffix of its files."""


def read_raw(file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield the values of a `raw` file.

    Raises:
        EOFError: The file is cut off.
    """
    while head := file.read(_LENGTH.size):
        if len(head) < _LENGTH.size:
            raise EOFError("the file ends within a length")
        (length,) = _LENGTH.unpack(head)
        if length < 0:
            yield None
            continue
        value = file.read(length)
        if len(value) < length:
            raise EOFError(f"the file ends {length - len(value)} bytes before the end of a value")
        yield value
