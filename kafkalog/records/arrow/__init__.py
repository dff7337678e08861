"""Fetched batches to Arrow columns, and Arrow columns to batches. Needs pyarrow.

Import `arrow_schema`, `decode_arrow` and `encode_arrow` from here.

- `decode`     batches to Arrow columns
- `columns`    the columns' growing buffers, in Arrow's layout
- `scratch`    memory that batches are decompressed to
- `encode`     Arrow columns to batches
- `integers`   columns of integers to numpy and back
- `grouping`   hashes of keys, sizes of records, rows by their group
- `json_text`  whether values can stand within a JSON document
"""

from __future__ import annotations

from kafkalog.records.arrow.decode import arrow_schema, decode_arrow
from kafkalog.records.arrow.encode import encode_arrow

__all__ = ["arrow_schema", "decode_arrow", "encode_arrow"]
