"""Test what a new process imports to decode and encode records: each planner and worker of Spark is one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkalog.records.batch import Record, encode_batch

_DECODE = """
import sys
from kafkalog.records.arrow import arrow_schema, decode_arrow, encode_arrow
from kafkalog.records.arrow.grouping import headers_lengths, lengths
columns = [field.name for field in arrow_schema({columns})]
batch, _ = decode_arrow(bytes.fromhex("{data}"), topic="t", partition=3, start=0, end=2, columns=columns)
encode_arrow(*(batch[name] for name in ("key", "value", "timestamp", "headers")))
sizes = lengths(batch["value"]).sum() + headers_lengths(batch["headers"])[1].sum()
print(batch.num_rows, sizes, "pyarrow" in sys.modules, "pandas" in sys.modules)
"""
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@pytest.mark.usefixtures("processes")
def test_pandas_is_not_imported() -> None:
    data = encode_batch([Record(0, 5, b"key", b"value"), Record(1, 6, None, None, (("name", b"of a header"),))])
    code = _DECODE.format(columns=_COLUMNS, data=data.hex())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == ["2", "20", "True", "False"]
